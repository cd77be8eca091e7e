"""Functions that reproducers call: they make values that a Python literal cannot express."""

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
    """The array whose bytes are in `text` as hexadecimal digits."""
    return np.frombuffer(bytes.fromhex(text), _numpy(name)).reshape(shape).copy()


def drawn(name: str, shape: tuple[int, ...], low: Any, high: Any, seed: int) -> np.ndarray:
    """Random numbers from `low` to `high`, in place of an array that was too large for the file."""
    rng, kind = np.random.default_rng(seed), _numpy(name)
    if kind.kind in "biu":
        return rng.integers(int(low), int(high), shape, kind.type, endpoint=True)
    return rng.uniform(float(low), float(high), shape).astype(kind)


def noun(module: str, name: str, fields: Any) -> Any:
    """The value of this class whose JSON form is `fields`."""
    return from_builtins(fields, getattr(importlib.import_module(module), name))


def data(text: str) -> bytes:
    """The bytes that are compressed in `text`."""
    return zlib.decompress(base64.b85decode(text))


def stored(name: str, text: str) -> str:
    """The path of a new file with this name and these bytes."""
    path = Path(tempfile.mkdtemp(prefix="eqsat-")) / name
    path.write_bytes(data(text))
    return str(path)


def _numpy(name: str) -> np.dtype[Any]:
    return DTYPES[name].numpy if name in DTYPES else np.dtype(name)
