"""The workspace through which the blocks of a GPU kernel exchange values, for a launch in the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import COUNTER, GpuKernel

Array = np.ndarray[Any, Any]


def workspace_of(kernel: GpuKernel) -> list[Array]:
    """The arguments that end a launch: counters are 0, all other bytes are 0xff, which makes floats NaN."""
    arrays: list[Array] = []
    for buffer in kernel.workspace:
        if buffer.dtype == COUNTER:
            arrays.append(np.zeros(buffer.shape, np.uint32))
        else:
            arrays.append(np.full(buffer.nbytes, 0xFF, np.uint8).view(DTYPES[buffer.dtype].numpy).reshape(buffer.shape))
    return arrays
