"""BITCAST in programs: every bit stays, of NaN and denormals too, on CPUs (whose threads flush denormals) and GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.egraph.exact_quotients import exact_quotients
from eqsat.egraph.finite import find_finite
from eqsat.model import read_model
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError
from ir.tiny.flush import Flush
from ir.tiny.graph import Graph
from ir.tiny.playback import playback
from rules.constants import fold_unary
from rules.op_fills import preimage
from tests.support.oracles.plain_numpy import evaluate

FLOATS: dict[str, Any] = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64}
ODD = {
    16: (0x7C00, 0x7E00, 0x7D01, 0xFC01, 0x7F80, 0x7F81, 0x7FC1, 0xFF83, 0xFFFF, 0x8000, 1, 0x8001, 0x3FF, 0x7F),
    32: (0x7F800001, 0x7FC12345, 0xFFC00001, 0xFF800003, 0x80000000, 1, 0x80000001, 0x7FFFFF),
    64: (0x7FF0000000000001, 0x7FF8000012345678, 0xFFF0000000000003, 1 << 63, 1, (1 << 63) + 1, (1 << 52) - 1),
}
"""The bits of quiet and signalling NaN, infinities, zeros and denormals."""
TARGETS = pytest.mark.parametrize("target", ["cpu", "sm_80"])
DTYPES = pytest.mark.parametrize("name", FLOATS)


def words(name: str) -> np.ndarray[Any, Any]:
    """Bits of numbers of a dtype: special ones, and enough others for a vector and a tail."""
    kind = np.dtype(FLOATS[name])
    width = 8 * kind.itemsize
    others = np.random.default_rng(0).integers(0, 2**width, 75, np.uint64, endpoint=False) if width < 64 else None
    more = others if others is not None else np.random.default_rng(0).integers(0, 2**64 - 1, 75, np.uint64)
    return np.concatenate([np.array(ODD[width], np.uint64), more]).astype(f"u{kind.itemsize}")


def run(target: str, outputs: dict[str, Tensor], **arrays: Any) -> dict[str, np.ndarray[Any, Any]]:
    program = optimize_and_compile(outputs, target=target, emulate=target != "cpu")
    results = program(**arrays)
    several = results if isinstance(results, tuple) else (results,)
    return {name: np.asarray(result) for name, result in zip(outputs, several, strict=True)}


def graph_of(outputs: list[Tensor]) -> Graph:
    return read_model(outputs).bind({}, strict=False).graph


@TARGETS
@DTYPES
def test_every_bit_stays(name: str, target: str) -> None:
    bits = words(name)
    kind, word = np.dtype(FLOATS[name]), f"u{8 * bits.itemsize}"
    signed = word.replace("u", "i")
    x, y = tensor.input("x", bits.shape, name), tensor.input("y", bits.shape, word)
    column = y.reshape(1, -1).pad([(0, 1), (0, 0)], 7).flip(1)
    actual = run(
        target,
        {
            "to": x.bitcast(word),
            "signed": x.bitcast(signed) + 0,
            "of": y.bitcast(name),
            "next": (x.bitcast(word) + 1).bitcast(name),
            "moved": column.bitcast(name),
            "twice": y.bitcast(name).bitcast(signed),
        },
        x=bits.view(kind),
        y=bits,
    )
    moved = np.pad(bits.reshape(1, -1), ((0, 1), (0, 0)), constant_values=7)[:, ::-1]
    wanted = {"to": bits, "signed": bits, "of": bits, "next": bits + bits.dtype.type(1), "moved": moved, "twice": bits}
    for output, words_of in wanted.items():
        np.testing.assert_array_equal(actual[output].view(bits.dtype), words_of, err_msg=output)


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "contraction": lambda x, w: x @ w,
    "stream": lambda x, w: nn.softmax(x * 1e4) @ w,
    "rows": lambda x, w: (x @ w).sum(1, keepdims=True) - (x @ w).sum(1, keepdims=True) + x @ w,
}


@pytest.mark.slow
@TARGETS
@pytest.mark.parametrize("to", ["fp16", "bf16"])
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_every_bit_stays_behind_a_product(product: Callable[[Tensor, Tensor], Tensor], to: str, target: str) -> None:
    """Each row of the product is a number whose bits are NaN, denormal or special; fp32 holds the number."""
    table = np.broadcast_to(words(to)[:64, None], (64, 64)).astype(np.float32)
    x, w = tensor.input("x", (64, 64)), tensor.input("w", (64, 64))
    outputs = {"y": product(x, w).cast("u16").bitcast(to), "bits": product(x, w).cast("u16")}
    result = run(target, outputs, x=np.eye(64, dtype=np.float32), w=table)
    np.testing.assert_array_equal(result["y"].view(np.uint16), result["bits"])
    np.testing.assert_array_equal(result["bits"], table)


@TARGETS
@DTYPES
def test_bits_of_computed_values(name: str, target: str) -> None:
    x = np.linspace(-3, 5, 70).astype(FLOATS[name])
    word = f"i{8 * x.itemsize}"
    result = run(target, {"y": (tensor.input("x", x.shape, name) * 2 - 1).bitcast(word)}, x=x)["y"]
    two, one = x.dtype.type(2), x.dtype.type(1)
    np.testing.assert_array_equal(result, ((x * two).astype(x.dtype) - one).astype(x.dtype).view(result.dtype))


@DTYPES
def test_playbacks_agree(name: str) -> None:
    bits = words(name)
    x = tensor.input("x", bits.shape, name)
    graph = graph_of([x.bitcast(f"u{8 * bits.itemsize}"), x.bitcast(f"i{8 * bits.itemsize}").bitcast(name)])
    inputs = {"x": bits.view(FLOATS[name])}
    for results in (playback(graph, inputs), playback(graph, inputs, flush=Flush.DENORMALS), evaluate(graph, inputs)):
        for result in results:
            np.testing.assert_array_equal(result.view(bits.dtype), bits)
    numbers = np.linspace(-2, 2, bits.size).astype(FLOATS[name])
    wide, _ = playback(graph, {"x": numbers}, wide=True)
    np.testing.assert_array_equal(wide, numbers.view(bits.dtype))


@pytest.mark.parametrize(("source", "to"), [("fp32", "u8"), ("fp64", "bf16"), ("i64", "fp32"), ("bool", "i16")])
def test_another_width_changes_the_last_axis(source: str, to: str) -> None:
    """As NumPy's view, and back."""
    rng = np.random.default_rng(1)
    kind, other = tensor.input("a", (1,), source).dtype.numpy, tensor.input("b", (1,), to).dtype.numpy
    x = rng.standard_normal((3, 4)).astype(kind) if kind.kind == "f" else rng.integers(0, 2, (3, 4)).astype(kind)
    y = tensor.input("x", x.shape, source).bitcast(to)
    np.testing.assert_array_equal(run("cpu", {"y": y}, x=x)["y"], x.view(other))
    if source != "bool":
        back = tensor.input("z", y.shape, to).bitcast(source)
        np.testing.assert_array_equal(run("cpu", {"x": back}, z=x.view(other))["x"], x)


