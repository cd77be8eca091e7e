"""A compiled program: calls by name and position, families of arrays, out=, shapes, threads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.serving.variants import Variants
from ir.diagnostics import EqsatError, Kind

RNG = np.random.default_rng(0)
A = RNG.standard_normal((5, 7), dtype=np.float32)
B = RNG.standard_normal((5, 7), dtype=np.float32)


@pytest.fixture(scope="module")
def affine() -> Program:
    """2a − b"""
    return optimize_and_compile(t.input("a", (5, 7)) * 2 - t.input("b", (5, 7)), threads=1)


@pytest.fixture(scope="module")
def halves() -> Program:
    """x / 2 in bf16"""
    return optimize_and_compile(t.input("x", (3, 4), "bf16") * 0.5, threads=1)


@pytest.fixture(scope="module")
def several() -> Program:
    """Outputs: a result, an input, a constant, the result again."""
    x = t.input("x", (4, 3))
    y = (x + 1).relu()
    return optimize_and_compile([y, x, t.constant(np.arange(3, dtype=np.float32)), y], threads=1)


@pytest.fixture(scope="module")
def free() -> Program:
    """x @ w where M, K and N are free."""
    return optimize_and_compile(
        {
            "uops": [
                {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": ["M", "K"]}},
                {"id": "w", "uop": "INPUT", "arg": {"tensor_id": "w", "dtype": "fp32", "shape": ["K", "N"]}},
                {"id": "x3", "uop": "RESHAPE", "src": ["x"], "arg": {"result_shape": ["M", 1, "K"]}},
                {"id": "wt", "uop": "PERMUTE", "src": ["w"], "arg": {"perm": [1, 0]}},
                {"id": "p", "uop": "MUL", "src": ["x3", "wt"]},
                {"id": "y", "uop": "REDUCE", "src": ["p"], "arg": {"op": "SUM", "axes": [2], "dtype": "fp32"}},
            ]
        },
        threads=1,
    )


def mismatch(program: Program, *args: Any, **named: Any) -> str:
    with pytest.raises(EqsatError) as caught:
        program(*args, **named)
    assert caught.value.kind is Kind.INPUT_MISMATCH
    return str(caught.value)


def test_calls_by_name_by_position_and_mixed(affine: Program) -> None:
    assert affine.arguments == ("a", "b")
    for result in (affine(A, B), affine(a=A, b=B), affine(b=B, a=A), affine(A, b=B)):
        assert isinstance(result, np.ndarray)
        np.testing.assert_allclose(result, 2 * A - B, rtol=1e-6)


def test_wrong_arguments_are_named(affine: Program) -> None:
    assert "missing = [b]" in mismatch(affine, A)
    assert "unknown = [c]" in mismatch(affine, A, B, c=A)
    assert "twice = [a]" in mismatch(affine, A, B, a=A)
    assert "3 arguments" in mismatch(affine, A, B, A)
    assert "[7, 5]" in mismatch(affine, A, B.T)
    assert "fp64" in mismatch(affine, A, B.astype(np.float64))
    assert "`b`" in mismatch(affine, A, None)


def test_any_view_of_an_array_is_read_right(affine: Program) -> None:
    wide = RNG.standard_normal((10, 14), dtype=np.float32)
    a, b = wide[::2, ::2], wide[::-2, ::-2]
    np.testing.assert_allclose(affine(a, b), 2 * a - b, rtol=1e-6)
    np.testing.assert_allclose(affine(a, np.asfortranarray(B)), 2 * a - B, rtol=1e-6)


def test_bf16(halves: Program) -> None:
    x = RNG.standard_normal((3, 4)).astype(ml_dtypes.bfloat16)
    result = halves(x)
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result, x * ml_dtypes.bfloat16(0.5))


def test_out_is_written_and_returned(affine: Program) -> None:
    out = np.full((5, 7), np.nan, np.float32)
    assert affine(A, B, out=out) is out
    np.testing.assert_allclose(out, 2 * A - B, rtol=1e-6)


def test_out_may_be_an_input(affine: Program) -> None:
    a = A.copy()
    affine(a, B, out=a)
    np.testing.assert_allclose(a, 2 * A - B, rtol=1e-6)
    both = np.concatenate([A, B])
    affine(both[:5], both[4:9], out=both[2:7])
    np.testing.assert_allclose(both[2:7], 2 * A - np.concatenate([A, B])[4:9], rtol=1e-6)


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((7, 5), np.float32),
        np.zeros((5, 7), np.float64),
        np.zeros((7, 5), np.float32).T,
        (np.zeros((5, 7), np.float32), np.zeros((5, 7), np.float32)),
        (),
    ],
)
def test_an_unfit_out_is_refused(affine: Program, out: Any) -> None:
    mismatch(affine, A, B, out=out)


def test_several_outputs(several: Program) -> None:
    x = RNG.standard_normal((4, 3), dtype=np.float32)
    wanted = (np.maximum(x + 1, 0), x, np.arange(3, dtype=np.float32), np.maximum(x + 1, 0))
    results = several(x)
    assert isinstance(results, tuple)
    for result, expected in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    results[1][:] = 7
    assert not (x == 7).any(), "an output that is an input is a copy"
    assert not np.shares_memory(results[0], results[3])
    results[2][:] = 7
    np.testing.assert_array_equal(several(x)[2], wanted[2])
    outs = tuple(np.empty_like(array) for array in wanted)
    assert several(x, out=outs) is outs
    for result, expected in zip(outs, wanted, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    mismatch(several, x, out=(outs[0], outs[1], outs[2], outs[0]))


def test_an_output_may_overwrite_the_input_that_another_output_is(several: Program) -> None:
    x = RNG.standard_normal((4, 3), dtype=np.float32)
    given, copy = x.copy(), np.empty_like(x)
    several(given, out=(given, copy, np.empty(3, np.float32), np.empty_like(x)))
    np.testing.assert_allclose(given, np.maximum(x + 1, 0), rtol=1e-6)
    np.testing.assert_array_equal(copy, x)


def test_empty_arrays_and_scalars() -> None:
    empty, scalar = t.input("e", (0, 3)), t.input("s", ())
    program = optimize_and_compile([empty + 1, empty.sum(0), scalar * 2, empty.max(axis=0)], threads=1)
    none, zeros, double, lowest = program(np.zeros((0, 3), np.float32), 4)
    assert none.shape == (0, 3)
    np.testing.assert_array_equal(zeros, np.zeros(3))
    assert double.shape == ()
    assert double == 8
    np.testing.assert_array_equal(lowest, np.full(3, -np.inf))
    outs = tuple(np.full_like(array, 7) for array in (none, zeros, double, lowest))
    assert program(np.zeros((0, 3), np.float32), 4, out=outs)[2] == 8


def test_an_input_that_nothing_reads_is_still_an_argument() -> None:
    x = {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": [2]}}
    z = {"id": "z", "uop": "INPUT", "arg": {"tensor_id": "z", "dtype": "i32", "shape": [3]}}
    program = optimize_and_compile({"uops": [z, x, {"id": "y", "uop": "NEG", "src": ["x"]}]}, threads=1)
    assert program.arguments == ("z", "x")
    np.testing.assert_array_equal(program(np.zeros(3, np.int32), np.ones(2, np.float32)), [-1, -1])
    mismatch(program, np.zeros(4, np.int32), np.ones(2, np.float32))


def test_names_that_a_call_uses_itself() -> None:
    """Inputs called like a keyword are given in a mapping; calls that would need it say so."""
    out, repeats, seed = (t.input(name, (2,)) for name in ("out", "repeats", "seed"))
    program = optimize_and_compile(out * 2 + repeats - seed, threads=1)
    arrays: dict[str, Any]
    arrays = {name: np.full(2, value, np.float32) for name, value in (("out", 3), ("repeats", 4), ("seed", 5))}
    np.testing.assert_array_equal(program(arrays), [5, 5])
    target = np.empty(2, np.float32)
    assert program(arrays, out=target) is target
    np.testing.assert_array_equal(target, [5, 5])
    np.testing.assert_array_equal(program({"out": arrays["out"], "repeats": arrays["repeats"]}, seed=arrays["seed"]), 5)
    assert program.profile(arrays, repeats=2)[0].measured_ns is not None
    assert program.verify(arrays).keys() == program.verify(seed=1).keys()
    assert "program({'out': …})" in mismatch(program, **arrays)
    with pytest.raises(EqsatError, match=r"repeats.*mapping"):
        program.profile(arrays["out"], repeats=arrays["repeats"], seed=arrays["seed"])
    with pytest.raises(EqsatError, match="seed"):
        program.verify(seed=arrays["seed"])


def test_a_mapping_that_does_not_fit_is_refused(affine: Program) -> None:
    assert "unknown = [c]" in mismatch(affine, {"a": A, "b": B, "c": A})
    assert "missing = [b]" in mismatch(affine, {"a": A})
    assert "twice = [b]" in mismatch(affine, {"a": A, "b": B}, b=B)
    assert "unknown = [1]" in mismatch(affine, {"a": A, "b": B, 1: A})
    said = mismatch(affine, A)
    assert "twice" not in said
    assert "unknown" not in said


def test_names_that_python_uses_itself() -> None:
    program = optimize_and_compile(t.input("self", (2,)) + t.input("args", (2,)), threads=1)
    np.testing.assert_array_equal(program(self=np.ones(2, np.float32), args=np.ones(2, np.float32)), [2, 2])
    assert program.profile(self=np.ones(2, np.float32), args=np.ones(2, np.float32), repeats=1)


@pytest.mark.slow
def test_free_dims_specialise_per_shape(free: Program) -> None:
    for m, k, n in [(4, 5, 6), (3, 1, 2), (4, 5, 6), (1, 1, 1)]:
        x, w = RNG.standard_normal((m, k), dtype=np.float32), RNG.standard_normal((k, n), dtype=np.float32)
        np.testing.assert_allclose(free(x, w), x @ w, rtol=1e-5, atol=1e-6)
    assert free.variants == [{"M": 3, "K": 1, "N": 2}, {"M": 4, "K": 5, "N": 6}, {"M": 1, "K": 1, "N": 1}]


def test_shapes_that_contradict_each_other(free: Program) -> None:
    before = len(free.variants)
    with pytest.raises(EqsatError) as caught:
        free(np.zeros((2, 3), np.float32), np.zeros((4, 2), np.float32))
    assert caught.value.kind is Kind.AXIS_SIZE_MISMATCH
    mismatch(free, np.zeros(3, np.float32), np.zeros((3, 2), np.float32))
    assert len(free.variants) == before


@pytest.mark.slow
def test_many_threads_call_one_program(free: Program) -> None:
    jobs = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        m = (4, 3, 2)[seed % 3]
        x, w = rng.standard_normal((m, 5), dtype=np.float32), rng.standard_normal((5, 6), dtype=np.float32)
        jobs.append((x, w))

    def call(job: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        results: list[np.ndarray] = [free(*job) for _ in range(20)]
        assert all(np.array_equal(results[0], result) for result in results)
        return results[0]

    with ThreadPoolExecutor(8) as pool:
        actual = list(pool.map(call, jobs))
    for (x, w), y in zip(jobs, actual, strict=True):
        np.testing.assert_allclose(y, x @ w, rtol=1e-5, atol=1e-6)


def test_variants_are_bounded_and_the_least_recently_used_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.serving.variants.MOST_VARIANTS", 2)
    results: list[int] = []

    def specialise(dims: Mapping[str, int]) -> Any:
        results.append(dims["M"])
        return object()

    variants = Variants(specialise, {})
    first = variants({"M": 1})
    variants({"M": 2})
    assert variants({"M": 1}) is first
    assert variants.latest is first
    variants({"M": 3})
    assert [dict(key) for key in variants.held] == [{"M": 1}, {"M": 3}]
    variants({"M": 2})
    assert results == [1, 2, 3, 2]


def test_variants_of_many_threads_are_made_once() -> None:
    actual: list[int] = []

    def specialise(dims: Mapping[str, int]) -> Any:
        time.sleep(0.001)
        actual.append(dims["M"])
        return dims["M"]

    variants = Variants(specialise, {})
    with ThreadPoolExecutor(8) as pool:
        results: list[Any] = list(pool.map(lambda size: variants({"M": size}), [number % 10 for number in range(200)]))
    assert results == [number % 10 for number in range(200)]
    assert sorted(actual) == list(range(10))


def test_thread_counts_give_the_same_bits() -> None:
    x = t.input("x", (65, 129))
    y = ((x @ t.input("w", (129, 67))).relu() * 1.5).sum(0)
    one, two = (optimize_and_compile(y, threads=threads) for threads in (1, 2))
    given = one.random_inputs()
    assert one(**given).tobytes() == two(**given).tobytes()
    np.testing.assert_allclose(one(**given), (np.maximum(given["x"] @ given["w"], 0) * 1.5).sum(0), rtol=1e-5)


def test_profile_measures_every_kernel(affine: Program) -> None:
    reports = affine.profile(A, B, repeats=3)
    assert [report.name for report in reports] == [report.name for report in affine.kernels]
    assert all(report.measured_ns is not None and report.measured_ns >= 0 for report in reports)
    assert all(kernel.measured_ns is None for kernel in affine.kernels)
    with pytest.raises(EqsatError):
        affine.profile(A, B, repeats=0)
    with pytest.raises(EqsatError):
        affine.profile(A)


def test_a_program_tells_of_itself(affine: Program) -> None:
    assert affine.cost == sum(kernel.estimated_ns for kernel in affine.kernels) > 0
    assert repr(affine).startswith("Program(1 kernel for cpu, 0.0")
    assert f"{affine.cost / 1e3:.2f} µs" in repr(affine)
    assert affine.kernels[0].function in affine.source()
    assert affine.kernels[0].function in affine.explain()
    assert affine.stats.kernels_before == 2
    assert affine.stats.kernels_after == 1
    assert affine.kernels[0].flops == 2 * A.size
    assert affine.kernels[0].bytes == 3 * A.nbytes
    assert affine.verify(seed=3) == affine.verify(seed=3)
    assert affine.variants == [{}]


def test_outputs_that_memory_cannot_hold_are_refused() -> None:
    tall = t.input("x", (2**24, 1)).expand(2**24, 2**24)
    program = optimize_and_compile(tall + 1.0)
    with pytest.raises(EqsatError) as caught:
        program(np.ones((2**24, 1), np.float32))
    assert caught.value.diagnostics[0].kind is Kind.RESOURCE_EXCEEDED
