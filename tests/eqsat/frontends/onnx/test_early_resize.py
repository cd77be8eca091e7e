"""Resize of opset 10, which has no attributes for coordinates, against onnxruntime."""

from __future__ import annotations

import random

import numpy as np
import pytest
from onnx import helper

from tests.eqsat.frontends.onnx.test_onnx import agree, model_of, normal

SCALES = (0.1, 0.25, 0.3, 1 / 3, 0.6, 0.77, 0.9, 1.0, 1.5, 2.0, 2.3)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_shrunk_and_enlarged_axes_agree_with_onnxruntime(mode: str) -> None:
    """Of "nearest", the place of an element is rounded up where its axis shrinks, and down where it grows."""
    rng = random.Random(0)
    for _ in range(12):
        x = normal(1, 2, rng.randint(1, 13), rng.randint(1, 13))
        scales = np.asarray([1, 1, rng.choice(SCALES), rng.choice(SCALES)], np.float32)
        if any(int(size * scale) == 0 for size, scale in zip(x.shape, scales, strict=True)):
            continue
        node = helper.make_node("Resize", ["x", "s"], ["y"], mode=mode)
        agree(model_of([node], {"x": x}, constants={"s": scales}, opset=10), {"x": x})