def _bare(**arg: str) -> Tensor:
    return Tensor("BITCAST", [tensor.input("x", (3,))], arg)


REFUSED: tuple[tuple[Callable[[], Tensor], str], ...] = (
    (lambda: tensor.input("x", ()).bitcast("u8"), "another width"),
    (lambda: tensor.input("x", (3,), "u8").bitcast("fp32"), "4 elements of u8 are one fp32"),
    (lambda: tensor.input("x", (3,), "u8").bitcast("bool"), "a bool has no bits"),
    (lambda: _bare(to="i64"), "differ in width"),
    (lambda: _bare(to="i32", of="i32"), "no i32"),
)


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_what_has_no_bits_is_refused(build: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(EqsatError, match=message):
        build()


def test_the_operands_dtype_may_be_left_out() -> None:
    program = optimize_and_compile("%x: fp32[2] = input()\n%y: i32[2] = bitcast(%x)\n")
    np.testing.assert_array_equal(program(x=np.ones(2, np.float32)), [0x3F800000] * 2)


def test_a_quotient_whose_bits_are_read_is_rounded_once() -> None:
    x = tensor.input("x", (8,))
    graph = graph_of([(x / 49.0).bitcast("i32"), x / 7.0])
    assert len(exact_quotients(graph)) == 1


def test_bits_may_be_those_of_an_infinity() -> None:
    x = tensor.input("x", (8,), "i32")
    graph = graph_of([x.bitcast("fp32") + 1.0, x + 1])
    finite = {graph.types[ref].dtype.name for ref in find_finite(graph)}
    assert finite == {"i32"}


def test_a_constant_keeps_its_nan() -> None:
    """The text of a constant does not say which NaN it is."""
    assert fold_unary.fn("bitcast_i32", "fp32", "i32", str(0x3F800000)) == "1.0"
    assert fold_unary.fn("bitcast_fp32", "i32", "fp32", "1.0") == str(0x3F800000)
    assert fold_unary.fn("bitcast_i32", "fp32", "i32", str(0x7FC00001)) == ""
    assert preimage("bitcast_i32", "fp32", float("nan"), (("i32", None),)) is None
    bits = np.full(4, 0x7FC00001, np.int32)
    y = run(
        "cpu",
        {"y": tensor.full((4,), 0x7FC00001, "i32").bitcast("fp32"), "z": tensor.input("x", (4,))},
        x=bits.view("f4"),
    )
    np.testing.assert_array_equal(y["y"].view(np.int32), bits)


def test_bits_of_bits_are_one_op() -> None:
    x = tensor.input("x", (64,))
    program = optimize_and_compile((x + 1.0).bitcast("u32").bitcast("i32").bitcast("fp32") * 2.0)
    assert "bits_" not in str(program.source())
