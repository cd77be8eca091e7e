"""Programs whose blocks meet: the workspace of their launches, call after call, as graphs, from several streams."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import eqsat
from codegen.run.cuda_executable import CudaExecutable
from codegen.run.slot_memory import Space
from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from tests.support.gpu.fake_cupy import Array, fake_cupy
from tests.support.gpu.nvrtc import needs_nvrtc


def split() -> list[t.Tensor]:
    """A product of few tiles, the sum of a tensor, and the running sums of a row."""
    a, b, x = t.input("a", (128, 2000), "bf16"), t.input("b", (2000, 64), "bf16"), t.input("x", (300, 500))
    y = t.input("y", (70_001,), "fp16")
    return [(a @ b).relu(), (x * x).sum((0, 1)), (y / 64).cumsum(0)]


@pytest.fixture(scope="module")
def program() -> Program:
    return optimize_and_compile(split(), target="sm_80", emulate=True)


def test_each_is_one_kernel_whose_blocks_meet(program: Program) -> None:
    assert len(program.kernels) == 3
    for text in program._compiled.artifact.units.values():
        assert text.count("eq_ticket(") == (2 if "eq_await(" in text else 1), "a scan numbers its blocks, too"
    assert sum("eq_await(" in text for text in program._compiled.artifact.units.values()) == 1
    for launch in program._compiled.artifact.table.launches:
        assert launch.geometry is not None
        assert np.prod(launch.geometry.grid) >= 54, "half of an A100's multiprocessors"


@pytest.mark.slow
def test_emulated(program: Program) -> None:
    program.verify()
    given = program.random_inputs(3)
    for one, other in zip(program(given), program(given), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("graph", [False, True])
def test_counters_are_zeroed_once_for_a_stream(graph: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = optimize_and_compile(split(), target="sm_80", graph=graph)
    compiled.save(tmp_path / "program.eqsat")
    loaded = eqsat.load(tmp_path / "program.eqsat")
    monkeypatch.setattr("codegen.run.cuda_executable.device_for", lambda _: None)
    cupy, zeroed = fake_cupy(compiled._compiled.artifact.units, []), []

    def zeros(size: int, dtype: type) -> Array:
        zeroed.append(Array(np.zeros(size, dtype)))
        return zeroed[-1]

    cupy.zeros = zeros
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    for program in (compiled, loaded):
        zeroed.clear()
        for _ in range(3):
            program.verify()
        assert len(zeroed) == 1 + graph, "a graph has its own"
        assert all(one.size > 0 and not one.host.any() for one in zeroed)


@pytest.mark.slow
@needs_nvrtc
def test_streams_share_no_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = optimize_and_compile(split(), target="sm_80")
    cupy = fake_cupy(compiled._compiled.artifact.units, [])
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    executable, spaces = compiled._compiled.executable, list[Space]()
    assert isinstance(executable, CudaExecutable)
    for stream in (7, 8, 7):
        cupy.cuda.get_current_stream = lambda stream=stream: SimpleNamespace(ptr=stream)
        spaces.append(executable._space())
    assert spaces[0].counters is spaces[2].counters is not spaces[1].counters
    assert spaces[0].shared is not spaces[2].shared, "CuPy gives it to one call at a time"
