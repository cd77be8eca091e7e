"""A compiled variant → the same with other plans of some kernels, written and compiled anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from codegen.backends.backend_of import backend_of
from eqsat.clock import Clock
from eqsat.compile_model import stages_of
from eqsat.load_compiled import load_compiled
from eqsat.make_artifact import build_code
from eqsat.pipeline import write
from eqsat.planning.choose_plan import PlanOption, choose_plan, note_of_choice, options_of
from eqsat.planning.target_pricer import pricer_for
from eqsat.runtime.compiled import Compiled
from ir.host.cache_folder import writable_cache
from ir.pricer import Price


def plans_at(compiled: Compiled, place: int) -> list[PlanOption]:
    """All plans that the planner makes for the launch at a place, the best estimate first."""
    return options_of(_ranked(compiled, place))


def _ranked(compiled: Compiled, place: int) -> list[Price]:
    made = compiled.artifact
    return pricer_for(made.target, made.options).rank(made.module.running[place].region)


def replan_kernels(compiled: Compiled, wanted: Mapping[int, Mapping[str, Any]]) -> Compiled:
    """The program with other plans. wanted: fields of plans, by the place of the launch. Launches of one region have
    one plan.

    Raises:
        EqsatError: InvalidOption as `choose_plan`; CompileFailed.
    """
    made, running = compiled.artifact, compiled.running
    calls = made.module.running
    chosen: dict[str, Price] = {}
    notes = []
    for place, fields in wanted.items():
        region = calls[place].region
        chosen[region.name] = choose_plan(_ranked(compiled, place), fields, calls[place].name)
        notes.append(note_of_choice(made.prices[place], chosen[region.name], region.name))
    prices = tuple(chosen.get(call.region.name, price) for call, price in zip(calls, made.prices, strict=True))
    written = write(made, prices, backend_of(made.target, running.emulate))
    stats = msgspec.structs.replace(made.stats, planning=(*made.stats.planning, *notes))
    written = msgspec.structs.replace(written, stats=stats)
    clock, (folder, warnings) = Clock(), writable_cache()
    with clock.stage("compile"):
        code = build_code(written, running, folder)
    with clock.stage("load"):
        return load_compiled(
            written, compiled.bound, code, running, clock, stages_of(written, compiled.bound), warnings
        )
