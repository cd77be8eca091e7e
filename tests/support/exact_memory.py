"""A plugin of pytest, `-p tests.support.exact_memory`: arrays on the device take allocations of their own, as large as
they are, so that compute-sanitizer sees what lies beyond them; CuPy's pool would round and keep memory."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    from codegen.run.device import has_driver

    if has_driver():
        import cupy

        cupy.cuda.set_allocator(None)
