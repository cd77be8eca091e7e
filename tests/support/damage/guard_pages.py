"""Arrays beside guard pages: an access outside the array ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def beside_guard(array: Array, *, at_end: bool) -> Array:
    """A copy that ends, or starts, at a page which cannot be touched."""
    page = mmap.PAGESIZE
    inner = -(-max(array.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, inner + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for at in (start, start + page + inner):
        assert _LIBC.mprotect(at, page, 0) == 0
    first = page + (inner - array.nbytes if at_end else 0)
    view = np.frombuffer(memory, np.uint8, array.nbytes, first).view(array.dtype).reshape(array.shape)
    view[...] = array
    return view
