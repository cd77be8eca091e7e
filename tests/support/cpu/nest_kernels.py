"""Compile many kernels as one library and run each between guard pages, beside playback."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
import pytest

from codegen.compile.library import POOL, Library, build, pool_declarations, pool_source, vector_prelude
from codegen.compile.machine import Machine, machine, restrict
from codegen.lower.cpu.lower_nest import lower_nest
from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from codegen.run.executable import WorkspaceMemory
from codegen.text.cpu_to_c import SUPPORT, c_text
from ir.diagnostics import EqsatError
from ir.kernel.cpu.kernel import CpuKernel
from ir.kernel.cpu.verify import verify
from ir.plan.cpu import CpuNestPlan
from ir.plan.plan import CpuPlan
from ir.poly.core import PolyCore
from ir.region.playback import play_region
from ir.region.region import Region
from ir.target import LANES, Target
from tests.support.cpu import played
from tests.support.cpu.played import Array, Arrays, assert_played, unwritten
from tests.support.cpu.quick_flags import quick_flags
from tests.support.damage.guard_pages import beside_guard

CpuCase: TypeAlias = played.Case[CpuKernel, CpuPlan]
Case: TypeAlias = played.Case[CpuKernel, CpuNestPlan]
EXPORT = '__attribute__((visibility("default"))) '


def available(arch: str) -> Machine | None:
    """This machine held to `arch`, or None where it has no such instruction set."""
    try:
        return restrict(machine(), arch)
    except EqsatError:
        return None


def required(arch: str) -> Machine:
    """The same; a test is skipped where there is none."""
    result = available(arch)
    if result is None:
        pytest.skip(f"this machine has no {arch}")
    return result


def target(arch: str) -> Target:
    """A machine of two cores for the planner."""
    return Target(
        "test", arch, 2, {"fp32": 1e11, "fp64": 5e10}, 2e10, 1e11, 1e3, 1 << 15, 1 << 20, 1 << 25, LANES[arch], "test"
    )


def cases(
    regions: Sequence[Region], arch: str, *, legal: bool = False, ordered: bool = False, step: int = 1
) -> list[Case]:
    """Every `step`-th of the candidate plans of all regions, lowered and verified; `legal` overrules Poly Core's
    verdict, `ordered` asks for sums in index order."""
    tried = []
    for region in regions:
        core = analyse(region).core
        if legal:
            core = msgspec.structs.replace(core, legal=True, reason="")
        plans = nest_candidates(region, core, target(arch), ordered=ordered)
        assert plans, f"{region.name} has no plan: {core.reason}"
        tried += [(region, core, plan) for plan, _ in plans]
    return [case(*parts, f"eq_k{number}") for number, parts in enumerate(tried[::step])]


def case(region: Region, core: PolyCore, plan: CpuNestPlan, name: str = "eq_k") -> Case:
    kernel = lower_nest(fit_plan(region, core, plan), plan, name)
    verify(kernel)
    return Case(region, plan, kernel)


def library(tried: Sequence[CpuCase], where: Machine) -> Library:
    """All kernels in one translation unit."""
    texts = [c_text(case.kernel).replace(f"\nvoid {case.kernel.name}(", f"\n{EXPORT}void {case.kernel.name}(")
             for case in tried]  # fmt: skip
    unit = vector_prelude() + pool_declarations() + SUPPORT + "\n".join(texts)
    sources = {"kernels": unit, POOL: pool_source()}
    return build(sources, where, flags=quick_flags(where), common=frozenset([POOL]))


def run(lib: Library, tried: CpuCase, inputs: Arrays, *, threads: int = 2, at_end: bool = True) -> dict[str, Array]:
    """The outputs of one kernel; a touch beyond a buffer kills the process."""
    outputs = unwritten(tried.region)
    known = (*(inputs[buffer.name] for buffer in tried.region.inputs), *outputs.values())
    arrays = [beside_guard(array, at_end=at_end) for array in known]
    space = WorkspaceMemory(tried.kernel.workspace, threads)
    table = (ctypes.c_void_p * (len(arrays) + 1))(*(array.ctypes.data for array in arrays), space.address)
    lib.function(tried.kernel.name, (ctypes.c_void_p, ctypes.c_int32))(ctypes.addressof(table), threads)
    first = len(tried.region.inputs)
    return {output.name: arrays[first + n].copy() for n, output in enumerate(tried.region.outputs)}


def check(lib: Library, tried: CpuCase, inputs: Arrays, *, exact: bool = False, **how: Any) -> None:
    """The kernel's outputs against playback, as `assert_played` has it."""
    got, wanted = run(lib, tried, inputs, **how), play_region(tried.region, inputs)
    assert_played(tried.region, inputs, got, wanted, tried, exact=exact)
