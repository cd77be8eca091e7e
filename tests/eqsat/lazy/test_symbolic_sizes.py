"""Functions of lazy tensors whose sizes are symbols: lowered for each set of sizes, with the errors of a program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import nn, optimize_and_compile, tensor
from ir.diagnostics import EqsatError, Kind

X = tensor.input("x", ("B", 8))
W = tensor.input("w", (8, 4))
WEIGHT = np.random.default_rng(2).standard_normal((8, 4)).astype(np.float32)


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, 8)).astype(np.float32)


def network(x: Any, w: Any) -> dict[str, Any]:
    """A movement, a product, a concatenation and a norm, whose sizes depend on the batch."""
    batch = x.shape[0]
    hidden = nn.layer_norm(x @ w, (4,)).reshape(batch * 2, 2)
    return {"probabilities": nn.softmax(hidden, dim=-1), "twice": tensor.concatenate([x, x]).sum(0)}


def wanted(x: np.ndarray) -> list[np.ndarray]:
    y = x @ WEIGHT
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    powers = np.exp(y.reshape(-1, 2))
    return [powers / powers.sum(-1, keepdims=True), 2 * x.sum(0)]


@pytest.mark.slow
def test_each_call_has_the_code_of_its_size() -> None:
    program = optimize_and_compile(tensor.program(network, X, W), threads=1)
    for count in (3, 1):
        for one, other in zip(program(x=rows(count), w=WEIGHT), wanted(rows(count)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_sizes_may_be_stated_and_weights_bound() -> None:
    program = optimize_and_compile(tensor.program(network, X, W), dims={"B": 4}, constants={"w": WEIGHT}, threads=1)
    actual = program(rows(4))
    np.testing.assert_allclose(actual[0], wanted(rows(4))[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(EqsatError, match="the program takes"):
        program(rows(3))


@pytest.mark.slow
def test_sizes_are_built_ahead_padded_and_saved(tmp_path: Path) -> None:
    program = optimize_and_compile(tensor.program(lambda x: x.relu().sum(1), X), dims={"B": [4, 8]}, threads=1)
    program.prepare()
    program.save(tmp_path / "program.eqsat")
    loaded = eqsat.load(tmp_path / "program.eqsat", threads=1)
    for count in (4, 8):
        np.testing.assert_allclose(loaded(x=rows(count)), rows(count).clip(0).sum(1), rtol=1e-5)
    padded = optimize_and_compile(
        tensor.program(lambda x: x.relu().sum(1), X), dims={"B": [4]}, when_missing="pad", threads=1
    )
    np.testing.assert_allclose(padded(x=rows(3)), rows(3).clip(0).sum(1), rtol=1e-5)


def test_one_symbol_is_one_size() -> None:
    y = tensor.input("y", ("B", "C"))
    program = optimize_and_compile(tensor.program(lambda x, y: x.sum() + y.sum(), X, y), threads=1)
    ones = np.ones((2, 3), np.float32)
    assert program(x=np.ones((2, 8), np.float32), y=ones) == 22
    with pytest.raises(EqsatError) as caught:
        program(x=np.ones((3, 8), np.float32), y=ones)
    assert caught.value.kind is Kind.AXIS_SIZE_MISMATCH


def test_a_size_that_is_no_symbol_of_the_program_is_a_warning() -> None:
    program = optimize_and_compile(tensor.program(lambda x: x + 1, X), dims={"B": 2, "Z": 3}, threads=1)
    assert [diagnostic.kind for diagnostic in program.diagnostics] == [Kind.UNBOUND_DIM]
    assert "'Z'" in str(program.diagnostics[0].message)


def test_an_argument_that_nothing_reads_stays() -> None:
    program = optimize_and_compile(tensor.program(lambda x, w: x + 1, X, W), threads=1)
    np.testing.assert_array_equal(program(rows(2), WEIGHT), rows(2) + 1)


def compiled(function: Any, *inputs: Any) -> Any:
    return optimize_and_compile(tensor.program(function, *inputs), dims={"B": 2}, threads=1)


OPEN: Any = X
REFUSED: dict[str, tuple[Kind, Callable[[], Any], str]] = {
    "an operator": (Kind.UNBOUND_DIM, lambda: OPEN + 1, "tensor.program"),
    "an operator on a tensor": (Kind.UNBOUND_DIM, lambda: W + OPEN, "tensor.program"),
    "a method": (Kind.UNBOUND_DIM, lambda: OPEN.sum(), "tensor.program"),
    "an index": (Kind.UNBOUND_DIM, lambda: OPEN[0], "tensor.program"),
    "a length": (Kind.UNBOUND_DIM, lambda: len(OPEN), "tensor.program"),
    "NumPy's function": (Kind.UNBOUND_DIM, lambda: np.exp(OPEN), "tensor.program"),
    "a function": (Kind.UNBOUND_DIM, lambda: nn.softmax(OPEN), "tensor.program"),
    "the input alone": (Kind.MALFORMED_GRAPH, lambda: optimize_and_compile(OPEN), "tensor.program"),
    "no symbol": (Kind.MALFORMED_GRAPH, lambda: tensor.input("x", ("B C", 8)), "symbol"),
    "no name": (Kind.MALFORMED_GRAPH, lambda: tensor.input("", ("B", 8)), "name"),
    "no function": (Kind.MALFORMED_GRAPH, lambda: tensor.program(OPEN), "function"),
    "no input": (Kind.MALFORMED_GRAPH, lambda: tensor.program(len, 3), "tensor.input"),  # type: ignore[arg-type]
    "a constant": (Kind.MALFORMED_GRAPH, lambda: tensor.program(len, tensor.constant(1)), "tensor.input"),
    "one name twice": (Kind.MALFORMED_GRAPH, lambda: tensor.program(len, X, X), "'x'"),
    "no result": (Kind.MALFORMED_GRAPH, lambda: compiled(lambda x: None, X), "returns nothing"),
    "another result": (Kind.MALFORMED_GRAPH, lambda: compiled(lambda x: [x, 3], X), "an int"),
    "an input of others": (Kind.MALFORMED_GRAPH, lambda: compiled(lambda x: x @ W, X), "'w'"),
    "sizes that do not fit": (Kind.AXIS_SIZE_MISMATCH, lambda: compiled(lambda x: x @ x, X), "contracted"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_sizes_is_refused(name: str) -> None:
    kind, call, word = REFUSED[name]
    with pytest.raises(EqsatError) as caught:
        call()
    assert caught.value.kind is kind, str(caught.value)
    assert word in str(caught.value)


def test_an_error_of_the_callers_function_reaches_the_caller() -> None:
    def fails(x: Any) -> Any:
        raise ZeroDivisionError("the caller's own")

    with pytest.raises(ZeroDivisionError, match="the caller's own"):
        compiled(fails, X)
