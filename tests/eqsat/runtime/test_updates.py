"""Calls of programs with `updates=`: every way of a call leaves the results in the arguments."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat import Program, load, optimize_and_compile, tensor
from ir.diagnostics import EqsatError, Kind

ROWS = 6


@pytest.fixture(scope="module")
def program() -> Program:
    """Writes a row of a cache, and sums the cache."""
    cache, at, row = tensor.input("cache", (ROWS, 8)), tensor.input("at", (1,), "i64"), tensor.input("row", (1, 8))
    present = cache.scatter(0, at.reshape(1, 1).expand(1, 8), row)
    return optimize_and_compile({"present": present, "sums": present.sum(0)}, updates={"present": "cache"})


@pytest.fixture(scope="module")
def copied() -> Program:
    """A result that no kernel may write over its argument."""
    x, y = tensor.input("x", (4, 4)), tensor.input("y", (4, 4))
    return optimize_and_compile({"new": x.T + y, "double": y * 2}, updates={"new": "x"})


def cache() -> np.ndarray:
    return np.arange(ROWS * 8, dtype=np.float32).reshape(ROWS, 8)


AT, ROW = np.array([3]), np.full((1, 8), -1, np.float32)


def written() -> np.ndarray:
    result = cache()
    result[AT] = ROW
    return result


def require(result: Any, given: Any, others: Any) -> None:
    assert result is given
    np.testing.assert_array_equal(np.asarray(given), written())
    np.testing.assert_allclose(np.asarray(others), written().sum(0))


@pytest.mark.parametrize(
    "call",
    [
        lambda p, given: p(given, AT, ROW),
        lambda p, given: p(row=ROW, at=AT, cache=given),
        lambda p, given: p({"cache": given, "at": AT, "row": ROW}),
        lambda p, given: p(given, [3], ROW),  # the long way of a call
        lambda p, given: p.bound(given, AT, ROW)(),
        lambda p, given: p.with_threads(1)(given, AT, ROW),
        lambda p, given: pickle.loads(pickle.dumps(p))(given, AT, ROW),
        lambda p, given: copy.deepcopy(p)(given, AT, ROW),
    ],
)
def test_the_argument_is_the_result(program: Program, call: Any) -> None:
    given = cache()
    present, sums = call(program, given)
    require(present, given, sums)


def test_arrays_with_gaps_get_a_copy_of_the_result(program: Program) -> None:
    given = np.zeros((8, ROWS), np.float32).T
    given[...] = cache()
    present, sums = program(given, AT, ROW)
    require(present, given, sums)


def test_out_takes_the_other_results(program: Program, copied: Program) -> None:
    given, sums = cache(), np.zeros(8, np.float32)
    present, result = program(given, AT, ROW, out=sums)
    assert result is sums
    require(present, given, sums)
    x, y, double = cache()[:4, :4].copy(), np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    wanted = x.T + y
    assert copied(x, y, out=(double,))[0] is x
    np.testing.assert_array_equal(x, wanted)
    assert (double == 2).all()
    with pytest.raises(EqsatError, match="2 arrays for 1 output"):
        copied(x, y, out=(x, double))


def test_bound_calls_copy_what_kernels_do_not_write_in_place(copied: Program) -> None:
    x, y = cache()[:4, :4].copy(), np.ones((4, 4), np.float32)
    run = copied.bound(x, y)
    wanted = x.copy()
    for _ in range(3):
        wanted = wanted.T + y
        result, _ = run()
        assert result is x
        np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("name", ["x", "y"])
def test_an_array_for_two_arguments_is_read_before_it_is_written(name: str) -> None:
    """The other argument has the elements of before the call."""
    x, y = tensor.input("x", (64, 64)), tensor.input("y", (64, 64))
    program = optimize_and_compile({"new": x * 2 + y.sum(0)}, updates={"new": "x"})
    memory = np.random.default_rng(0).standard_normal((65, 64)).astype(np.float32)
    one, other = memory[:64], memory[1:] if name == "x" else memory[:64]
    wanted = one * 2 + other.sum(0)
    program(x=one, y=other)
    np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-5)


def test_two_updated_arguments_may_not_share_memory() -> None:
    x, y = tensor.input("x", (4,)), tensor.input("y", (4,))
    program = optimize_and_compile({"a": x + y, "b": x - y}, updates={"a": "x", "b": "y"})
    memory = np.ones(6, np.float32)
    with pytest.raises(EqsatError, match="shares memory with another array") as caught:
        program(memory[:4], memory[2:])
    assert caught.value.kind is Kind.INPUT_MISMATCH
    assert (memory == 1).all()
    turned = optimize_and_compile({"a": x.flip(0) + y, "b": y.flip(0) - x}, updates={"a": "x", "b": "y"})
    with pytest.raises(EqsatError, match="shares memory with another array"):
        turned(memory[:4], memory[2:])
    with pytest.raises(EqsatError, match="shares memory"):
        turned.bound(memory[:4], memory[2:])


def test_memory_of_arrays_with_gaps_is_compared() -> None:
    x, y = tensor.input("x", (4, 4)), tensor.input("y", (4, 4))
    program = optimize_and_compile({"a": x * 2, "b": y + 1}, updates={"a": "x", "b": "y"})
    square, wide = np.arange(16, dtype=np.float32).reshape(4, 4), np.zeros((4, 6), np.float32)
    for one, other in ((square, square.T), (wide[:, :4], wide[:, 2:])):
        with pytest.raises(EqsatError, match="shares memory with another array"):
            program(one, other)
    rows = np.ones((8, 4), np.float32)
    program(rows[::2], rows[1::2])  # they take turns, and share nothing
    assert (rows == 2).all()
    single = optimize_and_compile({"a": x * 2, "c": y + 1}, updates={"a": "x"})
    with pytest.raises(EqsatError, match="shares memory with another array"):
        single(square.T, wide[:, :4].copy(), out=square)
    with pytest.raises(EqsatError, match="share memory with one another"):
        single(np.lib.stride_tricks.as_strided(np.ones(4, np.float32), (4, 4), (0, 4)), square)


def test_empty_arrays_are_updated() -> None:
    x = tensor.input("x", (5, 0))
    program = optimize_and_compile({"a": x * 2}, updates={"a": "x"})
    given = np.zeros((5, 0), np.float32)
    assert program(given) is given


def test_what_cannot_change_is_refused(program: Program) -> None:
    fixed = cache()
    fixed.flags.writeable = False
    for given, message in ((fixed, "read-only"), (cache().tolist(), "a list")):
        with pytest.raises(EqsatError, match=message) as caught:
            program(given, AT, ROW)
        assert caught.value.diagnostics[0].at == "cache"
    np.testing.assert_array_equal(fixed, cache())


def test_looking_at_a_program_changes_no_argument(program: Program) -> None:
    given = cache()
    program.profile(given, AT, ROW)
    program.verify(given, AT, ROW)
    np.testing.assert_array_equal(given, cache())


def test_saved_programs_update(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "p.eqsat")
    for again in (load(tmp_path / "p.eqsat"), load(tmp_path / "p.eqsat", recompile=True)):
        given = cache()
        present, sums = again(given, AT, ROW)
        require(present, given, sums)


@pytest.mark.parametrize("when_missing", ["wait", "pad", "eager", "adapt"])
def test_free_sizes(when_missing: str) -> None:
    source = tensor.program(
        lambda x, y: {"new": x * 2 + y, "mean": x.mean(0)}, tensor.input("x", ("S", 3)), tensor.input("y", ("S", 3))
    )
    dims = {"S": [4, 8]} if when_missing == "pad" else None
    program = optimize_and_compile(source, updates={"new": "x"}, when_missing=when_missing, dims=dims)
    for size in (3, 4, 3, 7, 5, 5, 8):
        x, y = np.arange(3.0 * size, dtype=np.float32).reshape(size, 3), np.ones((size, 3), np.float32)
        wanted, mean = x * 2 + y, x.mean(0)
        new, other = program(x, y)
        assert new is x
        np.testing.assert_array_equal(x, wanted)
        np.testing.assert_allclose(other, mean, rtol=1e-6)


def test_wrong_updates_are_named() -> None:
    x = tensor.input("x", (2, 3))
    outputs = {"double": x * 2, "sums": x.sum(0)}
    for updates, message in (
        ({"double": "z"}, "no argument 'z'"),
        ({"triple": "x"}, "no result"),
        ({"sums": "x"}, r"fp32\[3\].*fp32\[2, 3\]"),
        ({"double": "x", "sums": "x"}, "several results for x"),
        ({"double": 3}, "maps results to arguments"),
        ("double", "maps results to arguments"),
    ):
        with pytest.raises(EqsatError, match=message):
            optimize_and_compile(outputs, updates=updates)  # type: ignore[arg-type]
    with pytest.raises(EqsatError, match="programs of a CPU"):
        optimize_and_compile(outputs, updates={"double": "x"}, target="sm_80")


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="tensors need torch")
    for kind in (torch.float32, torch.bfloat16):
        name = "fp32" if kind is torch.float32 else "bf16"
        x, y = tensor.input("x", (4, 8), name), tensor.input("y", (4, 8), name)
        program = optimize_and_compile({"new": x * 2 + y}, updates={"new": "x"})
        for given in (
            torch.ones(4, 8, dtype=kind),
            torch.ones(8, 4, dtype=kind).T,
            torch.nn.Parameter(torch.ones(4, 8).to(kind)),
        ):
            with torch.no_grad():
                assert program(given, torch.full((4, 8), 0.5, dtype=kind)) is given
            assert (given == 2.5).all()
    x, y = tensor.input("x", (4,)), tensor.input("y", (4,))
    turned = optimize_and_compile({"a": x.flip(0) + y, "b": y.flip(0) - x}, updates={"a": "x", "b": "y"})
    memory = torch.arange(8.0)
    a, _ = turned(memory[:4], memory[4:])
    assert memory.tolist() == [7, 7, 7, 7, 7, 5, 3, 1]
    assert a.data_ptr() == memory.data_ptr()
    with pytest.raises(EqsatError, match="shares memory"):
        turned(memory[:4], memory[2:6])
