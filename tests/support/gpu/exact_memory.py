"""A pytest plugin, `-p tests.support.gpu.exact_memory`: every device array gets an allocation of exactly its size, so
that compute-sanitizer sees accesses beyond it. CuPy's pool would round sizes up and keep memory.
"""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    from codegen.run.device import has_driver

    if has_driver():
        import cupy

        cupy.cuda.set_allocator(None)
