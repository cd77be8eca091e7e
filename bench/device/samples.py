"""Random arguments for device functions, including edges of their types, and the probes that hold them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ir.dtype import DTYPES
from ir.kernel.gpu.device_functions import CELLS, REGISTER_C

_DTYPES = {c: name for name, c in REGISTER_C.items() if name != "word"}
_EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3e-39, 1e-45, 1e30, -1e30, 3.4e38, 65519, 65520, 6e-8, 3e-8, 2e-14]
_SPECIAL = [np.inf, -np.inf, np.nan]


@dataclass(frozen=True)
class Probe:
    """A launch: arguments, arrays for results by the function that is probed, then integers. Probes may share a text
    of several kernels. `warpgroups`: only devices that have them run it."""

    kernel: str
    text: str
    given: tuple[np.ndarray, ...]
    results: Mapping[str, np.ndarray]
    numbers: tuple[int, ...] = ()
    grid: tuple[int, ...] = (1,)
    threads: int = 32
    shared_bytes: int = 0
    warpgroups: bool = False


def cell_of(c_type: str) -> str:
    """The cell in which a register of a C type is stored: i32 for words."""
    return "i32" if c_type == "unsigned" else CELLS[_DTYPES[c_type]]


def numpy_of(c_type: str) -> np.dtype:
    """The NumPy dtype of that cell."""
    return np.dtype(np.int32) if c_type == "unsigned" else DTYPES[_DTYPES[c_type]].numpy


def samples(name: str, types: Sequence[str], count: int) -> list[np.ndarray]:
    """`count` arguments for every parameter, seeded by the function's name; combinations of edges come first."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if not types:
        return []
    edges = np.meshgrid(*(_edges(numpy_of(type_)) for type_ in types), indexing="ij")
    order = rng.permutation(edges[0].size)[: count // 2]
    return [
        np.concatenate([values.reshape(-1)[order], draw_numbers(rng, values.dtype, count - order.size)])
        for values in edges
    ]


def draw_numbers(rng: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
    """Random numbers: floats over many magnitudes, integers over their whole range; never NaN."""
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
    magnitudes = np.where(rng.integers(0, 2, count), 0, rng.integers(-20, 12, count))
    return (rng.standard_normal(count) * np.exp2(magnitudes)).astype(dtype)


def _edges(dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([0, 1, 2, 3, 7, limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2], dtype)
    with np.errstate(over="ignore"):
        return np.array([*_SPECIAL, *_EDGES]).astype(dtype)
