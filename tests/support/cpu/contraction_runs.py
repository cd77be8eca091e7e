"""Runs contraction kernels as a program would: packs the constants, then calls the kernel on raw buffers."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from codegen.compile.library import POOL, Library, build, pool_declarations, pool_source, vector_prelude
from codegen.compile.machine import Machine, restrict
from codegen.compile.machine import machine as this_machine
from codegen.lower.cpu.lower_contraction import lower_contraction
from codegen.plan.cpu.contraction_candidates import contraction_candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from codegen.run.aligned_memory import allocate
from codegen.run.executable import WorkspaceMemory
from codegen.text.cpu_to_c import SUPPORT, c_text
from ir.diagnostics import EqsatError, Kind
from ir.dtype import DTYPES
from ir.kernel.cpu.kernel import CpuKernel
from ir.kernel.cpu.lowered_kernel import LoweredCpuKernel
from ir.kernel.cpu.nodes import CpuCall
from ir.kernel.cpu.verify import verify
from ir.kernel.nodes import values_of, walk
from ir.plan.cpu import Blocks, CpuContractionPlan, OperandPlace, Place
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target
from tests.support.cpu.changed_plan import with_fields
from tests.support.cpu.played import Array, unwritten
from tests.support.cpu.quick_flags import quick_flags

_PEAK = {"fp32": 473e9, "fp64": 236e9, "i32": 200e9, "i64": 50e9}
_NARROW_PEAKS = {"amx": {"bf16": 7e12, "i8": 14e12, "u8": 14e12}, "avx512_bf16": {"bf16": 946e9}}
"""By `arch`."""


def target_of(machine: Machine | None = None, units: int = 2) -> Target:
    """A target with this machine's sizes and round figures for its speeds."""
    cpu = machine or this_machine()
    return Target(
        name="test",
        arch=cpu.arch,
        units=units,
        peak_flops=_PEAK | _NARROW_PEAKS.get(cpu.arch, {}),
        bandwidth=30e9,
        cache_bandwidth=200e9,
        launch_ns=1000.0,
        l1_bytes=cpu.l1_bytes,
        l2_bytes=cpu.l2_bytes,
        l3_bytes=cpu.l3_bytes,
        lanes=cpu.lanes,
        source="tests",
    )


def plans_of(region: Region, target: Target | None = None) -> list[tuple[CpuContractionPlan, Work]]:
    """The candidates for a region, best first."""
    return contraction_candidates(region, analyse(region).core, target or target_of())


