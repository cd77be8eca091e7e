"""The compiler's report of registers corrects the estimate by which a plan was chosen.

A plan is chosen by an estimate and compiled. Where it spills, or fewer of its blocks share an SM than was estimated,
the plans are ranked again with the reported registers, and the first plan is compiled in turn, until the compiler has
reported the first plan. The fields that gave way are named in the order of seed 000 §8: stages, warp tile, width of
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from eqsat.cost.occupancy import resident_blocks
from eqsat.cost.pricing import SPILLS, PlanPricer, rank
from ir.diagnostics import Diagnostic, Kind, Severity, fail, note
from ir.kernel.resources import KernelResources
from ir.module.module import Module
from ir.plan.plan import Plan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.plan.schedule import Schedule
from ir.pricer import Price
from ir.region.region import Region
from ir.target import Target

STAGE = "refinement"
Compile = Callable[[Region, Plan], KernelResources]
"""The compiler's report of the kernel of a region by a plan."""


class Replanned(NamedTuple):
    """The prices of a module's run-time calls, in order, and what was chosen otherwise than by the estimate."""

    prices: tuple[Price, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


def refine(
    module: Module,
    prices: tuple[Price, ...],
    reports: Mapping[str, KernelResources],
    pricer: PlanPricer,
    target: Target,
    compiled: Compile,
) -> Replanned:
    """The plans of a module whose kernels take what `reports` says, by the region's name.

    Raises:
        EqsatError: ResourceExceeded where a block of no plan of a region fits an SM.
    """
    chosen: dict[str, Price] = {}
    notes: list[Diagnostic] = []
    for call, price in zip(module.running, prices, strict=True):
        name = call.region.name
        if name not in chosen:
            search = _PlanSearch(call.region, price, reports[name], pricer, target, compiled)
            chosen[name] = search.best()
            notes += search.diagnostics(chosen[name])
    return Replanned(tuple(chosen[call.region.name] for call in module.running), tuple(notes))


def what_changed(before: Plan, after: Plan) -> str:
    """The differences between two plans, as "stages 4 → 3, warp_tile 64x64 → 64x32"; where sizes do not, the fields
    that do."""
    old, new = plan_to_schedule(before), plan_to_schedule(after)
    sizes = (
        ("stages", old.stages, new.stages),
        ("warp_tile", old.warp_tile, new.warp_tile),
        ("vectors", before.vectors or 1, after.vectors or 1),
        ("tile", _shape(old), _shape(new)),
    )
    changes = [f"{name} {first} → {second}" for name, first, second in sizes if first != second]
    fields = (name for name in Schedule.__struct_fields__ if getattr(old, name) != getattr(new, name))
    return ", ".join(changes or [f"other {name}" for name in fields if name != "notes"])


class _PlanSearch:
    """Plans of one region, ranked by what is known of them."""

    def __init__(
        self,
        region: Region,
        first: Price,
        report: KernelResources,
        pricer: PlanPricer,
        target: Target,
        compiled: Compile,
    ) -> None:
        self._region, self._first, self._report = region, first, report
        self._pricer, self._target, self._compiled = pricer, target, compiled

    def best(self) -> Price:
        """The first choice where the compiler confirms its estimate, else the best plan by the compiler's reports."""
        if not self._report.spills and self._compiled_blocks() >= resident_blocks(self._first.work, self._target):
            return self._first
        estimates = self._pricer.rank(self._region)
        rivals = [estimate.plan for estimate in estimates]
        place, report = rivals.index(self._first.plan), self._report
        known: dict[int, Price] = {}
        while place not in known:
            known[place] = self._pricer.correct(self._region, estimates[place], report, rivals)
            place = min(range(len(rivals)), key=lambda i: self._rank(known.get(i, estimates[i])))
            if place not in known:
                estimates[place] = self._add_note(estimates[place])
                report = self._compiled(self._region, estimates[place].plan)
        best = known[place]
        if not resident_blocks(best.work, self._target):
            registers = f"{best.work.thread_registers} registers of each of {best.work.block_threads} threads"
            message = f"a block of no plan fits {self._target.name}: the best takes {registers}"
            fail(Kind.RESOURCE_EXCEEDED, STAGE, message, at=self._region.name, shared_bytes=best.work.scratch)
        return best

    def diagnostics(self, best: Price) -> list[Diagnostic]:
        """Notes: the fields that gave way, and that the kernel spills all the same."""
        notes = []
        if best.plan.notes != self._first.plan.notes:
            notes.append(note(Kind.RESOURCE_EXCEEDED, STAGE, best.plan.notes[-1], at=self._region.name))
        if SPILLS in best.stops:
            message = "registers are spilled, by every plan of the region that is as good"
            notes.append(note(Kind.RESOURCE_EXCEEDED, STAGE, message, at=self._region.name, severity=Severity.WARNING))
        return notes

    def _compiled_blocks(self) -> int:
        """Blocks of the first choice that share an SM, by the registers that it takes."""
        work = msgspec.structs.replace(self._first.work, thread_registers=self._report.registers)
        return resident_blocks(work, self._target)

    def _rank(self, price: Price) -> tuple[bool, tuple[bool, bool, float]]:
        return not resident_blocks(price.work, self._target), rank(price)

    def _add_note(self, price: Price) -> Price:
        """The price of a plan that says why it stands in the place of the first."""
        report, estimated = self._report, self._first.work.thread_registers
        spilled = f", {report.spill_stores + report.spill_loads} bytes spilled" if report.spills else ""
        why = f"{report.registers} registers{spilled}, {estimated} estimated"
        words = f"{what_changed(self._first.plan, price.plan)}: {why}"
        plan = msgspec.structs.replace(price.plan, notes=(*price.plan.notes, words))
        return msgspec.structs.replace(price, plan=plan)


def _shape(schedule: Schedule) -> str:
    return "x".join(map(str, schedule.tile))
