"""MatMulNBits and GatherBlockQuantized, against onnxruntime and NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from eqsat import optimize_and_compile
from ir.diagnostics import EqsatError, Kind
from tests.eqsat.frontends.onnx.test_onnx import bind, model_of
from tests.support.oracles.runtime_operator import run_both

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def packed(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, np.uint8)


def numbers(array: np.ndarray, bits: int) -> np.ndarray:
    """Those in bytes, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((array[..., None] >> shifts) & ((1 << bits) - 1)).reshape(*array.shape[:-1], -1)


class Weights:
    """The operands of a product by N × K weights, and its attributes."""

    def __init__(self, n: int, k: int, block: int, bits: int, zero: str = "", groups: bool = False) -> None:
        blocks = -(-k // block)
        zeros = {"": None, "bytes": packed(n, -(-blocks * bits // 8)), "floats": 3 * abs(normal(n, blocks))}
        self.b, self.scales, self.zero = packed(n, blocks, block * bits // 8), normal(n, blocks), zeros[zero]
        self.groups = RNG.integers(0, blocks, k).astype(np.int32) if groups else None
        self.attrs = {"N": n, "K": k, "block_size": block, "bits": bits, "accuracy_level": 1}

    def operands(self, a: np.ndarray, bias: np.ndarray | None = None) -> dict[str, np.ndarray | None]:
        own = {"b_weight": self.b, "b_scale": self.scales.astype(a.dtype), "b_zero": self.zero}
        return {"a": a, **own, "groups_weight": self.groups, "bias": bias}

    def dequantized(self) -> np.ndarray:
        n, k, block, bits = (self.attrs[name] for name in ("N", "K", "block_size", "bits"))
        place = np.arange(k) // block if self.groups is None else self.groups
        zero = np.full(self.scales.shape, 1 << (bits - 1)) if self.zero is None else self.zero
        zero = numbers(zero, bits) if zero.dtype == np.uint8 else zero
        product: np.ndarray = (numbers(self.b.reshape(n, -1), bits)[:, :k] - zero[:, place].astype(np.float32)) * (
            self.scales[:, place]
        )
        return product


@pytest.mark.parametrize("zero", ["", "bytes", "floats"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_products_agree_with_onnxruntime(bits: int, zero: str) -> None:
    """Whole and short last blocks, one row and one column. onnxruntime has no zero points of floats for 8 bits."""
    for (n, k, block), lead in itertools.product([(5, 40, 16), (1, 64, 16), (3, 1, 16), (4, 33, 32)], [(1,), (2, 3)]):
        weights, a = Weights(n, k, block, bits, zero), normal(*lead, k)
        if (bits, zero) == (8, "floats"):
            (actual,) = play(weights, a)
            expected = a @ weights.dequantized().T
        else:
            actual, expected = run_both("MatMulNBits", weights.operands(a, normal(n)), weights.attrs)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


def product_model(weights: Weights, a: np.ndarray) -> Any:
    operands = {name: array for name, array in weights.operands(a).items() if name != "a"}
    names = ["a", *(name if array is not None else "" for name, array in operands.items())]
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **weights.attrs)
    constants = {name: array for name, array in operands.items() if array is not None}
    model = model_of([node], {"a": a}, constants=constants)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def play(weights: Weights, a: np.ndarray) -> tuple[np.ndarray, ...]:
    from ir.tiny.playback import playback

    bound = bind(product_model(weights, a))
    return playback(bound.graph, {"a": a, **bound.constants})


@pytest.mark.parametrize(("bits", "zero"), [(4, ""), (4, "floats"), (4, "bytes"), (2, ""), (8, "bytes")])
def test_groups_say_the_scale_and_the_zero_point_of_a_column(bits: int, zero: str) -> None:
    """onnxruntime's kernel for CPUs leaves packed zero points out where there are groups, and reads 2 bits as 4."""
    weights, a = Weights(5, 40, 16, bits, zero, groups=True), normal(3, 40)
    expected = a @ weights.dequantized().T
    np.testing.assert_allclose(play(weights, a)[0], expected, rtol=1e-4, atol=1e-4 * abs(expected).max())
    if (bits, zero) in ((4, ""), (4, "floats")):
        actual, theirs = run_both("MatMulNBits", weights.operands(a), weights.attrs)
        np.testing.assert_allclose(actual, theirs, rtol=1e-4, atol=1e-4 * abs(expected).max())


def test_products_in_half_precision_are_summed_in_fp32() -> None:
    weights, a = Weights(5, 40, 16, 4, "bytes"), normal(3, 40).astype(np.float16)
    actual, expected = run_both("MatMulNBits", weights.operands(a), weights.attrs)
    np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=2e-3 * abs(expected).max())


def test_a_projection_that_is_left_out_is_the_bias() -> None:
    weights, a, bias = Weights(5, 40, 16, 4), normal(3, 40), normal(5)
    weights.b = weights.b[:0]
    actual, expected = run_both("MatMulNBits", weights.operands(a, bias), weights.attrs)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ("b", "the weights are [5, 3, 7], but the attributes make them [5, 3, 8]"),
        ("scales", "the scales are [5, 2], but the attributes make them [5, 3]"),
        ("zero", "the zero points are [5, 1], but the attributes make them [5, 2]"),
    ],
)
def test_other_sizes_are_refused_with_both(part: str, says: str) -> None:
    weights = Weights(5, 40, 16, 4, "bytes")
    setattr(weights, part, getattr(weights, part)[..., :-1])
    with pytest.raises(EqsatError) as caught:
        bind(product_model(weights, normal(3, 40)))
    assert caught.value.kind is Kind.MALFORMED_GRAPH
    assert says in str(caught.value)
    assert "MatMulNBits" in str(caught.value)


@pytest.mark.slow
def test_compiled_products_of_constants_and_of_arguments_agree() -> None:
    weights, a = Weights(96, 200, 32, 4, "bytes"), normal(1, 200)
    model, expected = product_model(weights, a), a @ weights.dequantized().T
    near = {"rtol": 1e-3, "atol": 1e-4 * abs(expected).max()}
    np.testing.assert_allclose(optimize_and_compile(model, threads=1)(a=a), expected, **near)
    program = optimize_and_compile(model, threads=1, constants={"b_weight": None})
    np.testing.assert_allclose(program(a=a, b_weight=weights.b), expected, **near)
    assert any("b_weight" in kernel.reads for kernel in program.kernels)


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize(
    ("shape", "axis", "blocked"),
    [((6, 40), 0, 1), ((40, 3), 1, 0), ((3, 20, 5), 2, 1), ((6, 40), 1, 1), ((1, 1), 0, -1)],
)
def test_gathers_of_four_bits_agree_with_onnxruntime(
    shape: tuple[int, ...], axis: int, blocked: int, kind: Any
) -> None:
    low = int(ml_dtypes.iinfo(kind).min)
    blocks = list(shape)
    blocks[blocked] = -(-shape[blocked] // 16)
    for zero in (None, RNG.integers(low, low + 16, blocks).astype(kind)):
        table = {"d_weight": RNG.integers(low, low + 16, shape).astype(kind)}
        index = RNG.integers(-shape[axis], shape[axis], (2, 3))
        attrs = {"block_size": 16, "gather_axis": axis, "quantize_axis": blocked}
        operands = {**table, "i": index, "d_scale": normal(*blocks), "d_zero": zero}
        np.testing.assert_array_equal(*run_both("GatherBlockQuantized", operands, attrs))


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_gathers_of_bytes_agree_with_onnxruntime(bits: int) -> None:
    """A position outside of the table gives zeros."""
    index = np.asarray([[0, -6, 5], [6, -7, 100]], np.int32)
    for zero in (None, packed(6, -(-3 * bits // 8))):
        operands = {"d_weight": packed(6, 40 * bits // 8), "i": index, "d_scale": normal(6, 3), "d_zero": zero}
        np.testing.assert_array_equal(*run_both("GatherBlockQuantized", operands, {"block_size": 16, "bits": bits}))


def test_gathers_along_other_axes_of_bytes_are_refused() -> None:
    constants = {"d": packed(6, 20), "s": normal(6, 3)}
    node = helper.make_node("GatherBlockQuantized", ["d", "i", "s"], ["y"], domain="com.microsoft", gather_axis=1)
    model = model_of([node], {"i": np.arange(2)}, constants=constants)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(EqsatError, match="gather_axis=1 of bytes is not supported"):
        bind(model)
