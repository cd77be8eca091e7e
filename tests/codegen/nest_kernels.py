"""Compile many kernels as one library and run each between guard pages, beside playback."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from codegen.compile.library import Library, build, pool_declarations, pool_source, vector_prelude
from codegen.compile.machine import Machine, machine, restricted
from codegen.lower.cpu.lower_nest import lower_nest
from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.run.executable import WorkspaceMemory
from codegen.text.cpu_to_c import SUPPORT, c_text
from codegen.where.region_facts import region_facts
from ir.cpu import Kernel
from ir.cpu_verify import verify
from ir.diagnostics import EqsatError
from ir.dtype import dtype
from ir.plan import Plan
from ir.poly_core import PolyCore
from ir.region import Region
from ir.region_playback import play_region
from ir.target import LANES, Target
from tests.support.guard_pages import beside_guard

Arrays = Mapping[str, np.ndarray[Any, Any]]
EXPORT = '__attribute__((visibility("default"))) '


@dataclass(frozen=True)
class Case:
    """One kernel to try: `region` as `plan` says."""

    region: Region
    plan: Plan
    kernel: Kernel

    def __str__(self) -> str:
        shapes = [each.memref.shape for each in self.region.inputs]
        return f"{self.region.name}{shapes} {self.plan.algo_choice} {self.plan.tile} {self.plan.vectorize}"


def available(arch: str) -> Machine | None:
    """This machine held to `arch`, or None where it has no such instruction set."""
    try:
        return restricted(machine(), arch)
    except EqsatError:
        return None


def target(arch: str) -> Target:
    """A machine of two cores for the planner."""
    return Target(
        "test", arch, 2, {"fp32": 1e11, "fp64": 5e10}, 2e10, 1e11, 1e3, 1 << 15, 1 << 20, 1 << 25, LANES[arch], "test"
    )


def cases(regions: Sequence[Region], arch: str, *, legal: bool = False, ordered: bool = False) -> list[Case]:
    """Every candidate plan of every region, lowered and verified; `legal` overrules Poly Core's verdict, `ordered`
    asks for sums in index order."""
    found = []
    for number, region in enumerate(regions):
        core = region_facts(region).core
        if legal:
            core = msgspec.structs.replace(core, legal=True, reason="")
        plans = nest_candidates(region, core, target(arch), ordered=ordered)
        assert plans, f"{region.name} has no plan: {core.reason}"
        found += [case(region, core, plan, f"eq_k{number}_{n}") for n, (plan, _) in enumerate(plans)]
    return found


def case(region: Region, core: PolyCore, plan: Plan, name: str = "eq_k") -> Case:
    kernel = lower_nest(region, core, plan, name)
    verify(kernel)
    return Case(region, plan, kernel)


def library(tried: Sequence[Case], where: Machine) -> Library:
    """All kernels in one translation unit."""
    texts = [c_text(each.kernel).replace(f"\nvoid {each.kernel.name}(", f"\n{EXPORT}void {each.kernel.name}(")
             for each in tried]  # fmt: skip
    unit = vector_prelude() + pool_declarations() + SUPPORT + "\n".join(texts)
    return build({"kernels": unit, "pool": pool_source()}, where)


def run(lib: Library, tried: Case, inputs: Arrays, *, threads: int = 2, at_end: bool = True) -> dict[str, Any]:
    """The outputs of one kernel; a touch beyond a buffer kills the process."""
    outputs = {each.name: np.full(each.memref.shape, 77).astype(dtype(each.memref.dtype).numpy)
               for each in tried.region.outputs}  # fmt: skip
    known = (*(inputs[each.name] for each in tried.region.inputs), *outputs.values())
    arrays = [beside_guard(array, at_end=at_end) for array in known]
    space = WorkspaceMemory(tried.kernel.workspace, threads)
    table = (ctypes.c_void_p * (len(arrays) + 1))(*(each.ctypes.data for each in arrays), space.address)
    lib.function(tried.kernel.name, (ctypes.c_void_p, ctypes.c_int32))(ctypes.addressof(table), threads)
    first = len(tried.region.inputs)
    return {each.name: arrays[first + n].copy() for n, each in enumerate(tried.region.outputs)}


def random_inputs(region: Region, seed: int = 0, *, nan: bool = False) -> dict[str, np.ndarray[Any, Any]]:
    """Numbers of every sign, for floats every seventh a NaN where `nan`; indices run beyond both ends."""
    random = np.random.default_rng(seed)
    found = {}
    for each in region.inputs:
        kind, shape = dtype(each.memref.dtype), each.memref.shape
        if kind.is_float:
            values = (random.standard_normal(shape) * 2).astype(np.float32)
            if nan:
                values.reshape(-1)[::7] = np.nan
        else:
            values = random.integers(-5 if kind.is_signed else 0, 2 if kind.is_bool else 100, shape)
        found[each.name] = np.asarray(values).astype(kind.numpy)
    return found


def check(lib: Library, tried: Case, inputs: Arrays, *, exact: bool = False, **how: Any) -> None:
    """The kernel's outputs against playback: equal bits where `exact` or not of floats, else by DESIGN's norms."""
    got, wanted = run(lib, tried, inputs, **how), play_region(tried.region, inputs)
    for each in tried.region.outputs:
        result, reference = got[each.name], wanted[each.name]
        kind = dtype(each.memref.dtype)
        assert result.shape == reference.shape
        if exact or not kind.is_float:
            compute = kind.accumulator.numpy
            np.testing.assert_array_equal(result.astype(compute), reference.astype(compute), err_msg=str(tried))
            continue
        a, b = result.astype(np.float64), reference.astype(np.float64)
        finite = np.isfinite(b)
        np.testing.assert_array_equal(np.isfinite(a), finite, err_msg=str(tried))
        np.testing.assert_array_equal(a[~finite], b[~finite], err_msg=str(tried))
        tolerance = {"fp16": 1e-3, "bf16": 1e-2}.get(each.memref.dtype, 1e-5)
        error, size = np.linalg.norm(a[finite] - b[finite]), np.linalg.norm(b[finite])
        assert error <= tolerance * max(size, 1e-6), f"{tried}: off by {error / max(size, 1e-30):.2e} of the norm"
