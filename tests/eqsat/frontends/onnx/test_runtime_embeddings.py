"""The embeddings of BERT in onnxruntime's domain, with and without their optional inputs, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import helper

from tests.eqsat.frontends.onnx.test_onnx import by_onnxruntime, by_playback, model_of

RNG = np.random.default_rng(0)
WORDS, SEGMENTS = RNG.integers(0, 11, (2, 5)).astype(np.int32), RNG.integers(0, 2, (2, 5)).astype(np.int32)
MASK = np.asarray([[0, 1, 0, 2, 1], [1, 1, 1, 1, 1]], np.int32)
"""Only a 1 counts as a word."""
SIZES = {"word": (11, 8), "place": (7, 8), "segment": (2, 8), "gamma": (8,), "beta": (8,)}


def agree(op: str, operands: Mapping[str, np.ndarray | None], outputs: tuple[str, ...]) -> None:
    """Tables and weights are constants."""
    given = {name: array for name, array in operands.items() if array is not None}
    inputs = {name: array for name, array in given.items() if name in ("words", "segments", "mask", "places")}
    names = [name if name in given else "" for name in operands]
    node = helper.make_node(op, names, outputs, domain="com.microsoft", epsilon=1e-5)
    constants = {name: array for name, array in given.items() if name not in inputs}
    model = model_of([node], inputs, outputs, constants)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for actual, expected in zip(by_playback(model, inputs), by_onnxruntime(model, inputs), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("places", [None, RNG.integers(0, 7, (2, 5)), RNG.integers(0, 7, (1, 5))], ids=["", "B", "1"])
@pytest.mark.parametrize("mask", [None, MASK], ids=["", "mask"])
@pytest.mark.parametrize("segments", [None, SEGMENTS], ids=["", "segments"])
def test_embeddings(segments: np.ndarray | None, mask: np.ndarray | None, places: np.ndarray | None) -> None:
    tables: dict[str, np.ndarray | None] = {
        name: RNG.standard_normal(size).astype(np.float32) for name, size in SIZES.items()
    }
    tables["segment"] = None if segments is None else tables["segment"]
    numbers = None if places is None else places.astype(np.int32)
    operands = {"words": WORDS, "segments": segments, **tables, "mask": mask, "places": numbers}
    agree("EmbedLayerNormalization", operands, ("y", "counts", "sum"))


@pytest.mark.parametrize("mask", [None, MASK], ids=["", "mask"])
@pytest.mark.parametrize("segments", [None, SEGMENTS], ids=["", "segments"])
def test_embeddings_of_bytes(segments: np.ndarray | None, mask: np.ndarray | None) -> None:
    known = [name for name in SIZES if segments is not None or name != "segment"]
    tables = {name: RNG.integers(0, 256, SIZES[name]).astype(np.uint8) for name in known}
    scales = {f"{name}_scale": np.float32(RNG.uniform(0.01, 0.05)) for name in known}
    zeros = {f"{name}_zero": np.uint8(RNG.integers(0, 256)) for name in known}
    operands: dict[str, np.ndarray | None] = {"words": WORDS, "segments": segments}
    operands |= {name: tables.get(name) for name in SIZES} | {"mask": mask}
    for suffix, values in (("scale", scales), ("zero", zeros)):
        numbers = {f"{name}_{suffix}": values.get(f"{name}_{suffix}") for name in SIZES}
        operands |= {name: None if number is None else np.asarray(number) for name, number in numbers.items()}
    agree("QEmbedLayerNormalization", operands, ("y", "counts"))