def all_candidates(region: Region, target: Target) -> list[tuple[CpuContractionPlan, Work]]:
    """All plans that the planner compares for a region, best first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("codegen.plan.cpu.contraction_candidates._CANDIDATES", 10_000)
        return plans_of(region, target)


def all_plans(region: Region, machine: Machine | None = None, units: int = 2) -> list[CpuContractionPlan]:
    """All plans that the planner compares for a region on a machine, by default this one; best first."""
    return [plan for plan, _ in all_candidates(region, target_of(machine, units))]


def restricted(isa: str | None) -> Machine:
    """This machine, restricted to the instruction set `isa` unless that is None."""
    return restrict(this_machine(), isa) if isa else this_machine()


def one_of_each_kind(
    plans: Iterable[CpuContractionPlan], kind: Callable[[CpuContractionPlan], Hashable]
) -> list[CpuContractionPlan]:
    """The first plan of each kind."""
    kinds: dict[Hashable, CpuContractionPlan] = {}
    for plan in plans:
        kinds.setdefault(kind(plan), plan)
    return list(kinds.values())


def with_place(plan: CpuContractionPlan, side: int, place: Place) -> CpuContractionPlan:
    """The plan with operand `side` (0 or 1) in another place."""
    operands = list(plan.operands)
    operands[side] = OperandPlace(operands[side].tensor, place)
    return with_fields(plan, operands=tuple(operands))


def pairs_of_places(
    region: Region, first: Place, second: Place, sizes: Callable[[Blocks], Hashable], isa: str | None = None
) -> list[tuple[CpuContractionPlan, CpuContractionPlan]]:
    """Plans whose columns are in the first place, each beside the same plan with columns in the second place: one of
    each kind. A kind has the same places of operands, order of loops and `sizes` of the blocks."""
    plans = one_of_each_kind(
        (plan for plan in all_plans(region, restricted(isa)) if plan.places[plan.vector] == first),
        lambda plan: (plan.vector, plan.places, plan.order, sizes(plan.blocks)),
    )
    return [(plan, with_place(plan, plan.vector, second)) for plan in plans]


def verify_provable(built: Built, plans: Sequence[CpuContractionPlan]) -> None:
    """Verifies the kernels of cells, but for blocks of k of which the last one is shorter, in panels or memory of all
    terms: the ranges of the variables do not tell that no access leaves these."""
    for lowered, plan, region in zip(built.lowered, plans, built.regions, strict=True):
        op = next(let.op for let in region.body if let.op.kind == "contraction")
        cut = math.prod(op.domain[len(op.domain) - op.reduced :]) % plan.blocks.bk
        holds_all = plan.places[plan.vector] == "packed_once" or plan.places[1 - plan.vector] == "memory"
        if not (cut and holds_all):
            for kernel in (*(packed.kernel for packed in lowered.packed), lowered.kernel):
                verify(kernel)


def calls_in(kernel: CpuKernel, fn: str) -> list[CpuCall]:
    """The calls of a function in a kernel, once for each place in its text."""
    stmts = (stmt for phase in kernel.phases for stmt in walk(phase.body))
    return [value for stmt in stmts for value in values_of(stmt) if isinstance(value, CpuCall) and value.fn == fn]


class Built:
    """Kernels compiled into one library; `call(i, inputs)` runs the i-th."""

    def __init__(
        self, cases: Sequence[tuple[Region, CpuContractionPlan]], machine: Machine | None = None, threads: int = 2
    ) -> None:
        self.lowered = [
            lower_contraction(fit_plan(region, analyse(region).core, plan), plan, f"k{i}")
            for i, (region, plan) in enumerate(cases)
        ]
        self.regions = [region for region, _ in cases]
        self.threads = threads
        text = [vector_prelude(), pool_declarations(), SUPPORT]
        for kernel in self.kernels():
            text += [c_text(kernel), _wrapper(kernel.name, threads)]
        self.text = "".join(text)
        where = machine or this_machine()
        units, common = {"cases": self.text, POOL: pool_source()}, frozenset([POOL])
        self.library: Library = build(units, where, flags=quick_flags(where), common=common)

    def kernels(self) -> list[CpuKernel]:
        return [k for lowered in self.lowered for k in (*(p.kernel for p in lowered.packed), lowered.kernel)]

    def prepared(
        self, i: int, inputs: Mapping[str, Array], place: Callable[[Array], Array] | None = None
    ) -> tuple[Any, ctypes.Array[Any], dict[str, Array]]:
        """(C function, its pointer table, outputs by name) with constants packed and outputs set to rubbish. `place`
        copies inputs and outputs to where the kernel meets them."""
        place = place or moved
        lowered: LoweredCpuKernel = self.lowered[i]
        region = self.regions[i]
        known = {name: place(array) for name, array in inputs.items()}
        for constant in lowered.packed:
            known[constant.name] = moved(np.zeros(constant.elements, DTYPES[constant.dtype].numpy))
            self._run(constant.kernel, self._table(constant.kernel, (*constant.sources, constant.name), known))
        outputs = {name: place(array) for name, array in unwritten(region).items()}
        known |= outputs
        table = self._table(lowered.kernel, lowered.args, known)
        self._keep = known
        return self._entry(lowered.kernel), table, outputs

    def call(
        self, i: int, inputs: Mapping[str, Array], place: Callable[[Array], Array] | None = None
    ) -> dict[str, Array]:
        """The outputs by name."""
        function, table, outputs = self.prepared(i, inputs, place)
        function(ctypes.addressof(table))
        return outputs

    def _table(self, kernel: CpuKernel, args: Sequence[str], known: Mapping[str, Array]) -> ctypes.Array[Any]:
        self._space = WorkspaceMemory(kernel.workspace, self.threads)
        addresses = [*(known[argument].ctypes.data for argument in args), self._space.address]
        return (ctypes.c_size_t * len(addresses))(*addresses)

    def _run(self, kernel: CpuKernel, table: ctypes.Array[Any]) -> None:
        self._entry(kernel)(ctypes.addressof(table))

    def _entry(self, kernel: CpuKernel) -> Callable[..., Any]:
        return self.library.function(f"run_{kernel.name}", (ctypes.c_void_p,))


def moved(array: Array) -> Array:
    """A copy at an address that is a multiple of 64, as buffers have."""
    array = np.asarray(array)
    result = allocate(array.nbytes).view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def _wrapper(name: str, threads: int) -> str:
    return (
        f'__attribute__((visibility("default"))) void run_{name}(void *const *buf) {{\n'
        f"  eq_run run;\n  eq_run_begin(&run, 0);\n  {name}(buf, {threads});\n  eq_run_end(&run);\n}}\n"
    )


def assert_refused(region: Region, plan: CpuContractionPlan, kind: Kind, message: str) -> None:
    """The plan does not fit the region, which a diagnostic of this kind says."""
    with pytest.raises(EqsatError) as caught:
        fit_plan(region, analyse(region).core, plan)
    assert caught.value.kind == kind
    assert message in str(caught.value)
