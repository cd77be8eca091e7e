"""Resizing and sampling against onnx's reference evaluator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.nn.known_positions import index_step
from ir.diagnostics import EqsatError
from tests.eqsat.lazy.test_tensor import randn, run

pytest.importorskip("onnx")
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
OF_THE_LENGTH = ("align_corners", "tf_crop_and_resize")
"""Coordinates that depend on the length of the result: the evaluator takes a fraction for it if scales are given."""
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def one_node(op: str, x: np.ndarray, others: list[np.ndarray | None], **attributes: Any) -> Any:
    """A model of an ONNX operator of opset 20; an operand that is None is absent."""
    names = ["" if array is None else f"c{place}" for place, array in enumerate(others)]
    node = helper.make_node(op, ["x", *names], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)]
    outputs = [helper.make_empty_tensor_value_info("y")]
    constants = [numpy_helper.from_array(a, n) for a, n in zip(others, names, strict=True) if a is not None]
    graph = helper.make_graph([node], "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def reference(op: str, x: np.ndarray, others: list[np.ndarray | None], **attributes: Any) -> np.ndarray:
    return np.asarray(ReferenceEvaluator(one_node(op, x, others, **attributes)).run(None, {"x": x})[0])


def by_onnxruntime(op: str, x: np.ndarray, others: list[np.ndarray | None], **attributes: Any) -> np.ndarray:
    """For cubic samples beyond a border, and for the nearest of two elements: the evaluator differs from onnxruntime
    and torch there."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = one_node(op, x, others, **attributes).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def check(x: np.ndarray, sizes: Any = None, scales: Any = None, roi: Any = None, **attributes: Any) -> None:
    """nn.resize and ONNX Resize have the same result."""
    coordinates = attributes.get("coordinate_transformation_mode")
    roi = [0.1, 0.23, 0.8, 1.3] if coordinates == "tf_crop_and_resize" else roi
    told = (scales, sizes)
    if scales is not None and coordinates in OF_THE_LENGTH:
        told = (None, [math.floor(size * scale) for size, scale in zip(x.shape[1:], scales, strict=True)])
    arrays = [
        None if given is None else np.array(given, element)
        for given, element in ((roi, "f4"), (told[0], "f4"), (told[1], "i8"))
    ]
    named = {k: int(v) if isinstance(v, bool) else v for k, v in attributes.items()}
    by = by_onnxruntime if attributes["mode"] == "nearest" and scales is not None else reference
    expected = by("Resize", x, arrays, axes=[1, 2], **named)
    exact = None if scales is None else [float(np.float32(scale)) for scale in scales]
    given_roi = None if roi is None else [float(np.float32(bound)) for bound in roi]
    got = run(lambda x: nn.resize(x, sizes, exact, (1, 2), roi=given_roi, **attributes), x)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=str((sizes, scales, attributes)))


def cases(mode: str) -> list[dict[str, Any]]:
    options: list[dict[str, Any]] = [{}]
    if mode == "nearest":
        options = [{"nearest_mode": rounding} for rounding in ROUNDINGS]
    if mode == "linear":
        options = [{}, {"antialias": True}, {"antialias": True, "exclude_outside": True}]
    if mode == "cubic":
        options = [{"cubic_coeff_a": -0.5}, {"exclude_outside": True}, {"antialias": True}]
    places: list[dict[str, Any]] = [
        {"sizes": (7, 3)},
        {"sizes": (1, 12)},
        {"scales": (2.0, 0.6)},
        {"scales": (0.4, 1.5)},
    ]
    return [
        {**place, **option, "mode": mode, "coordinate_transformation_mode": coordinates, "extrapolation_value": 9.5}
        for place, option, coordinates in itertools.product(places, options, COORDINATES)
        if not (place.get("sizes") == (1, 12) and coordinates == "pytorch_half_pixel")
        if not ("scales" in place and "antialias" in option and coordinates in OF_THE_LENGTH)
    ]


CASES = [case for mode in ("nearest", "linear", "cubic") for case in cases(mode)]
"""Without a result of one element by pytorch_half_pixel: the specification's coordinate is 0, the evaluator's −0.5."""


@pytest.mark.parametrize("first", range(0, len(CASES), 29))
def test_resize_is_onnxs(first: int) -> None:
    check(randn(2, 5, 6), **CASES[first])


@pytest.mark.slow
def test_all_resizes_are_onnxs() -> None:
    for case in CASES:
        check(randn(2, 5, 6), **case)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_resize_keeps_the_aspect_ratio(policy: str) -> None:
    check(randn(1, 5, 7), (8, 9), mode="linear", keep_aspect_ratio_policy=policy)
    check(randn(1, 5, 7), (3, 9), mode="nearest", keep_aspect_ratio_policy=policy)


