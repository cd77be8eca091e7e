"""Python values and arrays → the array of a constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.lazy.argument_checks import STAGE
from eqsat.runtime.arrays import as_numpy
from ir.dtype import DTypeLike, fp32
from ir.dtype import dtype as as_dtype
from ir.host.memory import memory_for


def as_array(value: Any, wanted: DTypeLike | None) -> np.ndarray:
    """A copy of the value as an array of `wanted`, or of its own dtype."""
    given = as_numpy(None, value, STAGE)
    with memory_for(given.nbytes, STAGE, "the constant", shape=given.shape):
        array = np.array(given)
    natural = array.dtype
    if isinstance(value, bool | int | float | list | tuple) and not isinstance(value, np.generic):
        natural = fp32.numpy if natural == np.float64 else natural
    element = as_dtype(natural) if wanted is None or natural.kind not in "biufV" else as_dtype(wanted)
    with np.errstate(all="ignore"):
        return array.astype(element.numpy, copy=False)
