"""The uop table: every row complete, and what the rows say at the edges of each dtype."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir.diagnostics import EqsatError
from ir.dtype import DTYPES, TensorType, bf16, dtype, fp16, fp32, fp64, i32, promote
from ir.uop.table import UOPS, Arg, UOpKind, total_flops

nan, inf = math.nan, math.inf


def apply(uop: str, *xs: Any, of: str = "fp32", to: str | None = None, wide: bool = False, **arg: Any) -> Any:
    """A uop on arrays of one dtype (operands that are arrays already keep theirs)."""
    arrays = [x if isinstance(x, np.ndarray) else np.array(x, dtype(of).numpy) for x in xs]
    types = [TensorType.of(dtype(array.dtype), array.shape) for array in arrays]
    out = UOPS[uop].type_of(types, Arg(arg))
    assert to is None or out.dtype.name == to
    result = UOPS[uop].apply(
        [array.astype(float) if wide and array.dtype.kind == "f" else array for array in arrays], arg, out, wide
    )
    assert result.shape == out.shape
    return result


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(actual).astype(float), np.asarray(expected, float))


def test_every_row_is_complete() -> None:
    assert {op.kind for op in UOPS.values()} == set(UOpKind)
    for name, op in UOPS.items():
        assert op.name == name
        assert op.fn == name.lower()
        assert op.doc
        assert op.arity == {"unary": 1, "binary": 2, "ternary": 3, "cast": 1, "movement": 1}.get(op.kind, op.arity)
        assert (op.flops == 0) == (op.kind in ("input", "index", "movement", "gather", "loop")), name


def test_seed_vocabulary() -> None:
    seed = "ADD MUL REDUCE EXPAND PERMUTE RESHAPE PAD SHRINK FLIP VIEW CAST INPUT WHERE MAX MIN SUB FDIV EXP2 RELU"
    assert set(seed.split()) | {"NEG", "RSQRT", "POOL"} <= set(UOPS)


def test_dtypes() -> None:
    assert dtype("float32") is fp32
    assert dtype("f16") is fp16
    assert dtype("int32") is i32
    assert dtype(np.dtype(ml_dtypes.bfloat16)) is bf16
    assert [element.bytes for element in DTYPES.values()] == [2, 2, 4, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1]
    assert all(
        dtype(element.numpy) is element and dtype(alias) is element
        for element in DTYPES.values()
        for alias in element.aliases
    )
    unsigned = [dtype(f"uint{bits}") for bits in (8, 16, 32, 64)]
    assert [(kind.name, kind.lowest, kind.highest, kind.is_signed) for kind in unsigned] == [
        (f"u{bits}", 0, 2**bits - 1, False) for bits in (8, 16, 32, 64)
    ]
    assert (fp16.accumulator, bf16.accumulator, fp64.accumulator, i32.accumulator) == (fp32, fp32, fp64, i32)
    assert promote(fp16, bf16) is fp32
    assert promote(fp16, fp64) is fp64
    assert promote(fp32, i32) is None
    for bad in ("fp8", np.dtype(np.complex64)):
        with pytest.raises(EqsatError):
            dtype(bad)


def test_integers_wrap() -> None:
    same(apply("ADD", [127, -128], [1, -1], of="i8"), [-128, 127])
    same(apply("SUB", [0, 5], [1, 7], of="u8"), [255, 254])
    same(apply("MUL", [2**30, -(2**31)], [4, -1], of="i32"), [0, -(2**31)])
    same(apply("NEG", [-(2**31), 1], of="i32"), [-(2**31), -1])
    same(apply("ABS", [-128, -5], of="i8"), [-128, 5])
    same(apply("REDUCE", [[100, 100]], of="i8", to="i8", op="SUM", axes=(1,), dtype="i8"), [-56])
    same(apply("REDUCE", [[100, 100]], of="i8", to="i32", op="SUM", axes=(1,), dtype="i32"), [200])


def test_integer_division_floors_and_survives_zero() -> None:
    x, y = [7, -7, 7, -7, 5, -(2**31)], [2, 2, -2, -2, 0, -1]
    same(apply("IDIV", x, y, of="i32"), [3, -4, -4, 3, 0, -(2**31)])
    same(apply("MOD", x, y, of="i32"), [1, 1, -1, -1, 0, 0])
    same(apply("IDIV", [200, 9], [7, 0], of="u8"), [28, 0])
    result = apply("IDIV", [2**64 - 1, 2**63, 5], [2, 2**64 - 1, 0], of="u64")
    assert result.tolist() == [2**63 - 1, 0, 0]


@pytest.mark.parametrize("name", [name for name, kind in DTYPES.items() if kind.is_int])
def test_shifts_beyond_the_width(name: str) -> None:
    """A count is as large as its bits say without a sign: a negative count is beyond every width."""
    element = dtype(name)
    width, low, high = element.bits, int(element.lowest), int(element.highest)
    counts = [0, 1, width - 1, width, width + 1, high, *([-1, low] if element.is_signed else [])]
    for value in (0, 1, 5, high, low, *([-1] if element.is_signed else [])):
        left, right = (apply(fn, [value] * len(counts), counts, of=name, to=name).tolist() for fn in ("SHL", "SHR"))
        within = [0 <= count < width for count in counts]
        shifted = [value << count if fits else 0 for count, fits in zip(counts, within, strict=True)]
        assert left == [(number - low) % (1 << width) + low for number in shifted]
        assert right == [value >> count if fits else -(value < 0) for count, fits in zip(counts, within, strict=True)]
    with pytest.raises(EqsatError, match="integer dtypes only"):
        apply("SHL", [1.0], [1.0])


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp32", "fp64"])
def test_nan_spreads_through_extrema(name: str) -> None:
    x, y = [nan, 1, 2, nan], [1, nan, 3, nan]
    same(apply("MAX", x, y, of=name), [nan, nan, 3, nan])
    same(apply("MIN", x, y, of=name), [nan, nan, 2, nan])
    same(apply("RELU", [nan, -1, -0.0, inf], of=name), [nan, 0, 0, inf])
    assert not np.signbit(apply("RELU", [-0.0, -1.0], of=name).astype(float)).any()
    same(apply("REDUCE", [x, y], of=name, op="MAX", axes=(0,), dtype=name), [nan, nan, 3, nan])
    same(apply("CUMMAX", [1, nan, 5], of=name, axis=0, dtype=name), [1, nan, nan])
    same(apply("CMPLT", x, y, of=name, to="bool"), [False, False, True, False])
    same(apply("CMPNE", x, y, of=name), [True] * 4)
    same(apply("CMPEQ", x, y, of=name), [False] * 4)


@pytest.mark.parametrize(("op", "identity"), [("SUM", 0), ("PROD", 1), ("MAX", -inf), ("MIN", inf)])
def test_reductions_of_nothing(op: str, identity: float) -> None:
    same(apply("REDUCE", np.zeros((2, 0), np.float32), op=op, axes=(1,), dtype="fp32"), [identity] * 2)
    ends = {"MAX": -(2**31), "MIN": 2**31 - 1}
    same(apply("REDUCE", np.zeros((0,), np.int32), op=op, axes=(0,), dtype="i32"), ends.get(op, identity))
    assert apply("REDUCE", np.zeros((0, 3), np.float32), op=op, axes=(1,), dtype="fp32").shape == (0,)


def test_init_is_one_more_element() -> None:
    for op, expected in (("SUM", 16), ("PROD", 60), ("MAX", 10), ("MIN", 1)):
        same(apply("REDUCE", [1, 2, 3], op=op, axes=(0,), dtype="fp32", init=10), expected)
    same(apply("REDUCE", np.zeros(0, np.float32), op="MAX", axes=(0,), dtype="fp32", init=-1.0), -1)


def test_all_and_any_are_extrema_of_bool() -> None:
    x = [[True, False], [True, True]]
    same(apply("REDUCE", x, of="bool", to="bool", op="MIN", axes=(1,), dtype="bool"), [False, True])
    same(apply("REDUCE", x, of="bool", to="bool", op="MAX", axes=(1,), dtype="bool"), [True, True])
    same(apply("REDUCE", x, of="bool", to="i32", op="SUM", axes=(0, 1), dtype="i32"), 3)


def test_half_sums_accumulate_in_fp32() -> None:
    ones = np.ones(4096, np.float16)
    same(apply("REDUCE", ones, op="SUM", axes=(0,), dtype="fp16"), 4096)
    same(apply("CUMSUM", ones, axis=0, dtype="fp16")[-1], 4096)
    brain = np.ones(1000, ml_dtypes.bfloat16)
    same(apply("REDUCE", brain, op="SUM", axes=(0,), dtype="fp32"), 1000)
    large = np.array([6e4, 6e4], np.float16)
    same(apply("REDUCE", large, op="SUM", axes=(0,), dtype="fp32"), 2 * float(np.float16(6e4)))
    same(apply("REDUCE", large, op="SUM", axes=(0,), dtype="fp16"), inf)


def test_a_narrow_result_rounds_once_at_the_end() -> None:
    x = np.array([1, 2**-30, -1], np.float64)
    same(apply("REDUCE", x, op="SUM", axes=(0,), dtype="fp32"), 2**-30)


def test_half_arithmetic_rounds_once() -> None:
    rng = np.random.default_rng(0)
    for name in ("fp16", "bf16"):
        x, y = (rng.standard_normal(500).astype(dtype(name).numpy) for _ in range(2))
        for uop, fn in (("ADD", np.add), ("MUL", np.multiply), ("FDIV", np.divide)):
            exact = fn(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
            result = apply(uop, x, y)
            assert result.dtype == x.dtype
            same(result, exact)


@pytest.mark.parametrize(
    ("uop", "fn"),
    [
        ("EXP", math.exp), ("EXP2", lambda x: 2**x), ("LOG", math.log), ("LOG2", math.log2), ("SIN", math.sin),
        ("COS", math.cos), ("TANH", math.tanh), ("ERF", math.erf), ("SQRT", math.sqrt),
        ("RSQRT", lambda x: 1 / math.sqrt(x)), ("RECIP", lambda x: 1 / x),
        ("SIGMOID", lambda x: 1 / (1 + math.exp(-x))),
        ("FLOOR", math.floor), ("CEIL", math.ceil), ("ROUND", round), ("NEG", lambda x: -x), ("ABS", abs),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("name", "tolerance"), [("fp16", 1e-3), ("bf16", 8e-3), ("fp32", 5e-7), ("fp64", 1e-15)])
def test_unary_functions(uop: str, fn: Any, name: str, tolerance: float) -> None:
    x = np.array([0.25, 0.5, 1.0, 1.5, 2.5, 3.25, 10.0], dtype(name).numpy)
    result = apply(uop, x)
    assert result.dtype == x.dtype
    np.testing.assert_allclose(
        result.astype(float), [fn(number) for number in x.astype(float).tolist()], rtol=tolerance, atol=1e-16
    )


def test_functions_at_their_edges() -> None:
    same(apply("SIGMOID", [-inf, -1000, 1000, inf, nan]), [0, 0, 1, 1, nan])
    same(apply("LOG", [0, -1, inf]), [-inf, nan, inf])
    same(apply("SQRT", [-1, 0, inf]), [nan, 0, inf])
    same(apply("RECIP", [0, -0.0, inf]), [inf, -inf, 0])
    same(apply("FDIV", [1, 0, -1], [0, 0, 0]), [inf, nan, -inf])
    same(apply("ROUND", [0.5, 1.5, 2.5, -0.5, -1.5]), [0, 2, 2, 0, -2])
    same(apply("POW", [-8, 0, 2, nan, -inf], [1 / 3, 0, -1, 0, 3]), [nan, 1, 0.5, 1, -inf])


def test_logic() -> None:
    same(apply("NOT", [True, False], of="bool"), [False, True])
    same(apply("NOT", [0, 5], of="u8"), [255, 250])
    same(apply("AND", [6, -1], [3, 7], of="i32"), [2, 7])
    same(apply("XOR", [True, True], [True, False], of="bool"), [False, True])
    same(apply("OR", [4], [1], of="i64"), [5])


@pytest.mark.parametrize(
    ("value", "of", "to", "expected"),
    [
        ([1.9, -1.9, nan, inf, -inf, 3e9], "fp32", "i32", [1, -1, 0, 2**31 - 1, -(2**31), 2**31 - 1]),
        ([300, -5, 254.9], "fp16", "u8", [255, 0, 254]),
        ([300, -5, 256], "i32", "u8", [44, 251, 0]),
        ([0, -0.0, nan, 0.1], "fp32", "bool", [False, False, True, True]),
        ([True, False], "bool", "fp16", [1, 0]),
        ([70000.0, -1.0, nan, 65535.9], "fp32", "u16", [65535, 0, 0, 65535]),
        ([2**32, -1.0, 2**32 - 0.5, 2**31], "fp64", "u32", [2**32 - 1, 0, 2**32 - 1, 2**31]),
        ([-1, 2**31 - 1], "i32", "u16", [65535, 65535]),
        ([2**31, 2**32 - 1], "u32", "i32", [-(2**31), -1]),
        ([2**32 - 1], "u32", "i64", [2**32 - 1]),
        ([65520.0, 65519.0], "fp32", "fp16", [inf, 65504]),
        ([1 + 2**-9, 1 + 3 * 2**-8], "fp32", "bf16", [1, 1 + 2 * 2**-7]),
        ([1 + 2**-11 + 2**-40], "fp64", "fp16", [1 + 2**-10]),
    ],
)
def test_cast(value: Any, of: str, to: str, expected: Any) -> None:
    same(_cast(np.array(value, dtype(of).numpy), to), expected)


def test_cast_saturates_to_the_exact_ends_of_i64() -> None:
    result = _cast(np.array([1e30, -1e30, 2.0**63, -(2.0**63), 2.0**62], np.float64), "i64")
    assert result.tolist() == [2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 2**62]


def test_casts_between_u64_and_floats() -> None:
    x = np.array([2.0**64, 2.0**63, 2.0**64 - 2.0**11, -1, nan, inf, -inf, 0.9], np.float64)
    top = 2**64 - 1
    assert _cast(x, "u64").tolist() == [top, 2**63, 2**64 - 2**11, 0, 0, top, 0, 0]
    whole = np.array([2**64 - 1, 2**63 + 2**39, 2**63 + 2**39 + 1, 2**53 + 1], np.uint64)
    assert _cast(whole, "fp64").tolist() == [2.0**64, 2.0**63 + 2**39, 2.0**63 + 2**39, 2.0**53]
    assert _cast(whole, "fp32").tolist() == [2.0**64, 2.0**63, 2.0**63 + 2**40, 2.0**53]
    assert _cast(np.array([-1, -(2**63)]), "u64").tolist() == [top, 2**63]


def _cast(x: Any, to: str) -> Any:
    out = UOPS["CAST"].type_of([TensorType.of(dtype(x.dtype), x.shape)], Arg(to=to))
    return UOPS["CAST"].apply([x], Arg(to=to), out)


def test_scans() -> None:
    x = [[1, 2, 3], [4, 5, 6]]
    same(apply("CUMSUM", x, axis=1, dtype="fp32"), [[1, 3, 6], [4, 9, 15]])
    same(apply("CUMPROD", x, axis=0, dtype="fp32"), [[1, 2, 3], [4, 10, 18]])
    same(apply("CUMMAX", [3, 1, 4, 1], axis=0, dtype="fp32"), [3, 3, 4, 4])
    assert apply("CUMSUM", np.zeros((2, 0), np.float32), axis=1, dtype="fp32").shape == (2, 0)


def test_gather_is_torch_gather_and_clamps() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    src = rng.standard_normal((4, 5, 6)).astype(np.float32)
    for axis, shape in ((0, (9, 5, 6)), (1, (3, 7, 2)), (2, (4, 1, 6))):
        index = rng.integers(0, src.shape[axis], shape)
        expected = torch.gather(torch.tensor(src), axis, torch.tensor(index)).numpy()
        np.testing.assert_array_equal(apply("GATHER", src, index, axis=axis), expected)
    outside = np.array([[-7, 99, 2]], np.int32)
    same(apply("GATHER", np.arange(4, dtype=np.float32)[None], outside, axis=1), [[0, 3, 2]])
    far = np.array([[2**64 - 1, 2**63, 3, 1]], np.uint64)
    same(apply("GATHER", np.arange(4, dtype=np.float32)[None], far, axis=1), [[3, 3, 3, 1]])
    assert apply("GATHER", np.zeros((0, 3), np.float32), np.zeros((0, 2), np.int64), axis=1).shape == (0, 2)


SCATTERED = {"LAST": None, "SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}


@pytest.mark.parametrize("op", SCATTERED)
@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16", "i64", "u8", "bool"])
def test_scatter_combines_updates_in_their_order(op: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    element = dtype(kind)
    source, updates = (rng.integers(0, 4, shape).astype(element.numpy) for shape in ((3, 5, 4), (3, 9, 4)))
    index = rng.integers(-2, 7, (3, 9, 4))
    if element.is_bool and op in ("SUM", "PROD"):
        with pytest.raises(EqsatError, match="defined for float and integer dtypes only"):
            apply("SCATTER", source, index, updates, axis=1, op=op)
        return
    expected = source.copy()
    for i, j, k in np.ndindex(*index.shape):
        at = (i, index[i, j, k], k)
        if 0 <= at[1] < 5:
            ufunc = SCATTERED[op]
            expected[at] = updates[i, j, k] if ufunc is None else ufunc(expected[at], updates[i, j, k])
    actual = apply("SCATTER", source, index, updates, axis=1, op=op)
    assert actual.dtype == element.numpy
    same(actual, expected)


def test_scatter_at_the_ends() -> None:
    x = np.arange(3, dtype=np.float32)
    far = np.array([2**64 - 1, 2**63, 2, 2], np.uint64)
    same(apply("SCATTER", x, far, np.ones(4, np.float32), axis=0, op="SUM"), [0, 1, 4])
    same(apply("SCATTER", x, np.zeros(0, np.int64), np.zeros(0, np.float32), axis=0, op="LAST"), x)
    empty = np.zeros((0, 2), np.float32)
    assert apply("SCATTER", empty, np.zeros((4, 2), np.int64), np.ones((4, 2), np.float32), axis=0, op="MAX").size == 0
    nan = apply("SCATTER", x, np.array([1, 1]), np.array([np.nan, 5], np.float32), axis=0, op="MAX")
    same(nan, [0, np.nan, 2])


def test_pool_is_a_strided_dilated_window() -> None:
    x = np.arange(2 * 9 * 8, dtype=np.float32).reshape(2, 9, 8)
    result = apply("POOL", x, kernel=(3, 2), stride=(2, 3), dilation=(2, 1))
    assert result.shape == (2, 3, 3, 3, 2)
    for at in np.ndindex(*result.shape):
        n, oy, ox, ky, kx = at
        assert result[at] == x[n, 2 * oy + 2 * ky, 3 * ox + kx]


def test_movements_on_arrays() -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    same(apply("PERMUTE", x, perm=(1, 0)), x.T)
    same(apply("FLIP", x, axes=(0, 1)), x[::-1, ::-1])
    same(apply("SHRINK", x, lo=(0, 1), hi=(3, 4), step=(2, 2)), x[::2, 1:4:2])
    same(apply("PAD", x, pad=((1, 0), (0, 2)), value=7), np.pad(x, ((1, 0), (0, 2)), constant_values=7))
    same(apply("PAD", np.ones(1, np.float16), pad=((1, 1),), value=-inf), [-inf, 1, -inf])
    same(apply("VIEW", x, result_shape=(2, 4), index_map=("2*i0", "i1 - 2*(i1//2) + 1")), x[::2][:, [1, 2, 1, 2]])
    same(apply("VIEW", x, result_shape=(3, 2), index_map=("1", "3")), np.full((3, 2), 7))
    same(apply("VIEW", x, result_shape=(0, 2), index_map=("i0", "i1 + 99")), np.zeros((0, 2)))
    same(apply("RESHAPE", x.T, result_shape=(2, 6)), x.T.reshape(2, 6))
    same(apply("EXPAND", x[:1], result_shape=(2, 4)), [x[0], x[0]])


def test_wide_computes_in_fp64() -> None:
    third = apply("FDIV", [1], [3], of="fp16", wide=True)
    assert third.dtype == np.float64
    assert third[0] == 1 / 3


def test_flops() -> None:
    product = [TensorType.of("fp32", (4, 8))] * 2
    assert total_flops(UOPS["MUL"], product, product[0]) == 32
    assert total_flops(UOPS["REDUCE"], product[:1], TensorType.of("fp32", (4,))) == 32
    assert total_flops(UOPS["RESHAPE"], product[:1], product[0]) == 0


def test_arg_is_immutable_and_hashable() -> None:
    a, b = Arg(axes=(1,), op="SUM"), Arg({"op": "SUM", "axes": (1,)})
    assert a == b
    assert hash(a) == hash(b)
    assert a.with_(op=None) == Arg(axes=(1,))
    assert list(a) == ["axes", "op"]
    with pytest.raises(TypeError):
        a["op"] = "MAX"  # type: ignore[index]
