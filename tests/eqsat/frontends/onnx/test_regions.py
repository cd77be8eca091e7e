"""ONNX's RoiAlign and DeformConv, whose samples are at computed places, and TfIdfVectorizer: against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from eqsat import optimize_and_compile
from tests.eqsat.frontends.onnx.test_onnx import agree, model_of, normal, one, refused

RNG = np.random.default_rng(17)


@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize(("ratio", "bins"), [(1, (2, 3)), (3, (1, 2))])
def test_means_of_regions_agree_with_onnxruntime(transformation: str, ratio: int, bins: tuple[int, int]) -> None:
    """Regions reach beyond the image on all sides, and one is empty."""
    corners = RNG.uniform(-6, 40, (7, 2)).astype(np.float32)
    rois = np.concatenate([corners, corners + RNG.uniform(0, 30, (7, 2)).astype(np.float32)], 1)
    rois[3, 2:] = rois[3, :2]
    inputs = {"x": normal(2, 3, 9, 11), "rois": rois, "images": RNG.integers(0, 2, 7)}
    node = helper.make_node(
        "RoiAlign",
        [*inputs],
        ["y"],
        coordinate_transformation_mode=transformation,
        output_height=bins[0],
        output_width=bins[1],
        sampling_ratio=ratio,
        spatial_scale=0.25,
    )
    agree(model_of([node], inputs), inputs)


@pytest.mark.parametrize(
    ("group", "offset_group", "with_mask"), [(1, 1, False), (2, 1, True), (1, 2, True), (4, 2, False)]
)
def test_deformed_convolutions_agree_with_onnxruntime(group: int, offset_group: int, with_mask: bool) -> None:
    taps, out = (3, 2), (4, 9)
    inputs = {
        "x": normal(2, 4, 7, 8),
        "w": normal(4, 4 // group, *taps),
        "offset": 3 * normal(2, offset_group * 6 * 2, *out),
        "b": normal(4),
    }
    if with_mask:
        inputs["mask"] = normal(2, offset_group * 6, *out)
    strides, pads, dilations = [2, 1], [1, 0, 2, 2], [1, 1]
    node = helper.make_node(
        "DeformConv",
        [*inputs],
        ["y"],
        group=group,
        offset_group=offset_group,
        strides=strides,
        pads=pads,
        dilations=dilations,
    )
    agree(model_of([node], inputs, opset=19), inputs)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("shape", [(9,), (3, 9), (2, 1)])
@pytest.mark.parametrize("lengths", [(1, 1), (1, 3), (2, 3)])
def test_counts_of_grams_agree_with_onnxruntime(mode: str, shape: tuple[int, ...], lengths: tuple[int, int]) -> None:
    """Two unigrams, three bigrams, two trigrams, in columns of another order."""
    node = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode=mode,
        min_gram_length=lengths[0],
        max_gram_length=lengths[1],
        max_skip_count=2,
        ngram_counts=[0, 2, 8],
        ngram_indexes=[3, 0, 1, 2, 6, 5, 4],
        pool_int64s=[1, 2, 1, 2, 2, 2, 3, 1, 1, 1, 1, 2, 1, 3],
        weights=[float(number) for number in range(1, 8)],
    )
    inputs = {"x": RNG.integers(1, 4, shape)}
    agree(model_of([node], inputs), inputs)


def test_what_depends_on_the_size_of_a_region_is_refused() -> None:
    inputs = {"x": normal(1, 1, 4, 4), "rois": normal(1, 4), "images": np.array([0])}
    assert "sampling_ratio above 0" in refused(one("RoiAlign", inputs))


def test_bits_of_floats() -> None:
    """A quiet NaN, a signalling NaN and a denormal among them."""
    bits = np.array([0x3F800000, -0x80000000, 0x7FC00001, 0x7F800001, 1], np.int32)
    model = one("BitCast", {"x": bits}, opset=26, to=TensorProto.FLOAT)
    np.testing.assert_array_equal(optimize_and_compile(model)(x=bits).view(np.int32), bits)
    model = one("BitCast", {"x": bits.view(np.float32)}, opset=26, to=TensorProto.INT32)
    np.testing.assert_array_equal(optimize_and_compile(model)(x=bits.view(np.float32)), bits)


def test_bits_as_bools_are_refused() -> None:
    inputs = {"x": np.zeros(3, np.uint8)}
    assert "the bits of u8 as bool" in refused(one("BitCast", inputs, opset=26, to=TensorProto.BOOL))
