"""NonZero and Range, whose sizes depend on values, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from eqsat.model import read_model
from ir.diagnostics import EqsatError
from ir.tiny.playback import playback
from tests.eqsat.frontends.onnx.test_onnx import agree, bind, model_of, one

BITS = np.random.default_rng(0).integers(0, 2, (3, 4, 2))


@pytest.mark.parametrize(
    "x",
    [
        BITS,
        BITS[0].astype(bool),
        np.float32(3),
        np.float32(0),
        np.zeros((2, 3), np.int32),
        np.zeros((0, 3), np.float32),
    ],
    ids=lambda x: f"{x.dtype}{list(x.shape)}",
)
def test_places_of_known_elements(x: np.ndarray) -> None:
    agree(model_of([helper.make_node("NonZero", ["x"], ["y"])], {}, constants={"x": np.asarray(x)}), {})


def test_places_that_are_computed_when_the_model_is_loaded() -> None:
    """A mask is made of constants, and its places gather."""
    nodes = [
        helper.make_node("Greater", ["c", "d"], ["mask"]),
        helper.make_node("NonZero", ["mask"], ["places"]),
        helper.make_node("Transpose", ["places"], ["turned"]),
        helper.make_node("GatherND", ["x", "turned"], ["y"]),
    ]
    c = np.arange(6, dtype=np.float32)
    agree(model_of(nodes, {"x": c * 2}, constants={"c": c, "d": np.asarray(2.5, np.float32)}), {"x": c * 2})


def test_places_of_an_argument_are_refused_with_a_way_out() -> None:
    x = BITS[0].astype(np.float32)
    with pytest.raises(EqsatError) as caught:
        bind(one("NonZero", {"x": x}))
    assert "depends on the input x" in str(caught.value)
    bound = read_model(one("NonZero", {"x": x}), constants={"x": x}).bind({}, True)
    np.testing.assert_array_equal(playback(bound.graph, bound.constants)[0], np.stack(np.nonzero(x)))


@pytest.mark.parametrize("bounds", [(0, 5, 1), (3, -4, -2), (5, 0, 1), (7, 8, 3), (2, 2.5, 0.1), (0, 1, 0.1)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_ranges_are_computed_from_places(dtype: str, bounds: tuple[float, ...]) -> None:
    if dtype.startswith("int") and any(bound != int(bound) for bound in bounds):
        pytest.skip("no integers")
    constants = {name: np.asarray(bound, dtype) for name, bound in zip("abc", bounds, strict=True)}
    model = model_of([helper.make_node("Range", ["a", "b", "c"], ["y"])], {}, constants=constants)
    agree(model, {})
    assert not bind(model).constants


def test_a_range_takes_no_memory_before_it_is_run() -> None:
    constants = {name: np.asarray(bound) for name, bound in (("a", 1), ("b", 10**15), ("c", 3))}
    bound = bind(model_of([helper.make_node("Range", ["a", "b", "c"], ["y"])], {}, constants=constants))
    ((_, type_),) = bound.outputs
    assert type_.shape == (333_333_333_333_333,)
