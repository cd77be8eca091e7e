"""Scatters as whole programs: `Tensor.scatter` beside NumPy, on CPUs and in the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import optimize_and_compile, tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import load

COMBINE: dict[str, np.ufunc | None] = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def scattered(x: np.ndarray, axis: int, index: np.ndarray, updates: np.ndarray, reduction: str) -> np.ndarray:
    """A plain loop over the updates."""
    result = x.copy()
    for at in np.ndindex(*index.shape):
        to = (*at[:axis], int(index[at]), *at[axis + 1 :])
        if 0 <= to[axis] < x.shape[axis]:
            ufunc = COMBINE[reduction]
            result[to] = updates[at] if ufunc is None else ufunc(result[to], updates[at])
    return result


def values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def positions(shape: tuple[int, ...], slots: int) -> np.ndarray:
    return np.random.default_rng(3).integers(-1, slots + 1, shape)


@pytest.mark.parametrize("reduction", COMBINE)
@pytest.mark.parametrize("axis", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(-1, marks=pytest.mark.slow)])
def test_scatter_is_a_loop_over_the_updates(reduction: str, axis: int) -> None:
    x, updates, index = values((4, 5, 6), 1), values((3, 5, 4), 2), positions((3, 5, 4), 5)
    place = axis % 3
    updated = tensor.input("x", x.shape).scatter(axis, tensor.input("i", index.shape, "i64"), updates, reduction)
    expected = scattered(x, place, index, updates, reduction)
    for threads in (1, 5):
        program = optimize_and_compile(updated, threads=threads)
        assert program(x=x, i=index).tobytes() == expected.tobytes()
    for target in ("sm_80", "sm_90") if axis == 1 else ():
        emulated = optimize_and_compile(updated, target=target, emulate=True)
        assert emulated(x=x, i=index).tobytes() == expected.tobytes()


@pytest.mark.slow
def test_scatter_adds_as_torch_and_numpy_do() -> None:
    torch = pytest.importorskip("torch")
    x, updates, index = values((6, 4), 1), values((9, 4), 2), np.random.default_rng(0).integers(0, 6, (9, 4))
    program = optimize_and_compile(tensor.input("x", x.shape).scatter(0, tensor.constant(index), updates, "add"))
    expected = x.copy()
    np.add.at(expected, (index, np.arange(4)), updates)
    assert program(x=x).tobytes() == expected.tobytes()
    theirs = torch.tensor(x).scatter_add(0, torch.tensor(index), torch.tensor(updates)).numpy()
    np.testing.assert_allclose(program(x=x), theirs, rtol=1e-6)


@pytest.mark.slow
def test_a_number_counts_and_indices_of_every_shape() -> None:
    labels = np.array([3, 0, 3, 3, 7, -1])
    counts = optimize_and_compile(tensor.full((5,), 0, "i64").scatter(0, tensor.input("i", (6,), "i64"), 1, "add"))
    assert counts(i=labels).tolist() == [1, 0, 0, 3, 0]
    x = values((3, 4), 0)
    for shape in ((0, 4), (2, 0), (1, 1), (3, 4)):
        index = np.zeros(shape, np.int64)
        program = optimize_and_compile(tensor.input("x", (3, 4)).scatter(0, tensor.input("i", shape, "i64"), 2.0))
        assert program(x=x, i=index).tobytes() == scattered(x, 0, index, np.full(shape, 2.0), "none").tobytes()
    empty = optimize_and_compile(tensor.input("x", (0, 4)).scatter(0, tensor.input("i", (2, 4), "i64"), 2.0, "add"))
    assert empty(x=values((0, 4), 0), i=np.zeros((2, 4), np.int64)).shape == (0, 4)


def test_operands_are_computed_in_the_kernel_of_the_scatter() -> None:
    x, g = tensor.input("x", (50, 8)), tensor.input("g", (20, 8))
    index = (tensor.input("i", (20,), "i64") * 2 - 1).unsqueeze(-1).expand(20, 8)
    program = optimize_and_compile((x * 3.0).scatter(0, index, (g + 1.0).relu(), "add"))
    assert [kernel.name for kernel in program.kernels] == ["scatter"]
    a, b, i = values((50, 8), 0), values((20, 8), 1), np.random.default_rng(2).integers(0, 26, 20)
    at = np.broadcast_to((i * 2 - 1)[:, None], (20, 8))
    expected = scattered(a * 3, 0, at, np.maximum(b + 1, 0), "add")
    assert program(x=a, g=b, i=i).tobytes() == expected.tobytes()
    program.verify()


def test_functions_of_the_result_are_applied_in_the_kernel_of_the_scatter() -> None:
    """A step of gradient descent: the gradient of an embedding, and the weights less a part of it."""
    weights, g = tensor.input("w", (50, 8)), tensor.input("g", (20, 8))
    index = tensor.input("i", (20,), "i64").unsqueeze(-1).expand(20, 8)
    gradient = tensor.full((50, 8), 0.0).scatter(0, index, g, "add")
    result = weights - gradient * 0.1
    a, b, i = values((50, 8), 0), values((20, 8), 1), np.random.default_rng(2).integers(0, 50, 20)
    total = scattered(np.zeros_like(a), 0, np.broadcast_to(i[:, None], (20, 8)), b, "add")
    for target in ("cpu", "sm_80"):
        program = optimize_and_compile(result, target=target, exactness="exact", emulate=target != "cpu")
        assert [len(kernel.writes) for kernel in program.kernels] == [1]
        assert program(w=a, g=b, i=i).tobytes() == (a - total * np.float32(0.1)).tobytes()


def test_kernels_of_one_title_have_phases_of_their_own() -> None:
    x, index = tensor.input("x", (7, 6)), tensor.input("i", (3, 6), "i64")
    parts = [(x * scale).scatter(0, index, scale, "add").relu() for scale in (1.5, 2.5, 3.5)]
    program = optimize_and_compile(parts)
    assert [kernel.function for kernel in program.kernels].count("eq_scatter_relu_2") == 1
    program.verify()


@pytest.mark.slow
def test_what_reads_a_scatter_elsewhere_is_a_kernel_of_its_own() -> None:
    x, index = tensor.input("x", (7, 6)), tensor.input("i", (3, 6), "i64")
    put = x.scatter(0, index, 1.5, "add")
    actual = (put.T.relu(), put.sum(0), put.scatter(1, put.cast("i64"), 2.0))
    a, i = values((7, 6), 0), positions((3, 6), 7)
    program = optimize_and_compile(actual)
    result = program(x=a, i=i)
    first = scattered(a, 0, i, np.full((3, 6), 1.5, np.float32), "add")
    np.testing.assert_allclose(result[1], first.sum(0), rtol=1e-5, atol=1e-5)
    again = scattered(first, 1, first.astype(np.int64), np.full((7, 6), 2.0, np.float32), "none")
    assert result[2].tobytes() == again.tobytes()
    program.verify()


def test_the_work_grows_with_positions_and_updates(tmp_path: Path) -> None:
    """Comparing every position with every update would be 10¹¹ comparisons."""
    x, index = values((1_000_000,), 0), np.random.default_rng(1).integers(0, 1_000_000, 100_000)
    put = tensor.input("x", x.shape).scatter(
        0, tensor.input("i", index.shape, "i64"), tensor.input("u", index.shape), "add"
    )
    program = optimize_and_compile(put)
    assert program.kernels[0].flops <= 1_100_000
    updates = values((100_000,), 2)
    expected = x.copy()
    np.add.at(expected, index, updates)
    assert program(x=x, i=index, u=updates).tobytes() == expected.tobytes()
    program.save(tmp_path / "program")
    loaded = eqsat.load(tmp_path / "program", recompile=True)
    assert loaded(x=x, i=index, u=updates).tobytes() == expected.tobytes()


def test_every_stage_shows_a_scatter() -> None:
    put = tensor.input("x", (6, 4)).scatter(0, tensor.input("i", (3, 4), "i64"), tensor.input("u", (3, 4)), "max")
    program = optimize_and_compile(put)
    graph, _ = load(tensor_to_tiny(put)[0])
    assert "scatter(%n0, %n1, %n2, axis=0, op=MAX)" in str(graph)
    assert load(str(graph))[0] == graph
    assert "scatter" in program.explain()
    assert "scatter.max[i0](x, at i: u)" in str(program.chain("scatter"))
    for stage in ("tiny", "egraph", "region", "indexbook", "poly_view", "poly_core", "plan", "cpu", "c"):
        assert "scatter" in str(program.dump(stage, as_json=True)).lower(), stage
    for stage in ("plan", "gpu", "cu"):
        assert "scatter" in str(optimize_and_compile(put, target="sm_80").dump(stage, as_json=True)).lower(), stage


BAD: dict[str, tuple[Kind, Any]] = {
    "another rank": (Kind.AXIS_SIZE_MISMATCH, lambda x, i: x.scatter(0, i[0], 1.0)),
    "a larger index": (Kind.AXIS_SIZE_MISMATCH, lambda x, i: x[:, :2].scatter(0, i, 1.0)),
    "no reduction": (Kind.MALFORMED_GRAPH, lambda x, i: x.scatter(0, i, 1.0, "mean")),
    "an axis beyond": (Kind.MALFORMED_GRAPH, lambda x, i: x.scatter(2, i, 1.0)),
    "an index of floats": (Kind.DTYPE_MISMATCH, lambda x, i: x.scatter(0, i * 1.5, 1.0)),
    "updates of another dtype": (Kind.DTYPE_MISMATCH, lambda x, i: x.scatter(0, i, i)),
    "updates of another shape": (Kind.BROADCAST_MISMATCH, lambda x, i: x.scatter(0, i, x)),
    "a sum of bools": (Kind.DTYPE_MISMATCH, lambda x, i: (x > 0).scatter(0, i, True, "add")),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_scatters_are_refused(name: str) -> None:
    kind, make = BAD[name]
    x: Tensor = tensor.input("x", (6, 4))
    with pytest.raises(EqsatError) as error:
        make(x, tensor.input("i", (3, 4), "i64"))
    assert error.value.diagnostics[0].kind is kind
