"""What NumPy's users expect of lazy tensors: its dtypes, its weak Python numbers, its functions and protocols."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqsat import nn, tensor
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from ir.dtype import DTYPES, bf16
from ir.dtype import dtype as as_dtype
from tests.eqsat.lazy.test_tensor import run

ELEMENTS = [name for name in DTYPES if name != "bf16"]
UNSIGNED = ("u8", "u16", "u32", "u64")
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "where": lambda a, b: np.where(a != 0, a, b),
    "@": lambda a, b: a @ b,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    name: getattr(np, name)
    for name in (
        "negative", "absolute", "exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "rint",
        "invert", "square", "isnan", "logical_not", "sum", "prod", "max", "min", "mean", "var", "cumsum", "round",
    )
}  # fmt: skip
NUMBERS = (True, 2, 1.5, -3, 0)


def array(name: str) -> np.ndarray:
    return np.array([0, 1, 3, 2, 5, 1], np.int64).astype(DTYPES[name].numpy)


def numpys(fn: Callable[..., Any], *operands: Any) -> np.ndarray | None:
    """What NumPy makes of it, None where it refuses or has a dtype that we have not."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = np.asarray(fn(*operands))
        except (TypeError, OverflowError, ValueError):
            return None
    return result if any(result.dtype == element.numpy for element in DTYPES.values()) else None


def same(fn: Callable[..., Any], *operands: Any) -> None:
    """The lazy tensor does as NumPy does, in dtype, shape and value, or is refused as NumPy refuses."""
    arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]

    def build(*inputs: Tensor) -> Tensor:
        left = iter(inputs)
        result: Tensor = fn(*(next(left) if isinstance(operand, np.ndarray) else operand for operand in operands))
        return result

    expected = numpys(fn, *operands)
    if expected is None:
        with pytest.raises(EqsatError) as caught:
            run(build, *arrays)
        assert caught.value.kind is Kind.DTYPE_MISMATCH
        return
    got = run(build, *arrays)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    rough = 4e-3 if any(array.dtype == np.float16 for array in (*arrays, got)) else 1e-6
    np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=rough, atol=rough)


@pytest.mark.parametrize("op", BINARY)
def test_two_tensors_meet_in_numpys_dtype(op: str) -> None:
    for a, b in itertools.product(ELEMENTS, ELEMENTS):
        same(BINARY[op], array(a), array(b))


@pytest.mark.parametrize("op", [op for op in BINARY if op not in ("@", "where")])
def test_python_numbers_are_weak(op: str) -> None:
    for name, value in itertools.product(ELEMENTS, NUMBERS):
        if name in UNSIGNED and value == -3 and op in ("<", ">=", "==", "!="):
            continue  # NumPy compares a number out of range; here it is refused, which the test below has
        same(BINARY[op], array(name), value)
        same(BINARY[op], value, array(name))


@pytest.mark.parametrize("op", UNARY)
def test_functions_keep_numpys_dtype(op: str) -> None:
    for name in ELEMENTS:
        if op in ("sum", "prod", "cumsum") and name in ("u8", "u16", "u32"):
            continue  # u64 in NumPy; i64 here
        if op in ("square", "round") and name == "bool":
            continue  # i8 and fp16 in NumPy; bool here, as a product or a floor of bools is
        same(UNARY[op], array(name))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 0.5])
def test_powers(exponent: float) -> None:
    for name in ELEMENTS:
        if (name, exponent) != ("bool", 2):  # i8 in NumPy, where other powers are i64
            same(lambda x: x**exponent, array(name))
    same(lambda x: x**-1.0, array("fp64")[1:])
    refused(Kind.DTYPE_MISMATCH, lambda: tensor.input("x", (2,), "i32") ** -1, "negative power")
    refused(Kind.DTYPE_MISMATCH, lambda: tensor.input("x", (2,), "i32") ** tensor.input("y", (2,), "i32"))


def test_numpys_scalars_and_arrays_are_strong() -> None:
    x = array("fp32")
    for other in (np.float64(2), np.float32(2), np.int8(2), np.arange(6.0), np.arange(6), np.bool_(True)):
        same(lambda a, other=other: a + other, x)
        same(lambda a, other=other: other * a, x)


def test_bf16_stands_where_fp16_does() -> None:
    x = tensor.input("x", (2,), "bf16")
    actual = {
        "bf16": [x + 1, x * 1.5, x + True, x / 2, x > 0, x + tensor.input("y", (2,), "i8"), x.exp(), x.mean()],
        "fp32": [x + tensor.input("y", (2,), "fp16"), x * tensor.input("y", (2,), "fp32")],
        "fp64": [x + tensor.input("y", (2,), "i32"), x / tensor.input("y", (2,), "fp64")],
    }
    for name, results in actual.items():
        assert {result.dtype.name for result in results} - {"bool"} == {name}
    assert tensor.concatenate([x, tensor.input("y", (1,), "fp16")]).dtype.name == "fp32"
    assert run(lambda a: a + 1, np.ones(2, bf16.numpy)).dtype == bf16.numpy


