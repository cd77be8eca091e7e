"""Compile many kernels as one library and run each between guard pages, beside playback."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from codegen.compile.library import Library, build, pool_declarations, pool_source, vector_prelude
from codegen.compile.machine import Machine, machine, restricted
from codegen.lower.lower_nest import lower_nest
from codegen.plan.plan_nest import nest_plans
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

Arrays = Mapping[str, np.ndarray[Any, Any]]
EXPORT = '__attribute__((visibility("default"))) '
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


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


def cases(regions: Sequence[Region], arch: str, *, legal: bool = False) -> list[Case]:
    """Every candidate plan of every region, lowered and verified; `legal` overrules Poly Core's verdict."""
    found = []
    for number, region in enumerate(regions):
        core = region_facts(region).core
        if legal:
            core = msgspec.structs.replace(core, legal=True, reason="")
        plans = nest_plans(region, core, target(arch))
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


class Guarded:
    """Memory of `nbytes` that ends (or starts) at a page which cannot be touched."""

    def __init__(self, nbytes: int, *, at_end: bool) -> None:
        page = mmap.PAGESIZE
        inner = -(-max(nbytes, 1) // page) * page
        self._map = mmap.mmap(-1, inner + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for at in (start, start + page + inner):
            assert _LIBC.mprotect(at, page, 0) == 0
        self.address = start + page + (inner - nbytes if at_end else 0)

    def array(self, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A view of this memory that holds `like`."""
        raw = (ctypes.c_char * max(like.nbytes, 1)).from_address(self.address)
        view = np.frombuffer(raw, np.uint8)[: like.nbytes].view(like.dtype).reshape(like.shape)
        view[...] = like
        return view


def run(lib: Library, tried: Case, inputs: Arrays, *, threads: int = 2, at_end: bool = True) -> dict[str, Any]:
    """The outputs of one kernel; a touch beyond a buffer kills the process."""
    held, arrays = [], []
    outputs = {each.name: np.full(each.memref.shape, 77).astype(dtype(each.memref.dtype).numpy)
               for each in tried.region.outputs}  # fmt: skip
    for array in (*(inputs[each.name] for each in tried.region.inputs), *outputs.values()):
        held.append(Guarded(array.nbytes, at_end=at_end))
        arrays.append(held[-1].array(array))
    space = WorkspaceMemory(tried.kernel.workspace, threads)
    table = (ctypes.c_void_p * (len(held) + 1))(*(each.address for each in held), space.address)
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
