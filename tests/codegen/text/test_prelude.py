"""Every function of the C prelude on registers against NumPy, for each instruction set of this machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from codegen.compile.library import build
from codegen.compile.machine import machine, restrict
from ir.uop.table import FUNCTIONS
from tests.support.cpu.lanes import (
    BINARY,
    COMPARE,
    FLOATS,
    FLUSHED,
    INTS,
    RANDOM,
    REGISTERS,
    STORAGE,
    UNARY,
    Array,
    Lanes,
    arches,
    assert_same,
    floats,
    units,
)
from tests.support.cpu.quick_flags import quick_flags
from tests.support.oracles.meanings import MEANINGS
from tests.support.programs.philox_answers import ANSWERS, COUNTERS_AND_KEYS

pytestmark = pytest.mark.usefixtures("quiet")


def _values(t: str, seed: int = 0) -> Array:
    if t in FLOATS:
        return floats(t, seed)
    rng = np.random.default_rng(seed)
    if t == "bool":
        return rng.integers(0, 2, 1000).astype(np.bool_)
    info = np.iinfo(REGISTERS[t])
    edges = [0, 1, 2, 3, 7, info.bits - 1, info.bits, info.max, info.max - 1, info.min, info.min + 1, info.max // 2 + 1]
    special = np.array(edges, REGISTERS[t])
    small = rng.integers(max(info.min, -9), 10, 500).astype(REGISTERS[t])
    return np.concatenate([special, rng.integers(info.min, info.max, 1500, REGISTERS[t], endpoint=True), small])


def _pairs(t: str) -> tuple[Array, Array]:
    """Every special number with every other, then random pairs."""
    a, b = _values(t, 1), _values(t, 2)
    left, right = np.meshgrid(a[:25], a[:25])
    return np.concatenate([left.ravel(), a, a]), np.concatenate([right.ravel(), b, np.roll(a, 1)])


ROUNDED = {"recip", "rsqrt", *(fn for fn, row in FUNCTIONS.items() if row.approximate)}
"""Functions that are not correctly rounded: f32 is held to 4e-7, f64 to 4e-15 of the fp64 value."""


def _assert_near(got: Array, exact: Array, op: str) -> None:
    real = got.dtype
    want = exact.astype(real)
    finite = np.isfinite(want) & np.isfinite(exact)
    assert_same(got[~finite], want[~finite], op)
    bound = 4e-7 if real == np.float32 else 4e-15
    slack = 1.5 * float(np.finfo(real).smallest_subnormal)
    error = np.abs(got[finite].astype(exact.dtype) - exact[finite])
    bad = ~(error <= bound * np.abs(exact[finite]) + slack)
    assert not bad.any(), (op, got[finite][bad][:5], exact[finite][bad][:5])


@pytest.mark.parametrize(("op", "t"), UNARY)
def test_unary(lanes: Lanes, op: str, t: str) -> None:
    x = _values(t)
    if op in ("sin", "cos"):
        x = np.concatenate([x, np.arange(-400, 400) * (np.pi / 4)]).astype(x.dtype)
    got = lanes.map(f"{op}_{t}", x.dtype, x)
    if op in ROUNDED:
        _assert_near(got, MEANINGS[op](x.astype(np.float64)), op)
    else:
        assert_same(got, MEANINGS[op](x), op)


@pytest.mark.parametrize("op", FLUSHED)
def test_functions_that_flush_denormals(lanes: Lanes, op: str) -> None:
    """Results that are denormal may be 0."""
    rng = np.random.default_rng(0)
    edges = [rng.uniform(low, high, 20_000) for low, high in ((-104, -86), (87, 89), (-150, -125), (126, 129), (-5, 5))]
    x = np.concatenate([floats("f32"), *edges]).astype(np.float32)
    got, exact = lanes.map(f"flushed_{op}_f32", x.dtype, x), MEANINGS[op](x.astype(np.float64))
    denormal = np.abs(exact) < np.finfo(np.float32).smallest_normal
    assert (np.abs(got[denormal] - exact[denormal]) <= np.abs(exact[denormal])).all()
    _assert_near(got[~denormal], exact[~denormal], op)


@pytest.mark.slow
def test_functions_have_the_same_bits_with_every_instruction_set(tmp_path: Path) -> None:
    """Without `EQ_FLUSH`, as at `exactness="exact"`; SSE2 has no fused multiply-add."""
    machines = [restrict(machine(), arch) for arch in arches() if arch != "sse2"]
    texts = {"ops": units()["ops"]}
    sets = [Lanes(on, build(texts, on, flags=quick_flags(on), cache=tmp_path / str(on.lanes))) for on in machines]
    x = np.concatenate([floats("f32"), np.random.default_rng(0).normal(size=20_000).astype(np.float32) * 9])
    for op in FLUSHED:
        first, *others = (lanes.map(f"{op}_f32", x.dtype, x).view(np.int32) for lanes in sets)
        for other in others:
            np.testing.assert_array_equal(first[~np.isnan(x)], other[~np.isnan(x)], op)


@pytest.mark.parametrize(("op", "t"), BINARY)
def test_binary(lanes: Lanes, op: str, t: str) -> None:
    a, b = _pairs(t)
    got = lanes.map(f"{op}_{t}", a.dtype, a, b)
    if op == "pow" and t in FLOATS:
        _assert_near(got, np.power(a.astype(np.float64), b.astype(np.float64)), op)
    else:
        assert_same(got, MEANINGS[op](a, b), op)


@pytest.mark.parametrize("t", REGISTERS)
@pytest.mark.parametrize("op", COMPARE)
def test_compare(lanes: Lanes, op: str, t: str) -> None:
    a, b = _pairs(t)
    assert (lanes.map(f"{op}_{t}", np.bool_, a, b) == MEANINGS[op](a, b)).all()


@pytest.mark.parametrize("t", REGISTERS)
def test_where(lanes: Lanes, t: str) -> None:
    a, b = _pairs(t)
    mask = np.random.default_rng(5).integers(0, 2, a.size).astype(np.bool_)
    assert_same(lanes.map(f"where_{t}", a.dtype, a, b, mask), np.where(mask, a, b), "where")


@pytest.mark.parametrize("fn", RANDOM)
def test_random(lanes: Lanes, fn: str) -> None:
    """The known answers of Random123, and counters and keys with every special number."""
    (offset, subsequence), key = _pairs("u64"), np.roll(_pairs("u64")[0], 5)
    given = [
        np.concatenate([known, more]) for known, more in zip(COUNTERS_AND_KEYS, (offset, subsequence, key), strict=True)
    ]
    got = lanes.map(f"{fn}_u64", np.uint32, *given)
    assert_same(got[:3], ANSWERS[RANDOM.index(fn)], fn)
    assert_same(got, MEANINGS[fn](*given), fn)


@pytest.mark.parametrize("t", [*FLOATS, *INTS])
def test_fma(lanes: Lanes, t: str) -> None:
    a, b = _pairs(t)
    if t in FLOATS:
        a, b = (np.random.default_rng(seed).normal(size=999).astype(REGISTERS[t]) for seed in (1, 2))
    c = np.roll(a, 7)
    got, want = lanes.map(f"fma_{t}", a.dtype, a, b, c), a * b + c
    if t in FLOATS:
        scale = np.abs(a * b) + np.abs(c)
        assert (np.abs(got - want) <= 2 * np.finfo(a.dtype).eps * scale).all()
    else:
        assert_same(got, want, "fma")


@pytest.mark.parametrize(("fn", "left", "right"), [("dot_pairs", "<i2", "<i2"), ("dot_quads", "u1", "i1")])
def test_dot_products_of_cells(lanes: Lanes, fn: str, left: str, right: str) -> None:
    """Also of the greatest and the least terms; sums wrap."""
    rng = np.random.default_rng(0)
    count = 4 // np.dtype(left).itemsize
    edges = [np.array(np.meshgrid(*[[np.iinfo(t).min, np.iinfo(t).max]] * count)) for t in (left, right)]
    grids = [edge.reshape(count, -1).T.astype(t) for edge, t in zip(edges, (left, right), strict=True)]
    a = np.concatenate([np.repeat(grids[0], len(grids[1]), 0), rng.integers(0, 127, (999, count)).astype(left)])
    b = np.concatenate([np.tile(grids[1], (len(grids[0]), 1)), rng.integers(-128, 127, (999, count)).astype(right)])
    sums = rng.integers(-(2**31), 2**31, len(a)).astype(np.int32)
    got = lanes.map(f"{fn}_i32", np.int32, a.view("<i4")[:, 0], b.view("<i4")[:, 0], sums)
    assert_same(got, ((a.astype(np.int64) * b).sum(1) + sums).astype(np.int32), fn)


def test_dot_products_of_pairs_of_bf16(lanes: Lanes) -> None:
    """Also of infinities, NaN and zeros; products are exact, and both additions round."""
    rng = np.random.default_rng(0)
    special = np.array([0, -0.0, 1, -3, np.inf, -np.inf, np.nan], np.float32)
    grid = np.array(np.meshgrid(*[special] * 4)).reshape(4, -1).T
    terms = np.concatenate([grid, rng.normal(size=(5000, 4))]).astype(ml_dtypes.bfloat16)
    a, b = (np.ascontiguousarray(terms[:, at : at + 2]) for at in (0, 2))
    sums = rng.normal(size=len(a)).astype(np.float32)
    got = lanes.map("dot_pairs_f32", np.float32, a.view("<i4")[:, 0], b.view("<i4")[:, 0], sums)
    with np.errstate(invalid="ignore"):
        products = a.astype(np.float64) * b.astype(np.float64)
        want = products.sum(1) + sums
        scale = np.abs(products).sum(1) + np.abs(sums)
    finite = np.isfinite(want)
    assert_same(got[~finite], want[~finite].astype(np.float32), "dot_pairs")
    assert (np.abs(got - want)[finite] <= 2 * np.finfo(np.float32).eps * scale[finite]).all()


@pytest.mark.parametrize("t", REGISTERS)
@pytest.mark.parametrize("to", REGISTERS)
def test_cast(lanes: Lanes, t: str, to: str) -> None:
    x = _values(t)
    if t in FLOATS:
        edges = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5, 1)]
        x = np.concatenate([x, edges, np.negative(edges)]).astype(x.dtype)
    want = x.astype(REGISTERS[to])
    if t in FLOATS and to in INTS:
        info = np.iinfo(REGISTERS[to])
        exact = [0 if v != v else info.max if v == math.inf else info.min if v == -math.inf else int(v) for v in x]
        want = np.array([min(max(v, info.min), info.max) for v in exact], REGISTERS[to])
    assert_same(lanes.map(f"cast_{t}_{to}", REGISTERS[to], x), want, "cast")


@pytest.mark.parametrize(("t", "bounds"), [("u8", [(0, 255), (0, 0), (0, 7)]), ("i8", [(-128, 127), (-5, 0), (0, 3)])])
def test_numbers_held_within_bytes(lanes: Lanes, t: str, bounds: list[tuple[int, int]]) -> None:
    x = np.concatenate([floats("f32"), np.linspace(-300, 300, 2401), np.array([np.nan, np.inf, -np.inf])])
    x = x.astype(np.float32)
    for low, high in bounds:
        limits = (np.full_like(x, low), np.full_like(x, high))
        want = np.where(np.isnan(x), 0, np.clip(x, *limits)).astype(np.int32).astype(REGISTERS[t])
        assert_same(lanes.map(f"hold_{t}_f32", REGISTERS[t], x, *limits), want, f"{low} to {high}")


@pytest.mark.parametrize(
    ("t", "bounds", "zeros"),
    [("u8", [(0, 255), (0, 0), (0, 7)], [0, 1, 133, 255]), ("i8", [(-128, 127), (-5, 0)], [0])],
)
def test_nearest_bytes(lanes: Lanes, t: str, bounds: list[tuple[int, int]], zeros: list[int]) -> None:
    """As rounding, adding the zero point, and holding the sum."""
    halves = np.arange(-600, 601) / 2
    x = np.concatenate([floats("f32"), halves, np.nextafter(halves, np.inf), np.array([np.nan, np.inf, -np.inf])])
    x = x.astype(np.float32)
    for low, high in bounds:
        for zero in zeros:
            limits = (np.full_like(x, low - zero), np.full_like(x, high - zero))
            want = np.clip(np.round(x) + np.float32(zero), low, high)
            want = np.where(np.isnan(x), 0, want).astype(np.int32).astype(REGISTERS[t])
            held = lanes.map(f"nearest_{t}_i32", REGISTERS[t], x, *limits, np.full(x.shape, zero, np.int32))
            assert_same(held, want, f"{low} to {high} with {zero}")


def test_bytes_shifted_by_one_number(lanes: Lanes) -> None:
    x, out = np.arange(256).astype(np.uint8), np.zeros(256, np.uint8)
    for count in (*range(10), 16, 128, 255):
        lanes("shr_by_u8", [x, out], x.size, count)
        assert_same(out, x.astype(np.int64) >> min(count, 8), f"by {count}")


@pytest.mark.parametrize("t", [*FLOATS, *INTS])
def test_folds(lanes: Lanes, t: str) -> None:
    vl = lanes.vl
    rng = np.random.default_rng(3)
    rows = (rng.normal(size=(50, vl)) if t in FLOATS else rng.integers(0, 100, (50, vl))).astype(REGISTERS[t])
    for at in range(vl):
        rows[at, at] = math.nan if t in FLOATS else 3
    folds: dict[str, Callable[..., Array]] = {"hsum": np.sum, "hprod": np.prod, "hmax": np.max, "hmin": np.min}
    for op, fold in folds.items():
        out = np.zeros(50, REGISTERS[t])
        lanes(f"{op}_{t}", [rows, out], rows.size)
        want = fold(rows, axis=1, dtype=rows.dtype) if op in ("hsum", "hprod") else fold(rows, axis=1)
        np.testing.assert_allclose(out, want, rtol=1e-5 if t in FLOATS else 0, atol=1e-5 if t in FLOATS else 0)


def test_any_and_all(lanes: Lanes) -> None:
    vl = lanes.vl
    rows = np.random.default_rng(1).integers(0, 2, (20, vl)).astype(np.bool_)
    rows[0], rows[1] = True, False
    for op, fold in (("hmax", np.any), ("hmin", np.all)):
        out = np.zeros(20, np.bool_)
        lanes(f"{op}_bool", [rows, out], rows.size)
        assert (out == fold(rows, axis=1)).all()


def test_indices(lanes: Lanes) -> None:
    n = 4 * lanes.vl
    for name, real in (("iota_i64", np.int64), ("iota_i32", np.int32)):
        out = np.zeros(n, real)
        lanes(name, [out], n, -7)
        assert (out == np.arange(n) * -7).all()
    for k in range(lanes.vl + 1):
        mask = np.zeros(lanes.vl, np.bool_)
        lanes("first", [mask], lanes.vl, k)
        assert mask.sum() == k
        assert mask[:k].all()


@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
def test_bits(lanes: Lanes, t: str) -> None:
    """All bits come back, those of NaN and of denormals too."""
    word = f"u{t.lstrip('bf')}"
    bits = np.arange(1 << 16).astype(np.uint16) if word == "u16" else _values(word)
    if word != "u16":
        bits = np.concatenate([bits, _values(t).view(bits.dtype)])
    held = lanes.map(f"from_bits_{t}", REGISTERS.get(t, np.float32), bits)
    values = bits.view(STORAGE[t])
    numbers = values == values
    assert_same(held[numbers], values[numbers].astype(held.dtype), t)
    assert (held[~numbers] != held[~numbers]).all()
    np.testing.assert_array_equal(lanes.map(f"bits_{t}", bits.dtype, held), bits)
