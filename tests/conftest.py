"""What every test finds: a cache of its own, so that no earlier run decides what a test sees, the CPU, and the same
random draws in every run (`--hypothesis-profile=default` draws new ones, `make exhaustive` does so)."""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

DEVICE_SECONDS = 90.0
"""Of one test on a GPU, where a kernel that never ends cannot be interrupted: the whole run ends, and says where."""


COLLECT_AFTER = (20_000, 20, 20)
"""The thresholds of Python's cyclic garbage collector while tests run. With Python's own, the collector takes a tenth
of the time of the suite: it searches all that modules and caches hold, again and again, and finds nothing."""


def pytest_collection_finish() -> None:
    """The garbage collector skips what imports have made, and runs seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing them")


@pytest.fixture(scope="session", autouse=True)
def auto_is_the_cpu() -> Iterator[None]:
    """Tests that name no target mean the CPU, on machines with a GPU too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eqsat.find_target.find_device", lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """EQSAT_CACHE_DIR is a folder of this session."""
    before = os.environ.get("EQSAT_CACHE_DIR")
    os.environ["EQSAT_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["EQSAT_CACHE_DIR"]
    else:
        os.environ["EQSAT_CACHE_DIR"] = before


@pytest.fixture(scope="session", autouse=True)
def no_workers() -> Iterator[None]:
    """Large programs are optimized by one process: the suite has one for each core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQSAT_WORKERS", "0")
        yield


@pytest.fixture(autouse=True)
def bounded_on_a_device(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test on a GPU takes no longer than `DEVICE_SECONDS`, and is the last of a process that it costs the device."""
    if request.node.get_closest_marker("gpu") is None:
        yield
        return
    assert sys.__stderr__ is not None
    faulthandler.dump_traceback_later(DEVICE_SECONDS, exit=True, file=sys.__stderr__)
    yield
    from tests.support.gpu.devices import end_where_lost

    end_where_lost()
    faulthandler.cancel_dump_traceback_later()
