"""Python values and arrays → the array of a constant."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqsat.lazy.argument_checks import STAGE
from eqsat.runtime.arrays import as_numpy
from ir.diagnostics import Kind, fail
from ir.dtype import DType, DTypeLike, fp32
from ir.dtype import dtype as as_dtype
from ir.host.memory import memory_for


def as_array(value: Any, wanted: DTypeLike | None) -> np.ndarray:
    """A copy of the value as an array of `wanted`, or of its own dtype.

    Raises:
        EqsatError: DtypeMismatch for a Python number, alone or in a list, that is no number of an integer dtype.
    """
    given = as_numpy(None, value, STAGE)
    with memory_for(given.nbytes, STAGE, "the constant", shape=given.shape):
        array = np.array(given)
    natural = array.dtype
    is_pythons = isinstance(value, bool | int | float | list | tuple) and not isinstance(value, np.generic)
    if is_pythons:
        if natural.kind == "O":
            message = f"the constant {value!r:.60} holds no numbers of up to 64 bits"
            fail(Kind.DTYPE_MISMATCH, STAGE, message, hint="numbers, or an array of floats")
        natural = fp32.numpy if natural == np.float64 else natural
    element = as_dtype(natural) if wanted is None or natural.kind not in "biufV" else as_dtype(wanted)
    if is_pythons and element.is_int:
        _check_range(array, element)
    with np.errstate(all="ignore"):
        return array.astype(element.numpy, copy=False)


def _check_range(numbers: np.ndarray, element: DType) -> None:
    """As NumPy checks Python's numbers; arrays of another dtype are cast."""
    for number in (numbers.min(initial=0).item(), numbers.max(initial=0).item()):
        if not (math.isfinite(number) and element.lowest <= math.trunc(number) <= element.highest):
            hint = "a wider dtype; a NumPy array is cast as in C"
            fail(Kind.DTYPE_MISMATCH, STAGE, f"the constant {number} is no {element}", hint=hint)
