"""A compiled variant → the same with other plans of some kernels, written and compiled anew."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from codegen.backends.backend_of import backend_of
from codegen.poly.analyse import checked_core
from eqsat.build_code import build_code
from eqsat.clock import Clock
from eqsat.compile_model import stages_of
from eqsat.explanation.kernel_by_name import Wanted, place_of
from eqsat.load_compiled import load_compiled
from eqsat.pipeline import write
from eqsat.planning.choose_plan import STAGE, PlanOption, choose_plan, note_of_choice, options_of
from eqsat.planning.plan_by_hand import price_plan
from eqsat.planning.target_pricer import pricer_for
from eqsat.runtime.compiled import Compiled
from ir.diagnostics import Kind, fail
from ir.host.cache_folder import writable_cache
from ir.plan.plan import HandPlan, Plan, WantedPlan
from ir.pricer import Price, Work
from ir.region.region import Region


def plans_at(compiled: Compiled, place: int) -> list[PlanOption]:
    """All plans that the planner makes for the launch at a place, the best estimate first."""
    return options_of(_ranked(compiled, place))


def _ranked(compiled: Compiled, place: int) -> list[Price]:
    artifact = compiled.artifact
    return pricer_for(artifact.target, artifact.options).rank(artifact.module.running[place].region)


def _wanted_price(compiled: Compiled, place: int, wanted: WantedPlan) -> Price:
    """The price of the plan that a caller wants for the launch at a place."""
    artifact, call = compiled.artifact, compiled.artifact.module.running[place]
    ranked = _ranked(compiled, place)
    if isinstance(wanted, Mapping):
        return choose_plan(ranked, wanted, call.name)
    if not isinstance(wanted, Plan):
        message = f"a plan is a value of a class of ir.plan or a mapping of fields, not {wanted!r}"
        fail(Kind.INVALID_OPTION, STAGE, message, at=call.name, hint='{"tile": (64, 128, 256)}')

    def work_of(region: Region, plan: HandPlan) -> Work:
        from codegen.plan.work_of_plan import work_of_plan

        return work_of_plan(region, checked_core(region), plan, artifact.target)

    pricer = pricer_for(artifact.target, artifact.options)
    return price_plan(call.region, wanted, ranked, pricer, work_of, artifact.target)


def with_plans(compiled: Compiled, plans: Mapping[Wanted, WantedPlan]) -> Compiled:
    """The program with these plans by kernel. Raises EqsatError as `replan_kernels`, and for an unknown kernel."""
    return replan_kernels(compiled, {place_of(compiled.kernels, name): plan for name, plan in plans.items()})


def replan_kernels(compiled: Compiled, wanted: Mapping[int, WantedPlan]) -> Compiled:
    """The program with other plans. wanted: plans or fields of plans, by the place of the launch. Launches of one
    region have one plan.

    Raises:
        EqsatError: InvalidOption as `choose_plan`; as `price_plan` for a plan; CompileFailed.
    """
    artifact, running = compiled.artifact, compiled.running
    calls = artifact.module.running
    chosen: dict[str, Price] = {}
    notes = []
    for place, plan in wanted.items():
        region = calls[place].region
        chosen[region.name] = _wanted_price(compiled, place, plan)
        notes.append(note_of_choice(artifact.prices[place], chosen[region.name], region.name))
    prices = tuple(chosen.get(call.region.name, price) for call, price in zip(calls, artifact.prices, strict=True))
    written = write(artifact, prices, backend_of(artifact.target, running.emulate))
    stats = msgspec.structs.replace(artifact.stats, planning=(*artifact.stats.planning, *notes))
    written = msgspec.structs.replace(written, stats=stats)
    clock, (folder, warnings) = Clock(), writable_cache()
    with clock.stage("compile"):
        code = build_code(written, running, folder)
    with clock.stage("load"):
        return load_compiled(
            written, compiled.bound, code, running, clock, stages_of(written, compiled.bound), warnings
        )
