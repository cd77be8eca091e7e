"""ONNX's scatters: against onnxruntime, and where positions are outside of an axis."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from eqsat import optimize_and_compile
from tests.eqsat.frontends.onnx.test_onnx import agree, by_playback, model_of, normal

RNG = np.random.default_rng(7)
REDUCTIONS = ("none", "add", "mul", "max", "min")


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, -1])
def test_elements_agree_with_onnxruntime(reduction: str, axis: int) -> None:
    """Positions are negative, too; without a reduction none are equal."""
    if reduction == "none":
        index = np.stack([RNG.permutation(6)[:4] for _ in range(5)], axis=1 if axis == 0 else 0)
    else:
        index = RNG.integers(0, 6, (4, 5) if axis == 0 else (5, 4))
    index = index - 6 * RNG.integers(0, 2, index.shape)
    inputs = {"x": normal(6, 7) if axis == 0 else normal(7, 6), "i": index, "u": normal(*index.shape)}
    agree(
        model_of([helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=axis, reduction=reduction)], inputs),
        inputs,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_slices_agree_with_onnxruntime(reduction: str, depth: int) -> None:
    shape = (3, 4, 5)
    flat = RNG.permutation(int(np.prod(shape[:depth])))[:3]
    index = np.stack(np.unravel_index(flat, shape[:depth]), axis=-1).reshape(3, 1, depth)
    if reduction != "none":
        index = np.concatenate([index, index[:2]])
    inputs = {"x": normal(*shape), "i": index, "u": normal(len(index), 1, *shape[depth:])}
    agree(model_of([helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)], inputs), inputs)


def test_a_position_outside_changes_nothing() -> None:
    x, u = normal(2, 5), np.full(4, 9, np.float32)
    inputs = {"x": x, "i": np.array([[0, 7], [2, 0], [-3, 1], [1, -1]]), "u": u}
    expected = x.copy()
    expected[1, 4] = 9
    (actual,) = by_playback(model_of([helper.make_node("ScatterND", ["x", "i", "u"], ["y"])], inputs), inputs)
    np.testing.assert_array_equal(actual, expected)


def test_a_large_scatter_is_one_kernel() -> None:
    """10¹¹ comparisons, if every position looked for its updates."""
    inputs = {"x": normal(1_000_000), "i": RNG.integers(-1_000_000, 1_000_000, 100_000), "u": normal(100_000)}
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction="add")
    program = optimize_and_compile(model_of([node], inputs))
    assert [kernel.name for kernel in program.kernels] == ["scatter"]
    expected = inputs["x"].copy()
    np.add.at(expected, inputs["i"], inputs["u"])
    assert program(**inputs).tobytes() == expected.tobytes()
