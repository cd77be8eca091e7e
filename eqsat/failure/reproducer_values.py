"""What the files call that `eqsat.failure.reproducer` writes: values that Python's own text does not hold."""

from __future__ import annotations

import base64
import importlib
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ir.dtype import DTYPES
from ir.serde import from_builtins


def array(name: str, shape: tuple[int, ...], text: str) -> np.ndarray:
    """The array of a dtype whose bytes stand in `text` as hexadecimal digits."""
    return np.frombuffer(bytes.fromhex(text), _numpy(name)).reshape(shape).copy()


def drawn(name: str, shape: tuple[int, ...], low: Any, high: Any, seed: int) -> np.ndarray:
    """An array of random numbers from `low` to `high`, in the place of one that was too large for the file."""
    rng, kind = np.random.default_rng(seed), _numpy(name)
    if kind.kind in "biu":
        return rng.integers(int(low), int(high), shape, endpoint=True).astype(kind)
    return rng.uniform(float(low), float(high), shape).astype(kind)


def noun(module: str, name: str, fields: Any) -> Any:
    """The noun of that class whose JSON form is `fields`."""
    return from_builtins(fields, getattr(importlib.import_module(module), name))


def data(text: str) -> bytes:
    """The bytes that `text` holds, compressed."""
    return zlib.decompress(base64.b85decode(text))


def stored(name: str, text: str) -> str:
    """The path of a file with these bytes, which is of that name."""
    path = Path(tempfile.mkdtemp(prefix="eqsat-")) / name
    path.write_bytes(data(text))
    return str(path)


def _numpy(name: str) -> np.dtype[Any]:
    return DTYPES[name].numpy if name in DTYPES else np.dtype(name)
