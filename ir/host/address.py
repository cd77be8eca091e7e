"""The address of an array's memory."""

from __future__ import annotations

from ctypes import addressof, c_char

import numpy as np


def address(array: np.ndarray) -> int:
    """The address of the first element. The array may be of any dtype, and may have gaps."""
    try:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]  # takes a sixth of the time of NumPy's own attribute
    except (TypeError, ValueError, BufferError):  # read-only, empty, with gaps, or of a dtype like bf16
        found: int = array.__array_interface__["data"][0]
        return found
