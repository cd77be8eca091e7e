"""Runs kernels one by one, so that the kernel that hangs or faults has a name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from codegen.run.launch_log import LAUNCHES


@contextmanager
def kernel_by_kernel(tell: Callable[[str], None], wait: Callable[[], None]) -> Iterator[None]:
    """Before each launch waits for the kernels launched so far, then tells the name of the next one: the name that was
    told last is that of the kernel under way. `wait`: until the device is idle; its errors end the launch."""

    class Each(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            wait()
            tell(record.getMessage())

    handler, level, propagates = Each(), LAUNCHES.level, LAUNCHES.propagate
    LAUNCHES.addHandler(handler)
    LAUNCHES.setLevel(logging.DEBUG)
    LAUNCHES.propagate = False
    try:
        yield
        wait()
    finally:
        LAUNCHES.removeHandler(handler)
        LAUNCHES.setLevel(level)
        LAUNCHES.propagate = propagates


def wait_for_device() -> None:
    """Waits until the current GPU is idle. Raises RuntimeError, CuPy's, where a kernel has failed."""
    import cupy

    cupy.cuda.Device().synchronize()
