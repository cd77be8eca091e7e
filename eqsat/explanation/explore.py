"""Step-by-step optimization with a look at each step; `eqsat explore` and scripts use it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from eqsat.assembly.assemble import assemble
from eqsat.assembly.concatenate_in_place import concatenate_in_place
from eqsat.cost.roofline import unfused_ns
from eqsat.egraph.saturate import Iteration, Saturation, begin
from eqsat.egraph.tiny_to_term import tiny_to_terms
from eqsat.explanation.chain import Chain, chain_at
from eqsat.explanation.compare import Comparison, compare
from eqsat.explanation.explored_run import ExploredRun, IterationReport, PhaseReport
from eqsat.explanation.history import History
from eqsat.explanation.kernel_by_name import Wanted, output_of, place_of
from eqsat.explanation.setting import Setting
from eqsat.explanation.why_absent import WhyAbsent, WhyUnused, why_absent, why_unused
from eqsat.explanation.why_not import WhyNot, why_not
from eqsat.extraction.extract import extract
from eqsat.failure.internal_error import public_call, reports_all
from eqsat.failure.reproducer_calls import of_exploration, of_making
from eqsat.find_target import find_target
from eqsat.looping.named_parts import named_parts, part_named
from eqsat.looping.parts import Part
from eqsat.looping.split import split
from eqsat.model import read_model
from eqsat.options import Budget, CostModelChoice, RuleChoice, check_options, usable
from eqsat.planning.target_pricer import cold_inputs, pricer_for, with_inputs
from eqsat.runtime.compiled import KernelReport, report_of
from eqsat.runtime.kernel_term import kernel_term
from ir.diagnostics import Kind, fail
from ir.target import Target
from ir.term.language import CTORS
from ir.term.rule import Exactness
from rules import select
from rules.reachable import reachable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Group


@public_call(partial(of_making, function="eqsat.explanation.explore:explore"))
def explore(source: Any, *, part: str | None = None, **keywords: Any) -> Exploration:
    """Optimize a model, or one part of a model of several, and record every step; nothing is compiled.

    Takes what `optimize_and_compile` takes: target, dims, constants, rules, exactness, extractor, cost_model, budget,
    strict, tf32.

    Raises:
        EqsatError: as `optimize_and_compile`; InvalidOption, if there is no such part, or if there are several and none
            is named.
    """
    return Explorer(setting(source, **keywords), part=part).finish()


def explore_parts(given: Any, **keywords: Any) -> dict[str, Exploration]:
    """The explorations of all parts of a model, by name; `main` is a part, or the whole model.

    Args:
        given: a setting; or a model, with the keywords of `explore`.
    """
    whole = given if isinstance(given, Setting) else setting(given, **keywords)
    return {name: Explorer(whole.of_part(part)).finish() for name, part in _parts(whole).items()}


def _setting_of_part(whole: Setting, name: str | None) -> Setting:
    """The part of this name as a model of its own; the model itself, if it is one part and no name is given."""
    parts = _parts(whole)
    part = part_named(parts, name, "explore")
    return whole if part.graph is whole.bound.graph else whole.of_part(part)


def _parts(given: Setting) -> dict[str, Part]:
    return named_parts(split(given.bound.graph, given.bound.constants))


def setting(
    source: Any,
    *,
    target: str | Target = "auto",
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Any] | None = None,
    rules: RuleChoice = None,
    exactness: str | Exactness = Exactness.ROUNDING,
    extractor: str = "pareto",
    cost_model: CostModelChoice = "roofline",
    budget: Budget | None = None,
    strict: bool = False,
    tf32: bool = False,
) -> Setting:
    """A model and its options, checked; the keywords are those of `optimize_and_compile`."""
    machine = find_target(target)
    options, _ = usable(check_options(rules, exactness, extractor, cost_model, budget, tf32=tf32), machine)
    model = read_model(source, constants, dims)
    bound = model.bind(model.infer({}), strict)
    return Setting(bound, with_inputs(machine, bound), options)


def without(given: Setting, names: Sequence[str]) -> Setting:
    """The setting without these families or rules. Raises EqsatError, InvalidOption, if there is no such name."""
    rules = (*(given.options.rules or ()), *(f"-{name}" for name in names))
    select(rules)
    if not names or given.options.rules == ():
        return given
    return replace(given, options=msgspec.structs.replace(given.options, rules=rules))


@reports_all(of_exploration)
class Exploration(ExploredRun):
    """A whole run, with methods to inspect it, to compare it, and to repeat it with fewer rules."""

    def without(self, *names: str) -> Exploration:
        """The same run without these families or rules. Raises EqsatError, InvalidOption, if there is no such name."""
        return Explorer(without(self.setting, names)).finish()

    def compare(self, other: ExploredRun) -> Comparison:
        """Compares this run with another: sizes, times, rules, and the kernels that only one of them has."""
        return compare(self, other)

    def chain(self, kernel: Wanted) -> Chain:
        """The rewrites that led to a kernel, which is named by its place, its report, a buffer that it writes, or its
        name. If the buffer is one of several outputs, the rewrites are that output's, else the first output's."""
        return chain_at(self, *output_of(self.kernels, kernel))

    def why_not(self, first: Wanted, second: Wanted) -> WhyNot:
        """Why two kernels were not fused."""
        return why_not(self, first, second)

    def why_absent(self, uop: str) -> WhyAbsent:
        """Why no kernel computes a uop: the rules that made it vanish. Raises EqsatError, InvalidOption, if there is no
        such uop."""
        return why_absent(self, uop)

    def why_unused(self, rule: str) -> WhyUnused:
        """The work of a rule in this run: its matches, and the rules that built before what it would build. Raises
        EqsatError, InvalidOption, if the run has no such rule."""
        named = {rule.name: rule for rule in self.rules}
        if rule not in named:
            fail(Kind.INVALID_OPTION, "explore", f"the run has no rule {rule!r}", hint="eqsat rules lists them")
        terms = [term for _, term in tiny_to_terms(self.setting.bound.graph)]
        live = {rule.name for rule in reachable(self.rules, terms)}
        return why_unused(self.history, named[rule], rule in live)

    def view(self) -> Group:
        """The run as a rich renderable for a terminal."""
        from eqsat.explanation.exploration_text import exploration_group

        return exploration_group(self)

    def _repr_html_(self) -> str:
        """The run in a notebook."""
        from eqsat.explanation.notebook import html_of

        return html_of(self.view())

    def source(self, kernel: Wanted | None = None) -> str:
        """The text of all kernels, or of one, in C or CUDA. No compiler is needed."""
        from eqsat.pipeline import kernel_texts

        texts = kernel_texts(self.module, self.prices, self.setting.target)
        return "\n".join(dict.fromkeys(texts)) if kernel is None else texts[place_of(self.kernels, kernel)]

    def html(self, path: str | Path, title: str = "eqsat explore", *, measured: Iterable[KernelReport] = ()) -> None:
        """Write the run as one HTML page, which needs no other file. measured: a profile of the program
        (`program.profile(…)`), whose times the page shows beside the estimates.

        Raises:
            EqsatError: InvalidOption if the file cannot be written.
        """
        from eqsat.explanation.html_page import write_page

        write_page(self, path, title, measured=measured)

    def __str__(self) -> str:
        from eqsat.explanation.explain import render

        return render(self.view())


class Explorer:
    """A saturation that the caller runs one iteration or one phase at a time, and inspects in between.

    Args:
        given: a setting; or a model, with the keywords of `explore`.
        part: the name of a part, of a model of several.
    """

    def __init__(self, given: Any, *, part: str | None = None, **keywords: Any) -> None:
        whole = given if isinstance(given, Setting) else setting(given, **keywords)
        self.setting = _setting_of_part(whole, part)
        bound, options = self.setting.bound, self.setting.options
        start = time.perf_counter()
        self._saturation: Saturation = begin(
            bound.graph,
            select(options.rules, options.exactness),
            options.exactness,
            options.budget,
            traced=True,
            constants=sorted(bound.constants),
        )
        self.seconds = {"load": time.perf_counter() - start}
        self.iterations: list[IterationReport] = []
        self._has_ended = False

    @property
    def history(self) -> History:
        """The e-graph as it is now, with the trace of matches so far."""
        view, trace = self._saturation.view(), self._saturation.trace()
        return History(self.setting.bound.graph, view, trace, self.setting.prefix)

    def step(self, count: int = 1) -> list[IterationReport]:
        """Runs at most `count` iterations; fewer if the saturation ends."""
        reports: list[IterationReport] = []
        while len(reports) < count and (growth := self._step()):
            reports.append(growth)
        return reports

    def phase(self) -> list[IterationReport]:
        """Runs the current phase to its end; the next phase if the current one has just ended."""
        reports: list[IterationReport] = []
        while growth := self._step():
            reports.append(growth)
            if self._has_ended:
                break
        return reports

    def alternatives(self, uop: str) -> list[str]:
        """The ways to compute a uop's result that the e-graph holds now: one line per e-node of its value, with the
        rule that built it. Raises EqsatError, InvalidOption, if there is no such uop."""
        from eqsat.explanation.class_text import class_lines

        return class_lines(self.history, uop)

    def finish(self) -> Exploration:
        """Runs the rest of the saturation, and chooses kernels."""
        while self._step():
            pass
        self.seconds["saturate"] = sum(growth.seconds for growth in self.iterations)
        return self._extract()

    def _step(self) -> IterationReport | None:
        start = time.perf_counter()
        iteration: Iteration | None = self._saturation.step()
        if iteration is None:
            return None
        seconds = time.perf_counter() - start
        self._has_ended = iteration.stop is not None
        number = sum(report.phase == iteration.phase for report in self.iterations)
        classes = self._saturation.egraph.classes(CTORS)
        growth = IterationReport(iteration.phase, number, dict(iteration.matches), iteration.nodes, classes, seconds)
        self.iterations.append(growth)
        return growth

    def _phases(self) -> Iterable[PhaseReport]:
        joined: set[str] = set()
        for place, phase in enumerate(self._saturation.phases):
            mine = [growth for growth in self.iterations if growth.phase == place]
            matches: Counter[str] = Counter()
            for growth in mine:
                matches.update(growth.matches)
            yield PhaseReport(
                families=phase.families,
                joined=tuple(family for family in phase.families if family not in joined),
                stop=phase.stop,
                iterations=phase.iterations,
                matches=dict(matches),
                nodes=phase.nodes,
                classes=mine[-1].classes if mine else 0,
                seconds=sum(growth.seconds for growth in mine),
            )
            joined.update(phase.families)

    def _extract(self) -> Exploration:
        bound, target, options = self.setting.bound, self.setting.target, self.setting.options
        graph, constants = bound.graph, sorted(bound.constants)
        start = time.perf_counter()
        history = self.history
        self.seconds["read"] = time.perf_counter() - start
        start = time.perf_counter()
        pricer = pricer_for(target, options, graph)
        cover = extract(
            history.view,
            graph.outputs,
            pricer,
            constants=constants,
            extractor=options.extractor,
            joining=options.cost_model.joining,
            relayout=options.cost_model.relayout,
            prefix=self.setting.prefix,
            cold=cold_inputs(self.setting.given, target),
            given=None if target.is_gpu else self.setting.given,
            as_written=bool(options.cost_model.own),
        )
        module, prices, kept = concatenate_in_place(*assemble(cover, history.view, graph, constants), pricer)
        self.seconds["extract"] = time.perf_counter() - start
        running = [kernel for kernel in cover.kernels if kernel.price]
        running = [running[place] for place in kept]
        return Exploration(
            setting=self.setting,
            uops=len(graph.nodes),
            kernels_before=sum(node.uop != "INPUT" for node in graph.nodes),
            phases=tuple(self._phases()),
            iterations=tuple(self.iterations),
            rules=tuple(self._saturation.rules),
            nodes=sum(map(len, history.view.classes.values())),
            classes=len(history.view.classes),
            candidates=cover.considered,
            estimated_before_ns=unfused_ns(graph, target),
            kernels=tuple(
                report_of(call, price, kernel.selection)
                for call, price, kernel in zip(module.running, prices, running, strict=True)
            ),
            prices=prices,
            module=module,
            terms=tuple(kernel_term(kernel.trees, cover.names) for kernel in running),
            history=history,
            seconds=dict(self.seconds),
        )
