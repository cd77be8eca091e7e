"""`optimize_and_compile`: what it takes, its keywords, and what it says where they are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import optimize_and_compile
from eqsat import tensor as t
from eqsat.cost.roofline import Terms
from eqsat.find_target import find_target
from eqsat.options import Budget
from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import load as load_tiny

RNG = np.random.default_rng(0)


def linear(free: tuple[str, ...] = ()) -> dict[str, Any]:
    """relu(x @ w + b); the sizes named in `free` are symbols."""
    m, k, n = (name if name in free else size for name, size in (("M", 3), ("K", 4), ("N", 5)))
    return {
        "uops": [
            {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": [m, k]}},
            {"id": "w", "uop": "INPUT", "arg": {"tensor_id": "w", "dtype": "fp32", "shape": [k, n]}},
            {"id": "b", "uop": "INPUT", "arg": {"tensor_id": "b", "dtype": "fp32", "shape": [n]}},
            {"id": "x3", "uop": "RESHAPE", "src": ["x"], "arg": {"result_shape": [m, 1, k]}},
            {"id": "wt", "uop": "PERMUTE", "src": ["w"], "arg": {"perm": [1, 0]}},
            {"id": "w3", "uop": "RESHAPE", "src": ["wt"], "arg": {"result_shape": [1, n, k]}},
            {"id": "p", "uop": "MUL", "src": ["x3", "w3"]},
            {"id": "s", "uop": "REDUCE", "src": ["p"], "arg": {"op": "SUM", "axes": [2], "dtype": "fp32"}},
            {"id": "a", "uop": "ADD", "src": ["s", "b"]},
            {"id": "y", "uop": "RELU", "src": ["a"]},
        ]
    }


X, W, BIAS = (RNG.standard_normal(shape, dtype=np.float32) for shape in ((3, 4), (4, 5), (5,)))
Y = np.maximum(X @ W + BIAS, 0)


def refused(kind: Kind, source: Any, **keywords: Any) -> EqsatError:
    with pytest.raises(EqsatError) as caught:
        optimize_and_compile(source, **keywords)
    assert caught.value.kind is kind, caught.value
    json.dumps(caught.value.to_json())
    return caught.value


def test_every_form_of_a_tiny_program_is_the_same_program(tmp_path: Path) -> None:
    graph, _ = load_tiny(linear())
    file = tmp_path / "linear.json"
    file.write_text(json.dumps(linear()) + "  // a remark")
    for source in (linear(), json.dumps(linear()), file, str(file), graph):
        program = optimize_and_compile(source, threads=1)
        np.testing.assert_allclose(program(X, W, BIAS), Y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "source", [None, 3, [], object(), [t.input("x", (2,)), 3], "no/such/file.json", "{", "[1]", b"x"]
)
def test_what_is_no_program_is_refused(source: Any) -> None:
    refused(Kind.MALFORMED_GRAPH, source)


def test_what_is_no_program_is_named(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text("[")
    assert "damaged.json`): not JSON" in str(refused(Kind.MALFORMED_GRAPH, damaged))
    assert "a list of outputs" in str(refused(Kind.MALFORMED_GRAPH, []))
    assert "no model at all" not in str(refused(Kind.MALFORMED_GRAPH, b"no model at all"))


def test_constants_leave_the_signature_and_are_folded() -> None:
    program = optimize_and_compile(linear(), constants={"w": W, "b": BIAS.tolist()}, threads=1)
    assert program.arguments == ("x",)
    np.testing.assert_allclose(program(X), Y, rtol=1e-5, atol=1e-6)
    x, w = t.input("x", (3,)), t.input("w", (3,))
    folded = optimize_and_compile(x + (w * 2).exp(), constants={"w": np.arange(3, dtype=np.float32)}, threads=1)
    assert [len(kernel.uops) for kernel in folded.kernels] == [1], "only the addition is left to run"
    np.testing.assert_allclose(folded(np.ones(3, np.float32)), 1 + np.exp(2 * np.arange(3)), rtol=1e-6)


def test_constants_of_a_product_are_packed() -> None:
    x, w = t.input("x", (64, 48)), RNG.standard_normal((48, 64), dtype=np.float32)
    program = optimize_and_compile(x @ t.input("w", (48, 64)), constants={"w": w}, threads=1)
    given = RNG.standard_normal((64, 48), dtype=np.float32)
    np.testing.assert_allclose(program(given), given @ w, rtol=1e-4, atol=1e-4)
    assert "pack" in program.source()


def test_a_program_keeps_the_constants_that_it_was_given() -> None:
    w = np.ones(3, np.float32)
    lazily = t.constant(w)
    program = optimize_and_compile(t.input("x", (3,)) * t.input("w", (3,)) + lazily, constants={"w": w}, threads=1)
    w[:] = 100
    np.testing.assert_array_equal(program(np.ones(3, np.float32)), [2, 2, 2])


@pytest.mark.parametrize(
    "constants", [{"nope": W}, {"w": W.T}, {"w": W.astype(np.float64)}, {"w": None}, {"w": W[0]}, {"b": np.float32(1)}]
)
@pytest.mark.parametrize("free", [(), ("M", "N")])
def test_unfit_constants_are_refused_at_once(constants: dict[str, Any], free: tuple[str, ...]) -> None:
    with pytest.raises(EqsatError) as caught:
        optimize_and_compile(linear(free), constants=constants)
    assert caught.value.kind is Kind.INPUT_MISMATCH


def test_sizes_come_from_dims_from_constants_and_from_calls() -> None:
    program = optimize_and_compile(linear(("M", "K", "N")), dims={"M": 3}, constants={"w": W}, threads=1)
    assert program.variants == [{}], "w says K and N"
    np.testing.assert_allclose(program(X, BIAS), Y, rtol=1e-5, atol=1e-6)
    free = optimize_and_compile(linear(("M", "K", "N")), constants={"w": W}, threads=1)
    np.testing.assert_allclose(free(X, BIAS), Y, rtol=1e-5, atol=1e-6)
    assert free.variants == [{"M": 3, "K": 4, "N": 5}]
    with pytest.raises(EqsatError) as caught:
        free(X[:, :3], BIAS)
    assert caught.value.kind is Kind.AXIS_SIZE_MISMATCH


def test_a_size_that_dims_gives_is_kept() -> None:
    program = optimize_and_compile(linear(("M", "N")), dims={"M": 3}, threads=1)
    with pytest.raises(EqsatError) as caught:
        program(np.zeros((4, 4), np.float32), W, BIAS)
    assert caught.value.kind is Kind.AXIS_SIZE_MISMATCH
    assert not program.variants


def test_dims_that_are_none_and_dims_that_nothing_uses() -> None:
    refused(Kind.MALFORMED_GRAPH, linear(("M",)), dims={"M": -1})
    refused(Kind.MALFORMED_GRAPH, linear(("M",)), dims={"M": 2.5})
    program = optimize_and_compile(linear(), dims={"Q": 3}, threads=1)
    warned = [diagnostic.kind for diagnostic in program.diagnostics if diagnostic.severity == "warning"]
    assert warned == [Kind.UNBOUND_DIM]
    again = optimize_and_compile(linear(), threads=1).diagnostics
    assert not [diagnostic for diagnostic in again if diagnostic.severity == "warning"], "it was the other call's"


def test_what_is_asked_before_a_size_is_known_is_unbound() -> None:
    program = optimize_and_compile(linear(("M",)))
    assert "free dims: M" in repr(program)
    for ask in (
        program.explain,
        program.source,
        lambda: program.cost,
        lambda: program.kernels,
        lambda: program.dump("tiny", as_json=True),
        lambda: program.save("nowhere"),
        program.random_inputs,
        program.verify,
    ):
        with pytest.raises(EqsatError) as caught:
            ask()
        assert caught.value.kind is Kind.UNBOUND_DIM
    assert "M" in str(caught.value)


def test_a_size_that_no_input_tells_is_unbound_at_the_call() -> None:
    source = {
        "uops": [
            {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": [12]}},
            {"id": "y", "uop": "RESHAPE", "src": ["x"], "arg": {"result_shape": ["P", "Q"]}},
        ]
    }
    program = optimize_and_compile(source)
    with pytest.raises(EqsatError) as caught:
        program(np.zeros(12, np.float32))
    assert caught.value.kind is Kind.UNBOUND_DIM
    assert optimize_and_compile(source, dims={"P": 3}, threads=1)(np.zeros(12, np.float32)).shape == (3, 4)


def test_unknown_choices_say_what_there_is() -> None:
    assert "cpu" in str(refused(Kind.UNKNOWN_TARGET, linear(), target="tpu"))
    assert "cpu" in str(refused(Kind.UNKNOWN_TARGET, linear(), target=None))
    for unknown in ("sm_70", "sm_100a", "H1000"):
        message = str(refused(Kind.UNKNOWN_TARGET, linear(), target=unknown))
        assert "sm80" in message
        assert "calibrated" in message
    assert find_target("H100") == find_target("sm_90")
    refused(Kind.INVALID_OPTION, linear(), target="cpu", emulate=True)
    refused(Kind.INVALID_OPTION, linear(), target="cpu", graph=True)
    assert "reassociate" in str(refused(Kind.INVALID_OPTION, linear(), exactness="roughly"))
    assert "fusion" in str(refused(Kind.INVALID_OPTION, linear(), rules=["fushion"]))
    assert "greedy" in str(refused(Kind.INVALID_OPTION, linear(), extractor="magic"))
    assert "roofline" in str(refused(Kind.INVALID_OPTION, linear(), cost_model="guess"))
    refused(Kind.INVALID_OPTION, linear(), budget=Budget(nodes=-1))
    refused(Kind.INVALID_OPTION, linear(), threads=0)
    refused(Kind.INVALID_OPTION, linear(), threads="two")


@pytest.mark.parametrize(
    "keywords",
    [
        {"rules": ()},
        {"rules": "movement"},
        {"exactness": "exact"},
        {"extractor": "greedy"},
        {"extractor": "tree"},
        {"cost_model": Terms(launch=False)},
        {"budget": Budget(nodes=1)},
        {"target": find_target("cpu")},
    ],
)
def test_every_choice_computes_the_same(keywords: dict[str, Any]) -> None:
    program = optimize_and_compile(linear(), threads=1, **keywords)
    np.testing.assert_allclose(program(X, W, BIAS), Y, rtol=1e-5, atol=1e-6)


def test_choices_have_an_effect() -> None:
    written = optimize_and_compile(linear(), rules=(), threads=1)
    assert written.stats.kernels_after > optimize_and_compile(linear(), threads=1).stats.kernels_after
    assert not any(written.stats.saturation.matches.values())
    stopped = optimize_and_compile(linear(), budget=Budget(iterations=0), threads=1)
    assert {str(phase.stop) for phase in stopped.stats.saturation.phases} == {"iteration_limit"}
    [warning] = [diagnostic for diagnostic in stopped.diagnostics if diagnostic.kind is Kind.RESOURCE_EXCEEDED]
    assert warning.severity == "warning"
    free_launch = optimize_and_compile(linear(), cost_model=Terms(launch=False), threads=1)
    assert free_launch.cost < optimize_and_compile(linear(), threads=1).cost


def test_strict_refuses_what_the_loader_would_insert() -> None:
    refused(Kind.BROADCAST_MISMATCH, linear(), strict=True)
    spelled = t.input("x", (3, 1)) * t.input("y", (2,))
    assert not optimize_and_compile(spelled, strict=True, threads=1).diagnostics
    assert optimize_and_compile(linear(), threads=1).diagnostics


def test_verify_compares_with_playback() -> None:
    program = optimize_and_compile(linear(), verify=True, threads=1)
    assert program.verify(seed=5).keys() == {"y"}
    free = optimize_and_compile(linear(("M",)), verify=True, threads=1)
    np.testing.assert_allclose(free(X, W, BIAS), Y, rtol=1e-5, atol=1e-6)


def test_progress_is_told_of_every_stage() -> None:
    heard: list[str] = []
    optimize_and_compile(t.input("x", (7,)) + 1, progress=heard.append, cache=False, threads=1)
    assert heard == ["saturate", "extract", "lower", "compile", "load"]


def test_a_gpu_is_a_target_by_its_name() -> None:
    assert find_target("h200").name == "H200"
    assert find_target("sm80") == find_target("sm_80") == find_target("a100")


def test_the_package_offers_what_it_says() -> None:
    assert eqsat.tensor is t
    assert {name for name in eqsat.__all__ if getattr(eqsat, name) is None} == set()
    with pytest.raises(AttributeError, match="nope"):
        eqsat.nope  # noqa: B018
