"""How long plans of one region take: kernels of all of them in one program, run in turn, so that whatever else the
machine does slows them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from ir.backend import Backend, function_name
from ir.diagnostics import EqsatError
from ir.dtype import dtype
from ir.index.strides import row_major
from ir.module.executable import Code
from ir.module.launch import LaunchTable
from ir.module.module import KernelCall, Module, Role, Slot
from ir.plan.plan import Plan
from ir.poly.core import PolyCore
from ir.region.region import MemRef, Region
from ir.target import Target

BUDGET_NS = 3e8
"""Time for all runs of one region."""
LEAST_RUNS, MOST_RUNS = 3, 50


def times_of(
    region: Region,
    core: PolyCore,
    plans: Sequence[Plan],
    arrays: Mapping[str, np.ndarray],
    *,
    backend: Backend,
    target: Target,
    flush: bool,
    cache: Path,
) -> list[float | EqsatError]:
    """ns of each plan's kernel on `arrays` (the region's inputs by name): the least of its runs, as all else a machine
    does only adds to a time. In place of a time stands why a plan has none, as it does not lower or compile.

    Raises:
        EqsatError: NoDevice for a GPU that is not there; where no plan lowers and compiles, why the first does not.
    """

    def built(several: Sequence[Plan]) -> _Built:
        return _built(region, core, several, backend, target.arch, flush, cache)

    refused: dict[int, EqsatError] = {}
    try:
        kernels = built(plans)
    except EqsatError:
        refused = _refused(plans, built)
        if len(refused) in (0, len(plans)):
            raise
        kernels = built([plan for place, plan in enumerate(plans) if place not in refused])
    times = iter(_times(region, kernels, arrays, backend, target))
    return [refused[place] if place in refused else next(times) for place in range(len(plans))]


class _Built(NamedTuple):
    """Kernels of several plans of one region, which a module calls in turn."""

    module: Module
    table: LaunchTable
    code: Code


def _built(
    region: Region, core: PolyCore, plans: Sequence[Plan], backend: Backend, arch: str, flush: bool, cache: Path
) -> _Built:
    module = _in_turn(region, len(plans))
    lowered = {
        call.region.name: backend.lower(call.region, core, plan, function_name(call.region))
        for call, plan in zip(module.calls, plans, strict=True)
    }
    table = backend.launches(module, lowered)
    units = backend.units(backend.texts(lowered.values()), table, flush)
    return _Built(module, table, backend.build(units, arch, cache))


def _refused(plans: Sequence[Plan], built: Callable[[Sequence[Plan]], _Built]) -> dict[int, EqsatError]:
    """The places of the plans that cannot be built alone either, and why."""
    errors: dict[int, EqsatError] = {}
    for place, plan in enumerate(plans):
        try:
            built([plan])
        except EqsatError as error:
            errors[place] = error
    return errors


def _times(
    region: Region, built: _Built, arrays: Mapping[str, np.ndarray], backend: Backend, target: Target
) -> list[float]:
    """The least time of each kernel, in ns."""
    module = built.module
    constants = {buffer.name: arrays[buffer.name] for buffer in region.inputs if buffer.constant}
    runs = backend.executable(module, built.table, built.code, constants, target.units, False)
    results = {output.name: np.empty(output.memref.span, dtype(output.memref.dtype).numpy) for output in region.outputs}
    outputs = [results[output.name] for _ in module.calls for output in region.outputs]
    memrefs = {buffer.name: buffer.memref for buffer in region.inputs}
    given = [_as_it_lies(arrays[name], memrefs[name]) for name in module.inputs]
    once = runs.profile(given, outputs, target.units, 1)
    repeats = int(min(max(BUDGET_NS / max(float(once.sum()), 1.0), LEAST_RUNS), MOST_RUNS))
    least = runs.profile(given, outputs, target.units, repeats).min(axis=0)
    return [float(ns) for ns in least]


def _as_it_lies(array: np.ndarray, memref: MemRef) -> np.ndarray:
    """The array in memory of its layout: the box of a larger tensor has gaps."""
    if memref.box_of is None:
        return array
    memory = np.zeros(memref.span, array.dtype)
    steps = [step * array.itemsize for step in row_major(memref.frame)]
    np.lib.stride_tricks.as_strided(memory, array.shape, steps)[...] = array
    return memory


def _in_turn(region: Region, count: int) -> Module:
    """A module that calls the region so many times, each time under another name and into other outputs."""
    slots, calls, outputs = [], [], []
    for buffer in region.inputs:
        role: Role = "constant" if buffer.constant else "input"
        slots.append(Slot(buffer.name, buffer.memref, role, 0, count - 1))
    for number in range(count):
        written = tuple(f"{output.name}@{number}" for output in region.outputs)
        slots += [
            Slot(name, output.memref, "output", number, number)
            for name, output in zip(written, region.outputs, strict=True)
        ]
        named = msgspec.structs.replace(region, name=f"{region.name}_{number}")
        calls.append(KernelCall(named.name, named, (*(buffer.name for buffer in region.inputs), *written)))
        outputs += [(name, name) for name in written]
    given = tuple(buffer.name for buffer in region.inputs if not buffer.constant)
    return Module(region.name, tuple(slots), tuple(calls), given, tuple(outputs))