def test_networks_take_integers() -> None:
    x = np.arange(48, dtype=np.int32).reshape(1, 3, 4, 4) % 5
    windows = x.reshape(1, 3, 2, 2, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    np.testing.assert_allclose(run(lambda a: nn.avg_pool2d(a, 2), x), windows.mean((-2, -1)))
    np.testing.assert_array_equal(run(lambda a: nn.max_pool2d(a, 2), x), windows.max((-2, -1)))
    np.testing.assert_allclose(run(nn.softmax, x).sum(-1), np.ones((1, 3, 4)))
    for function in (nn.gelu, nn.silu, nn.log_softmax, nn.layer_norm, nn.rms_norm):
        np.testing.assert_allclose(run(function, x), run(function, x.astype(np.float64)), rtol=1e-12)
    w = np.ones((2, 3, 3, 3), np.int32)
    summed = run(nn.conv2d, x, w)
    assert summed.dtype == np.int32
    assert summed[0, 0, 0, 0] == x[0, :, :3, :3].sum()


def test_numpys_functions_build_uops() -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    calls: list[Callable[..., Any]] = [
        lambda a, b: np.sum(a, axis=1, keepdims=True) + b,
        lambda a, b: np.sum(a, dtype=np.float64) + b,
        lambda a, b: np.concatenate([a, b], axis=-1),
        lambda a, b: np.where(a > 2, a, 0.0),
        lambda a, b: np.transpose(a) @ b,
        lambda a, b: np.dot(a, b.T),
        lambda a, b: np.pad(a, 1) + 0 * np.pad(b, ((1, 1), (1, 1)), constant_values=2),
        lambda a, b: np.clip(a, 1, 3) + np.zeros_like(b),
        lambda a, b: np.take(a, np.array([1, 0]), axis=1),
        lambda a, b: np.reshape(a, (3, 2)),
        lambda a, b: np.expand_dims(np.squeeze(a[:, :1]), 0) + np.flip(a.T, 0),
        lambda a, b: np.swapaxes(np.broadcast_to(a, (2, 2, 3)), 0, 2),
        lambda a, b: np.logical_and(a, b - 1),
        lambda a, b: np.ravel(a) * np.size(a) + np.ndim(a) + np.shape(a)[0],
        lambda a, b: 2.0 // (a + 1) + 7 % (b + 1),
        lambda a, b: sum(row * row for row in a),
    ]
    for call in calls:
        same(call, x, y)
    flags = np.array([True, False])
    same(lambda a: (True & a) | (False ^ a), flags)


def refused(kind: Kind, call: Callable[[], Any], *words: str) -> None:
    with pytest.raises(EqsatError) as caught:
        call()
    assert caught.value.kind is kind, str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


IMAGE = tensor.input("image", (1, 2, 4, 4))
X: Any = tensor.input("x", (2, 3))  # of no type, as it is given what it may not be
WHOLE = tensor.input("i", (2, 3), "i32")
REFUSED: dict[str, tuple[Kind, Callable[[], Any], str]] = {
    "step 0": (Kind.MALFORMED_GRAPH, lambda: X[::0], "step"),
    "slice of floats": (Kind.MALFORMED_GRAPH, lambda: X[0.5:], "slice"),
    "mask": (Kind.UNSUPPORTED_OP, lambda: X[X > 0], "where"),
    "truth as index": (Kind.UNSUPPORTED_OP, lambda: X[True], "boolean"),
    "index tensor": (Kind.DTYPE_MISMATCH, lambda: X[X], "fp32"),
    "index list": (Kind.MALFORMED_GRAPH, lambda: X[[0, 2]], "out of bounds"),
    "index text": (Kind.UNSUPPORTED_OP, lambda: X["a"], "str"),
    "plus None": (Kind.INPUT_MISMATCH, lambda: X + None, "NoneType"),
    "plus text": (Kind.INPUT_MISMATCH, lambda: X + "a", "str"),
    "equals None": (Kind.INPUT_MISMATCH, lambda: X == None, "NoneType"),  # noqa: E711
    "plus complex": (Kind.DTYPE_MISMATCH, lambda: X + np.ones(3, complex), "complex128"),
    "number out of range": (Kind.DTYPE_MISMATCH, lambda: tensor.input("u", (2,), "u8") > -3, "u8"),
    "pad of nothing": (Kind.MALFORMED_GRAPH, lambda: X.pad(None), "per axis"),
    "pad of another rank": (Kind.MALFORMED_GRAPH, lambda: X.pad([(1, 1)]), "2 axes"),
    "pad of another dtype": (Kind.DTYPE_MISMATCH, lambda: WHOLE.pad([(1, 1), (0, 0)], 1.5), "1.5"),
    "pad with text": (Kind.DTYPE_MISMATCH, lambda: X.pad([(1, 1), (0, 0)], "inf"), "str"),
    "gather the wrong way": (Kind.MALFORMED_GRAPH, lambda: X.gather(WHOLE, 0), "Tensor"),
    "flatten backwards": (Kind.MALFORMED_GRAPH, lambda: X.flatten(1, 0), "after"),
    "squeeze of 3": (Kind.AXIS_SIZE_MISMATCH, lambda: X.squeeze(1), "size 1"),
    "axis twice": (Kind.MALFORMED_GRAPH, lambda: X.sum((0, -2)), "twice"),
    "axis text": (Kind.MALFORMED_GRAPH, lambda: X.sum("a"), "whole number"),
    "shape of floats": (Kind.MALFORMED_GRAPH, lambda: X.reshape(1.5, 4), "1.5"),
    "no shape": (Kind.MALFORMED_GRAPH, lambda: tensor.input("q", None), "None"),  # type: ignore[call-overload]
    "no name": (Kind.MALFORMED_GRAPH, lambda: tensor.input("", (2,)), "name"),
    "no constant's name": (Kind.MALFORMED_GRAPH, lambda: tensor.constant(1, name=""), "name"),
    "half a character": (Kind.MALFORMED_GRAPH, lambda: tensor.input("\ud800", (2,)), "name"),
    "no dtype": (Kind.DTYPE_MISMATCH, lambda: X.astype([]), "[]"),
    "no uop": (Kind.UNKNOWN_UOP, lambda: Tensor("RELUS", [X]), "RELUS"),
    "as an array": (Kind.UNSUPPORTED_OP, lambda: np.asarray(X), "no values"),
    "in an array": (Kind.UNSUPPORTED_OP, lambda: np.array([X, X]), "no values"),
    "ufunc without uop": (Kind.UNSUPPORTED_OP, lambda: np.arctan(X), "arctan"),
    "ufunc method": (Kind.UNSUPPORTED_OP, lambda: np.add.reduce(X), "reduce"),
    "ufunc out": (Kind.UNSUPPORTED_OP, lambda: np.exp(X, out=np.ones((2, 3))), "out"),
    "function without uops": (Kind.UNSUPPORTED_OP, lambda: np.linalg.norm(X), "norm"),
    "function's argument": (Kind.UNSUPPORTED_OP, lambda: np.sum(X, where=True), "where"),
    "length of a scalar": (Kind.UNSUPPORTED_OP, lambda: len(X.sum()), "rank 0"),
    "rows of a scalar": (Kind.UNSUPPORTED_OP, lambda: list(X.sum()), "rank 0"),
    "sum of bits": (Kind.DTYPE_MISMATCH, lambda: X & 1, "fp32"),
    "sum in text": (Kind.DTYPE_MISMATCH, lambda: X.sum(dtype="much"), "much"),
    "concatenate one": (Kind.MALFORMED_GRAPH, lambda: tensor.concatenate(X), "list"),
    "conv of rank 2": (Kind.AXIS_SIZE_MISMATCH, lambda: nn.conv2d(X, X), "conv2d"),
    "no groups": (Kind.MALFORMED_GRAPH, lambda: nn.conv2d(IMAGE, IMAGE, groups=0), "groups"),
    "kernel of three": (Kind.MALFORMED_GRAPH, lambda: nn.max_pool2d(IMAGE, (2, 2, 2)), "kernel"),
    "stride text": (Kind.MALFORMED_GRAPH, lambda: nn.avg_pool2d(IMAGE, 2, "2"), "stride"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_at_its_line(name: str) -> None:
    kind, call, word = REFUSED[name]
    refused(kind, call, word)


def test_shapes_and_dtypes_in_numpys_spellings() -> None:
    assert tensor.input("q", 5).shape == (5,)
    assert tensor.full(3, 1).shape == (3,)
    assert tensor.input("q", np.int64(5), np.float64).dtype.name == "fp64"
    assert X.astype(float).dtype.name == "fp64"
    assert X.astype(np.int8).dtype.name == "i8"
    assert as_dtype(bf16.numpy.type) is bf16
    assert X[np.int64(1), 2].shape == ()
    assert len(list(X)) == 2
    np.testing.assert_array_equal(run(lambda a: a.recip(), array("fp32")[1:]), np.float32(1) / array("fp32")[1:])


def test_a_label_names_the_reduction() -> None:
    refused(Kind.DTYPE_MISMATCH, lambda: Tensor("REDUCE", [X], {"op": "SUM", "axes": (0,), "dtype": "i32"}), "(sum)")
