"""Barriers: the result of a uop is stored, and no reader computes it; results stay right."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat import EqsatError, nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.explanation.explore import explore
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from ir.diagnostics import Kind
from ir.tiny.bind import load

X, W, V = t.input("x", (12, 40)), t.input("w", (40, 24)), t.input("v", (24, 5))


def kernels(outputs: t.Tensor | dict[str, t.Tensor]) -> list[str]:
    return [kernel.name for kernel in explore(outputs, target="cpu").kernels]


@pytest.mark.parametrize(
    ("fused", "stored", "names"),
    [
        ((X @ W).relu(), t.barrier(X @ W).relu(), ["dot", "relu"]),
        ((X + 1).relu() * 2, t.barrier((X + 1).relu()) * 2, ["add_relu", "mul"]),
        (X.T.relu(), t.barrier(X.T).relu(), ["copy", "relu"]),
        ((X - X.max(axis=1, keepdims=True)).exp(), (X - t.barrier(X.max(axis=1))[:, None]).exp(), ["max", "sub_exp"]),
        (nn.layer_norm(X, 40), t.barrier(X.mean(axis=1)).exp(), ["sum_mul", "exp"]),
    ],
)
def test_a_barrier_parts_what_would_be_one_kernel(fused: t.Tensor, stored: t.Tensor, names: list[str]) -> None:
    assert len(kernels(fused)) == 1
    assert kernels(stored) == names


@pytest.mark.slow
def test_a_barrier_holds_for_all_readers_of_the_value() -> None:
    product = X @ W
    assert kernels({"y": t.barrier(product).relu(), "z": product.exp()})[0] == "dot"
    assert kernels({"z": product.exp(), "y": t.barrier(product).relu()})[0] == "dot"


@pytest.mark.slow
def test_results_are_right_and_the_reason_is_told() -> None:
    y = t.barrier(t.barrier(X @ W).relu() @ V).sum(axis=1)
    program = optimize_and_compile(y, target="cpu", threads=1)
    inputs = program.random_inputs()
    expected = (np.maximum(inputs["x"] @ inputs["w"], 0) @ inputs["v"]).sum(axis=1)
    np.testing.assert_allclose(program(**inputs), expected, rtol=1e-5, atol=1e-5)
    assert len(program.kernels) >= 3
    answer = program.why_not(0, 1)
    assert (answer.kind, "has a barrier" in answer.verdict) == ("barrier", True)


def test_barriers_are_part_of_a_program_in_all_its_forms() -> None:
    graph = load(tensor_to_tiny(t.barrier(X @ W).relu())[0])[0]
    assert "barrier=true" in str(graph)
    assert load(str(graph))[0] == graph == load(graph.to_json())[0]
    with pytest.raises(EqsatError) as caught:
        load({"uops": [{"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": [2]}},
                       {"id": "y", "uop": "RELU", "src": ["x"], "barrier": 1}]})  # fmt: skip
    assert caught.value.kind is Kind.MALFORMED_GRAPH
    assert t.barrier(X) is X


def test_a_barrier_inside_of_a_loop_and_of_repeated_layers() -> None:
    def step(h: t.Tensor, x: t.Tensor) -> tuple[t.Tensor, t.Tensor]:
        h = t.barrier(h * 0.5 + x).tanh()
        return h, h

    _, ys = t.scan(step, t.input("h", (6,)), t.input("xs", (5, 6)))
    program = optimize_and_compile(ys, target="cpu", threads=1)
    assert len(program.kernels) >= 2
    assert max(program.verify().values()) < 1e-5
