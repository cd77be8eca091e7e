"""Every stage of a compiled program, in its printed form or as plain JSON values, computed when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from eqsat.egraph.view import EGraphView
from eqsat.looping.named_parts import named_parts, part_named
from eqsat.looping.parts import Part
from eqsat.looping.split import split
from eqsat.model import BoundModel
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.artifact_verify import verify_parts
from ir.diagnostics import Kind, fail
from ir.plan.plan import Plan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.poly.analysis import RegionAnalysis
from ir.poly.core import PolyCore
from ir.poly.report import PolyReport
from ir.region.region import Region
from ir.serde import to_builtins
from ir.target import Target

if TYPE_CHECKING:
    from eqsat.explanation.history import History

SHARED = ("frontend", "tiny", "egraph", "module", "region", "indexbook", "poly_view", "poly_core", "plan")
STAGES = (*SHARED, "cpu", "c")
"""On the way to a CPU, in order."""
GPU_STAGES = (*SHARED, "gpu", "cu")
OF_PROGRAM = ("frontend", "tiny", "egraph", "module")
"""Stages of the whole program; the others are those of kernels."""
TEXTS = ("c", "cu")
"""Stages that are texts, also in place of JSON."""


def check_stage(stage: str, target: Target | None = None) -> None:
    """Raises EqsatError, InvalidOption, for the name of no stage on the way to `target` (None: to any)."""
    known, place = tuple(dict.fromkeys((*STAGES, *GPU_STAGES))), ""
    if target is not None:
        known, place = (GPU_STAGES, " on a GPU") if target.is_gpu else (STAGES, " on a CPU")
    if not isinstance(stage, str) or stage not in known:
        fail(Kind.INVALID_OPTION, "dump", f"no stage {stage!r}{place}", hint=", ".join(known))


class Stages:
    """The dumps of one program. What the artifact does not hold is derived again, by the functions that made it."""

    def __init__(
        self,
        artifact: Artifact,
        bound: BoundModel,
        lower: Callable[[], Mapping[str, Any]],
        analyse: Callable[[Region], RegionAnalysis],
        report: Callable[[Region, PolyCore, Plan], PolyReport],
    ) -> None:
        self._artifact = artifact
        self._bound = bound
        self._lower = lower
        self._analyse = analyse
        self._report = report
        self._histories: dict[int, History] = {}

    def __call__(self, stage: str, place: int | None = None) -> Any:
        """The stage as JSON-ready data, of all kernels by name, or of the kernel at a place; a text stage as text.

        Raises:
            EqsatError: InvalidOption for a stage that this program did not go through, and for one kernel of a stage of
                the whole program.
        """
        self._check(stage, place)
        if stage in TEXTS:
            return self.text(stage, place)
        data = getattr(self, f"_{stage}")()
        return data if place is None else data[self._region_at(place).name]

    def text(self, stage: str, place: int | None = None) -> str:
        """The stage in its printed form; arguments and errors as `__call__`."""
        self._check(stage, place)
        if stage in OF_PROGRAM:
            return self._program_text(stage)
        if stage in TEXTS:
            kernels = self._artifact.kernels
            return (
                "\n".join(kernels.values()) if place is None else kernels[self._artifact.table.launches[place].function]
            )
        nouns = self._nouns(stage)
        if place is not None:
            return str(nouns[self._region_at(place).name])
        return "\n\n".join(f"kernel {name}\n{noun}" for name, noun in nouns.items())

    def _check(self, stage: str, place: int | None) -> None:
        check_stage(stage, self._artifact.target)
        if stage == "frontend" and self._bound.frontend is None:
            fail(Kind.INVALID_OPTION, "dump", "the program was given as Tiny IR: it has no frontend stage")
        if place is not None and stage in OF_PROGRAM:
            kernel_stages = [stage for stage in STAGES if stage not in OF_PROGRAM]
            message = f"the stage {stage} is that of the whole program, not of a kernel"
            fail(Kind.INVALID_OPTION, "dump", message, hint=f"kernel= goes with {', '.join(kernel_stages)}, gpu, cu")

    def _region_at(self, place: int) -> Region:
        return self._artifact.module.running[place].region

    def _program_text(self, stage: str) -> str:
        match stage:
            case "frontend":
                return str(self._bound.frontend)
            case "tiny":
                return str(self._bound.graph)
            case "module":
                return str(self._artifact.module)
        from eqsat.egraph.dump import to_text

        texts = {name: to_text(self._egraph_of(part)) for name, part in self.named_parts.items()}
        return "\n\n".join(f"part {name}\n{text}" if len(texts) > 1 else text for name, text in texts.items())

    def _nouns(self, stage: str) -> Mapping[str, object]:
        """The stage of every kernel by the name of its region: what prints itself."""
        match stage:
            case "region":
                return {region.name: region for region in self._regions}
            case "indexbook":
                return {region.name: self._analyses[region.name].book for region in self._regions}
            case "poly_view":
                return {region.name: self._analyses[region.name].view for region in self._regions}
            case "poly_core":
                return {region.name: self._poly_report(region) for region in self._regions}
            case "plan":
                return {name: plan_to_schedule(plan) for name, plan in self._plans.items()}
            case "cpu" | "gpu":
                return self._lower()
        raise NotImplementedError(f"write the printed form of the stage {stage} in Stages._nouns")

    def _poly_report(self, region: Region) -> PolyReport:
        return self._report(region, self._analyses[region.name].core, self._plans[region.name])

    def _frontend(self) -> Any:
        assert self._bound.frontend is not None
        return json.loads(self._bound.frontend.to_json())

    def _tiny(self) -> Any:
        return self._artifact.tiny

    @cached_property
    def named_parts(self) -> dict[str, Part]:
        """The parts of the program by name; one, unless it has loops or calls that are optimized by themselves.

        Raises:
            EqsatError: MalformedGraph if calls of a stored artifact belong to no part.
        """
        steps = split(self._bound.graph, self._bound.constants)
        verify_parts(self._artifact, steps)
        return named_parts(steps)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the program, in the order of their numbers."""
        return tuple(self.named_parts.values())

    def egraph(self, part: str | None = None) -> EGraphView:
        """The saturated e-graph of a part: saturation is deterministic, so it is run again rather than kept.

        Raises:
            EqsatError: InvalidOption, if there is no such part, or if there are several and none is named.
        """
        return self._egraph_of(part_named(self.named_parts, part, "dump"))

    def _egraph_of(self, part: Part) -> EGraphView:
        from eqsat.egraph.saturate import saturate
        from rules import select

        options = self._artifact.options
        rules = select(options.rules, options.exactness)
        return saturate(part.graph, rules, options.exactness, options.budget, constants=sorted(part.constants))[0]

    def history(self, number: int) -> History:
        """How the e-graph of a part came about; saturates again at first use, as `egraph` does."""
        from eqsat.explanation.history import History

        if number not in self._histories:
            part = self.parts[number]
            options, constants = self._artifact.options, sorted(part.constants)
            self._histories[number] = History.again(part.graph, options, constants, part.prefix)
        return self._histories[number]

    def _egraph(self) -> Any:
        from eqsat.egraph.dump import to_json

        dumps = {name: to_json(self._egraph_of(part)) for name, part in self.named_parts.items()}
        return {"parts": dumps} if len(dumps) > 1 else dumps.popitem()[1]

    def _module(self) -> Any:
        from ir.module.dump import dump_module

        module = self._artifact.module
        return dump_module(module, {region.name: self._patterns(region) for region in module.regions})

    def _region(self) -> Any:
        from ir.region.dump import dump_region

        return {region.name: {"region": dump_region(region, self._patterns(region))} for region in self._regions}

    def _indexbook(self) -> Any:
        return {region.name: self._analyses[region.name].book.to_dump() for region in self._regions}

    def _poly_view(self) -> Any:
        return {region.name: self._analyses[region.name].view.to_dump() for region in self._regions}

    def _poly_core(self) -> Any:
        return {region.name: self._poly_report(region).to_dump() for region in self._regions}

    def _plan(self) -> Any:
        return {name: to_builtins(plan_to_schedule(plan)) for name, plan in self._plans.items()}

    def _cpu(self) -> Any:
        return {name: to_builtins(lowered) for name, lowered in self._lower().items()}

    def _gpu(self) -> Any:
        from ir.kernel.gpu.dump import kernel_dump

        return {name: kernel_dump(kernel) for name, kernel in self._lower().items()}

    def _patterns(self, region: Region) -> dict[str, str]:
        """The kind of every contraction of a region."""
        blocks = self._analyses[region.name].view.blocks
        return {block.name: block.attrs.pattern for block in blocks if block.attrs is not None}

    @cached_property
    def _analyses(self) -> dict[str, RegionAnalysis]:
        """The analyses of every region, by the region's name: several stages read them."""
        return {region.name: self._analyse(region) for region in self._artifact.module.regions}

    @property
    def _plans(self) -> dict[str, Plan]:
        """The plan of each region that runs, by the region's name."""
        running = (call.region.name for call in self._artifact.module.running)
        return {name: price.plan for name, price in zip(running, self._artifact.prices, strict=True)}

    @property
    def _regions(self) -> list[Region]:
        running = (call.region for call in self._artifact.module.running)
        return list({region.name: region for region in running}.values())
