"""Fixtures of the tests of the C prelude."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from codegen.compile.library import build
from codegen.compile.machine import machine, restrict
from tests.support.cpu.lanes import Lanes, arches, units
from tests.support.cpu.quick_flags import quick_flags


def _sets() -> Iterator[object]:
    """The instruction sets as parameters; `make check` takes the widest set alone."""
    *others, widest = arches()
    yield from (pytest.param(arch, marks=pytest.mark.slow) for arch in others)
    yield widest


@pytest.fixture(scope="session", params=_sets())
def lanes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lanes:
    """The prelude on each instruction set of this machine; on the widest one with the flags of programs."""
    on = restrict(machine(), request.param)
    flags = None if on == machine() else quick_flags(on)
    return Lanes(on, build(units(), on, flags=flags, cache=tmp_path_factory.mktemp("prelude")))


@pytest.fixture
def quiet() -> Iterator[None]:
    """NumPy's floating point warnings are silenced."""
    with np.errstate(all="ignore"):
        yield
