"""What every test finds: a cache of its own, so that no earlier run decides what a test sees, and the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing them")


@pytest.fixture(scope="session", autouse=True)
def auto_is_the_cpu() -> Iterator[None]:
    """Tests that name no target mean the CPU, on machines with a GPU too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eqsat.pipeline.find_device", lambda: None)
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
