"""The workspace through which the blocks of a GPU kernel exchange values, for a launch in the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import COUNTER, GpuKernel

Array = np.ndarray[Any, Any]


def workspace_of(kernel: GpuKernel) -> list[Array]:
    """Counters of 0, all else bytes of 0xff, which are NaN in floats: what the arguments of a launch end with."""
    found: list[Array] = []
    for each in kernel.workspace:
        if each.dtype == COUNTER:
            found.append(np.zeros(each.shape, np.uint32))
        else:
            found.append(np.full(each.nbytes, 0xFF, np.uint8).view(DTYPES[each.dtype].numpy).reshape(each.shape))
    return found
