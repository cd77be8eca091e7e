"""Unusual values for tests: damaged JSON text, extreme arrays, arguments of the wrong kind."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

TOKENS = ("[", "]", "{", "}", ",", '"', "//", "NaN", "1e999", "-", "\\u0000")
WORDS = ("%x", "@f", "graph", "return", "dims n=2", "call @f(%x)", ": fp32[2]", "add(", ")", "}", '"', "nan", "[", "=")
"""Of Tiny text."""


def damaged_text(document: Mapping[str, Any], rng: np.random.Generator) -> str:
    """The document as damaged JSON text."""
    return damage_text(json.dumps(document, default=str), rng)


def damage_text(text: str, rng: np.random.Generator, tokens: Sequence[str] = TOKENS) -> str:
    """The text with a few characters lost, doubled, changed, or the end cut off, or with tokens put in between."""
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(text) + 1))
        match int(rng.integers(5)):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + text[at + int(rng.integers(1, 9)) :]
            case 2:
                text = text[:at] + text[max(0, at - int(rng.integers(1, 30))) :]
            case 3:
                text = text[:at] + chr(int(rng.integers(0, 256))) + text[at + 1 :]
            case _:
                text = text[:at] + str(rng.choice(tokens)) + text[at:]
    return text


def odd_inputs(types: Mapping[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Arrays of these types: ordinary numbers, or riddled with NaN, ±inf, −0, denormals and the ends of the range."""
    kind = int(rng.integers(3))
    return {name: _array(type_.dtype, type_.shape, kind, rng) for name, type_ in types.items()}


def _array(element: Any, shape: tuple[int, ...], kind: int, rng: np.random.Generator) -> np.ndarray:
    if element.is_bool:
        return np.asarray(rng.integers(0, 2, shape), np.bool_)
    if not element.is_float:
        small = np.asarray(rng.integers(-9 if element.is_signed else 0, 10, shape)).astype(element.numpy)
        ends = np.array([element.lowest, element.highest, element.lowest + 1, 0, 1], element.numpy)
        return np.asarray(
            np.where(rng.random(shape) < (0, 0.3, 0.8)[kind], rng.choice(ends, shape), small), element.numpy
        )
    with np.errstate(all="ignore"):
        normal = np.asarray(rng.standard_normal(shape))
        if kind == 2:
            normal = normal * np.exp(rng.uniform(-90, 90, shape))
        special = [
            math.nan,
            math.inf,
            -math.inf,
            -0.0,
            0.0,
            1e-40,
            -1e-42,
            3e38,
            -65504.0,
            1e-7,
            1e308,
            5e-324,
            1.0,
            88.8,
        ]
        chosen = rng.choice(np.array(special), shape)
        return np.asarray(np.where(rng.random(shape) < (0, 0.25, 0.1)[kind], chosen, normal)).astype(element.numpy)


def bad_arguments(array: np.ndarray) -> list[Any]:
    """What is no argument for an input of this array's dtype and shape."""
    other = np.float32 if array.dtype != np.float32 else np.int32
    return [
        np.zeros((*array.shape, 2), array.dtype),
        np.zeros(array.shape, other),
        np.zeros(array.shape, np.complex64),
        np.full(array.shape, None, object),
        np.full(array.shape, "x"),
        "text",
        {},
        object(),
    ]
