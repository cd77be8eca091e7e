"""exactness="exact": float sums and products take their terms in index order, and every op rounds by itself."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

from eqsat import Program, optimize_and_compile, tensor
from eqsat.cost.targets import cpu_target
from eqsat.tensor import Tensor
from ir.target import LANES
from tests.support.cpu.nest_kernels import required

Array = np.ndarray[Any, Any]
ARCHES = ("avx512", "avx2", "sse2")
STEPS = {"sum": np.add, "prod": np.multiply}


def in_order(fn: str, array: Array, axes: tuple[int, ...]) -> Array:
    """The reduction as one loop over its terms in index order, in the array's own dtype."""
    terms = np.moveaxis(array, axes, range(len(axes)))
    terms = terms.reshape(-1, *terms.shape[len(axes) :])
    start = np.full(terms.shape[1:], {"sum": 0, "prod": 1}[fn], array.dtype)
    return reduce(lambda total, term: STEPS[fn](total, term, dtype=array.dtype), terms, start)


def exact(value: Tensor, **options: Any) -> Program:
    return optimize_and_compile(value, exactness="exact", **options)


def terms(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Array:
    """Numbers whose sum tells the order in which they were added."""
    return (np.random.default_rng(seed).standard_normal(shape) * 1e3).astype(dtype)


def factors(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """Numbers near 1, whose product tells the order too."""
    return (1 + 0.01 * np.random.default_rng(1).standard_normal(shape)).astype(dtype)


def same(got: Any, wanted: Array) -> None:
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    assert got.tobytes() == np.ascontiguousarray(wanted).tobytes()


REDUCTIONS = [
    ((7, 1000), (1,)),
    ((1000, 7), (0,)),
    ((3, 41, 37), (1, 2)),
    ((19, 5, 23), (0, 2)),
    ((33, 6, 50), (0,)),
    ((70001,), (0,)),
    ((2, 3), (0, 1)),
    ((5, 1), (1,)),
    ((300, 40), (0, 1)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "axes"), REDUCTIONS, ids=str)
@pytest.mark.parametrize("fn", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_reductions_take_their_terms_in_index_order(
    fn: str, dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    kind = dtype.replace("fp", "float")
    array = terms(shape, kind) if fn == "sum" else factors(shape, kind)
    program = exact(getattr(tensor.input("x", shape, dtype), fn)(axes))
    same(program(array), in_order(fn, array, axes))


@pytest.mark.parametrize("arch", ARCHES)
def test_order_is_the_same_on_every_instruction_set(arch: str) -> None:
    array = terms((9, 777))
    x = tensor.input("x", array.shape)
    required(arch)
    target = cpu_target(arch=arch, cores=2, lanes=LANES[arch], clock_hz=3e9)
    program = exact((x - x.sum(1, keepdims=True)) * x.sum(0), target=target)
    rows, columns = in_order("sum", array, (1,)), in_order("sum", array, (0,))
    same(program(array), (array - rows[:, None]) * columns)


def test_order_does_not_depend_on_threads() -> None:
    array = terms((64, 5000))
    program = exact(tensor.input("x", array.shape).sum(1), threads=2)
    same(program(array), in_order("sum", array, (1,)))


def test_narrow_floats_accumulate_in_fp32_in_order() -> None:
    array = terms((5, 300), "float16", 3)
    got = exact(tensor.input("x", array.shape, "fp16").sum(1))(array)
    same(got, in_order("sum", array.astype(np.float32), (1,)).astype(got.dtype))


def test_a_reduction_that_is_read_again_is_in_order() -> None:
    array = terms((6, 130))
    x = tensor.input("x", array.shape)
    program = exact(x / (x * x).sum(1, keepdims=True))
    squares = in_order("sum", array * array, (1,))
    same(program(array), array / squares[:, None])


def test_constants_fold_in_order() -> None:
    array = terms((7, 1000))
    x = tensor.input("x", (7,))
    program = exact(x + tensor.constant(array).sum(1))
    assert len(program.kernels) == 1
    same(program(np.zeros(7, np.float32)), in_order("sum", array, (1,)))


def test_windows_are_in_order() -> None:
    array = terms((40, 40))
    graph = {
        "uops": [
            {"id": "x", "uop": "INPUT", "src": [], "arg": {"tensor_id": "x", "dtype": "fp32", "shape": [40, 40]}},
            {"id": "w", "uop": "POOL", "src": ["x"], "arg": {"kernel": [9, 9]}},
            {"id": "s", "uop": "REDUCE", "src": ["w"], "arg": {"op": "SUM", "axes": [2, 3], "dtype": "fp32"}},
        ]
    }
    program = optimize_and_compile(graph, exactness="exact")
    windows = np.lib.stride_tricks.sliding_window_view(array, (9, 9))
    same(program(array), in_order("sum", windows, (2, 3)))


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "axis"), [((3, 1000), 1), ((1000, 3), 0), ((20, 30), 0), ((1, 70), 1)])
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_scans_are_in_order(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    array = terms(shape, dtype.replace("fp", "float"))
    program = exact(tensor.input("x", shape, dtype).cumsum(axis))
    same(program(array), np.add.accumulate(array, axis))


@pytest.mark.parametrize(("m", "k", "n"), [(33, 70, 65), (1, 300, 40), (17, 129, 1), (4, 2000, 5)])
def test_a_matrix_product_rounds_each_product_and_sums_in_order(m: int, k: int, n: int) -> None:
    a, b = terms((m, k)), terms((k, n), seed=1)
    program = exact(tensor.input("a", a.shape) @ tensor.input("b", b.shape))
    same(program(a, b), in_order("sum", a[:, :, None] * b, (1,)))


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_no_multiplication_fuses_with_an_addition(dtype: str) -> None:
    kind = dtype.replace("fp", "float")
    a, b, c = (terms((1003,), kind, seed) for seed in range(3))
    x, y, z = (tensor.input(name, a.shape, dtype) for name in "xyz")
    same(exact(x * y + z)(a, b, c), a * b + c)
    same(exact(x * y - z * x)(a, b, c), a * b - c * a)


def test_what_order_does_not_change_still_runs_along_lanes() -> None:
    array = np.arange(-500, 500, dtype=np.int32).reshape(2, 500)
    x = tensor.input("x", array.shape, "i32")
    program = exact(x.max(axis=1) + x.sum(1).cast("i32"))
    same(program(array), array.max(axis=1) + array.sum(1, dtype=np.int32))
    assert "eq_hmax" in str(program.source())


def test_other_levels_regroup_sums() -> None:
    """What this file forbids is what the default does: otherwise its inputs tell nothing."""
    array = terms((7, 1000))
    got = optimize_and_compile(tensor.input("x", array.shape).sum(1))(array)
    assert got.tobytes() != in_order("sum", array, (1,)).tobytes()


def test_nothing_is_left_of_an_empty_axis() -> None:
    nothing = tensor.constant(np.zeros((0, 3), np.float32), name="c")
    program = exact(nothing.sum(1) + tensor.input("x", (0,)), threads=1)
    assert program(np.zeros(0, np.float32)).shape == (0,)


@pytest.mark.parametrize("target", ["cpu", "sm_80"])
def test_a_sum_of_one_term_has_the_sign_of_zero_that_a_sum_has(target: str) -> None:
    """0 + -0 is 0: a sum over an axis of one element is no copy at the level exact."""
    x = tensor.input("x", (3, 1, 5))
    program = optimize_and_compile(x.sum(1), target=target, emulate=target != "cpu", exactness="exact")
    assert not np.signbit(program(x=np.full((3, 1, 5), -0.0, np.float32))).any()