def test_infinite_neighbours_of_weight_0_are_not_read() -> None:
    x = np.array([[[1, np.inf, 2, 3]]], np.float32)
    got = run(lambda x: nn.resize(x, (7,), None, (2,), "linear", coordinate_transformation_mode="align_corners"), x)
    np.testing.assert_array_equal(got[0, 0], [1, np.inf, np.inf, np.inf, 2, 2.5, 3])


def test_dtypes_and_empty_axes() -> None:
    x = np.arange(12, dtype=np.uint8).reshape(3, 4)
    got = run(lambda x: nn.resize(x, (6, 2)), x)
    np.testing.assert_array_equal(got, x.repeat(2, 0)[:, [0, 2]])
    assert got.dtype == np.uint8
    assert run(lambda x: nn.resize(x, (6, 2), mode="linear"), x).dtype == np.float64
    half = run(lambda x: nn.resize(x, (5, 4), mode="cubic"), x.astype(np.float16))
    assert half.dtype == np.float16
    assert run(lambda x: nn.resize(x, (0, 2), mode="linear"), x).shape == (0, 2)
    assert run(lambda x: nn.resize(x, (0, 3), axes=(0, 1)), x[:0]).shape == (0, 3)


def test_interpolate_is_torchs() -> None:
    x = randn(1, 2, 4, 6)
    np.testing.assert_array_equal(run(lambda x: nn.interpolate(x, scale_factor=2), x), x.repeat(2, 2).repeat(2, 3))
    got = run(lambda x: nn.interpolate(x, (8, 3), mode="nearest-exact"), x)
    np.testing.assert_array_equal(got, x.repeat(2, 2)[..., 1::2])
    got = run(lambda x: nn.interpolate(x, (2, 3), mode="area"), x)
    np.testing.assert_allclose(got, x.reshape(1, 2, 2, 2, 3, 2).mean((3, 5)), rtol=1e-5)
    got = run(lambda x: nn.interpolate(x[:, :, 0], size=11, mode="linear", align_corners=True), x)
    np.testing.assert_allclose(got[0, 0], np.interp(np.arange(11) / 2, np.arange(6), x[0, 0, 0]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [0.29, 0.57, 0.6, 0.7, 1.1, 1.2, 1.9, 2.3])
def test_sizes_and_elements_by_scales_are_torchs(scale: float) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    x = np.arange(63 * 10, dtype=np.float32).reshape(1, 1, 63, 10)
    theirs = functional.torch.from_numpy(x)
    for mode in ("nearest", "nearest-exact"):
        expected = functional.interpolate(theirs, scale_factor=scale, mode=mode).numpy()
        np.testing.assert_array_equal(
            run(lambda x, mode=mode: nn.interpolate(x, scale_factor=scale, mode=mode), x), expected
        )


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"])
@pytest.mark.parametrize("scale", [0.29, 0.57, 0.7, 0.9, 1.2, 1.5, 2.3])
def test_scales_of_models_give_the_results_of_onnxruntime(mode: str, coordinates: str, scale: float) -> None:
    x = randn(1, 1, 7, 10)
    operands = [None, np.array([1, 1, 1, scale], np.float32)]
    named = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
    expected = by_onnxruntime("Resize", x, operands, **named)
    got = optimize_and_compile(one_node("Resize", x, operands, **named))(x=x)
    np.testing.assert_allclose(got, expected, 1e-4, 1e-5)


def test_steps_of_indices() -> None:
    for size, length in itertools.product((1, 2, 3, 5, 8, 13), (2, 3, 4, 7, 20)):
        index = np.arange(length) * size // length
        step = index_step(index)
        assert step is not None
        a, b, c = step
        np.testing.assert_array_equal((a * np.arange(length) + b) // c, index)
    assert index_step(np.array([0, 0, 0, 1, 1, 5])) is None


@pytest.mark.slow
def test_an_upsampling_is_one_kernel() -> None:
    x = randn(2, 3, 4, 5)
    program = optimize_and_compile(nn.interpolate(tensor.input("x", x.shape), scale_factor=2).relu())
    np.testing.assert_array_equal(program(x), np.maximum(x, 0).repeat(2, 2).repeat(2, 3))
    assert len(program.kernels) == 1
    program = optimize_and_compile(nn.interpolate(tensor.input("x", x.shape), (7, 9), mode="bilinear"))
    expected = reference("Resize", x, [None, None, np.array([2, 3, 7, 9])], mode="linear")
    np.testing.assert_allclose(program(x), expected, rtol=1e-4, atol=1e-5)


GRIDS = [
    (mode, padding, aligned)
    for mode, padding, aligned in itertools.product(
        ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (False, True)
    )
]


def check_grid(case: tuple[str, str, bool], x: np.ndarray, points: tuple[int, ...]) -> None:
    mode, padding, aligned = case
    grid = (randn(x.shape[0], *points, x.ndim - 2) * 1.2).astype(np.float32)
    evaluate = by_onnxruntime if (mode, padding) == ("cubic", "border") else reference
    expected = evaluate("GridSample", x, [grid], mode=mode, padding_mode=padding, align_corners=int(aligned))
    got = run(lambda x, g: nn.grid_sample(x, g, mode, padding, aligned), x, grid)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4, err_msg=str(case))


@pytest.mark.parametrize("case", GRIDS, ids=str)
def test_samples_are_onnxs(case: tuple[str, str, bool]) -> None:
    check_grid(case, randn(2, 2, 4, 5), (3, 4))
    if case[0] != "cubic":
        check_grid(case, randn(1, 2, 3, 4, 2), (2, 1, 3))


def test_samples_of_one_element_and_of_none() -> None:
    x = randn(1, 2, 1, 3)
    grid = randn(1, 4, 4, 2)
    for padding in ("zeros", "border", "reflection"):
        got = run(lambda x, g, p=padding: nn.grid_sample(x, g, "bilinear", p, True), x, grid)
        assert np.isfinite(got).all()
    assert run(lambda x, g: nn.grid_sample(x, g), x, grid[:, :0]).shape == (1, 2, 0, 4)


@pytest.mark.slow
def test_compiled_samples() -> None:
    x, grid = randn(2, 3, 5, 6), (randn(2, 4, 4, 2) * 0.8).astype(np.float32)
    program = optimize_and_compile(nn.grid_sample(tensor.input("x", x.shape), tensor.input("g", grid.shape)))
    expected = reference("GridSample", x, [grid], mode="linear", padding_mode="zeros", align_corners=0)
    np.testing.assert_allclose(program(x=x, g=grid), expected, rtol=1e-3, atol=1e-4)


image = tensor.input("i", (1, 2, 4, 5))


@pytest.mark.parametrize(
    ("call", "way_out"),
    [
        (lambda: nn.resize(image), "one number per axis"),
        (lambda: nn.resize(image, (2, 2)), "one number per axis"),
        (lambda: nn.resize(image, scales=(0, 1), axes=(2, 3)), "above 0"),
        (lambda: nn.resize(image, (2, 2), axes=(2, 3), mode="lanczos"), "cubic"),
        (lambda: nn.resize(image, (2, 2), axes=(2, 3), nearest_mode="up"), "round_prefer_floor"),
        (lambda: nn.resize(image, (2, 2), axes=(2, 3), antialias=True), "linear or cubic"),
        (lambda: nn.resize(image, (2, 2), axes=(2, 3), roi=(0, 1)), "the starts"),
        (lambda: nn.resize(image[:, :, :0], (2, 2), axes=(2, 3)), "stays empty"),
        (lambda: nn.interpolate(image), "one of them"),
        (lambda: nn.interpolate(image, 3, mode="linear"), "mode='linear'"),
        (lambda: nn.interpolate(image, (3, 3, 3)), "2 of them"),
        (lambda: nn.grid_sample(image, tensor.input("g", (1, 3, 3, 3))), "[N, H', W', 2]"),
        (lambda: nn.grid_sample(image, tensor.input("g", (1, 3, 3, 2)), "area"), "bilinear"),
    ],
)
def test_impossible_samples_are_refused(call: Callable[[], Any], way_out: str) -> None:
    with pytest.raises(EqsatError) as caught:
        call()
    assert way_out in str(caught.value)


def test_enlarged_axes_are_read_by_index_expressions() -> None:
    """Rows that end inside the axis have one floor for 7 to 12 elements; 7 to 14 asymmetric elements have none then."""
    for length, coordinates in ((14, "asymmetric"), (21, "half_pixel"), (14, "half_pixel"), (12, "align_corners")):
        resized = nn.resize(
            tensor.input("x", (1, 7), "float32"),
            sizes=[1, length],
            mode="linear",
            coordinate_transformation_mode=coordinates,
        )
        tiny, _ = tensor_to_tiny(resized)
        assert not any(uop["uop"] == "GATHER" for uop in tiny["uops"]), (length, coordinates)
