"""Equality saturation: load a Tiny graph, run the rules phase by phase under a budget, read the e-graph."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from eqsat.egraph.barriers import closed_uops, respect_barriers
from eqsat.egraph.engine import EGraph, Interruption, watch_calls
from eqsat.egraph.finite import find_finite
from eqsat.egraph.growing import GrowingProgram
from eqsat.egraph.growth import Growth
from eqsat.egraph.inlining import decide_inlining
from eqsat.egraph.loading import Marked, load_text
from eqsat.egraph.meter import Meter
from eqsat.egraph.places import find_places
from eqsat.egraph.program import declarations, schedule
from eqsat.egraph.read import VIEWED, class_numbers, read_view
from eqsat.egraph.saturation_stats import STAGE, PhaseStats, SaturationStats
from eqsat.egraph.stop import Stop
from eqsat.egraph.tiny_to_term import tiny_to_terms
from eqsat.egraph.trace import Trace, read_trace, traced_tables
from eqsat.egraph.view import EGraphView
from eqsat.logs.topics import RULES
from eqsat.options import Budget
from ir.diagnostics import Kind, fail
from ir.term.language import CTORS, App
from ir.term.rule import Exactness, Rule
from ir.tiny.graph import Graph, Ref
from rules import PHASES
from rules import analyses as known
from rules.reachable import reachable

_ENDLESS = 100
"""Iterations of a phase from which on rules that still match are taken to match for ever: they would use up the later
phases as well. Phases of models take up to 51."""


def saturate(
    graph: Graph,
    rules: Sequence[Rule],
    exactness: Exactness = Exactness.ROUNDING,
    budget: Budget | None = None,
    phases: Sequence[Sequence[str]] = PHASES,
    constants: Collection[str] = (),
    report: Callable[[Iteration], None] = lambda _: None,
) -> tuple[EGraphView, SaturationStats]:
    """Saturates a graph with the rules that are no less exact than `exactness`.

    Each phase adds its families to those of earlier phases (except `rules.PASSING`), and runs until nothing changes or
    the budget ends it. Families that no phase names join the last phase. The result depends only on the graph, the
    rules, the phases, the limits on nodes and iterations, and the names of the inputs that are `constants`. `report` is
    called after every iteration.

    Raises:
        EqsatError: UnsoundRule, when two rules share a name or contradict an analysis.
    """
    saturation = begin(graph, rules, exactness, budget, phases, constants=constants)
    while (iteration := saturation.step()) is not None:
        report(iteration)
    view = saturation.view()
    return view, saturation.stats(view)


def begin(
    graph: Graph,
    rules: Sequence[Rule],
    exactness: Exactness = Exactness.ROUNDING,
    budget: Budget | None = None,
    phases: Sequence[Sequence[str]] = PHASES,
    traced: bool = False,
    constants: Collection[str] = (),
) -> Saturation:
    """A saturation with the graph loaded, ready to run as in `saturate`; `traced` keeps every match."""
    budget, closed = budget or Budget(), closed_uops(graph)
    decisions, constant_uops = decide_inlining(graph, budget.copies), _constant_uops(graph, constants)
    marks: Marked = {
        known.Computed: decisions.computed,
        known.Inlined: decisions.inlined,
        known.Open: [node.id for node in graph.nodes if node.id not in closed] if closed else (),
        known.Output: graph.outputs,
        known.Constant: tuple(node.id for name, node in graph.inputs.items() if name in constants),
        known.Weight: tuple(constant_uops),
        known.Runs: tuple(node.id for node in graph.nodes if node.id not in constant_uops),
        known.Finite: find_finite(graph) if exactness is Exactness.RANGE else (),
        known.Place: find_places(graph, decisions.sources, constants, enlarging=exactness is Exactness.RANGE),
    }
    terms = tiny_to_terms(graph)
    rules = respect_barriers(rules) if closed else rules
    return Saturation(terms, rules, exactness, budget, phases, marks, decisions.piecewise, traced)


class Iteration(NamedTuple):
    """One iteration. phase: its place, from 0 on. matches: by rule. nodes: the number of e-nodes afterwards. changed:
    whether the e-graph changed. stop: why the phase ends; None if the phase goes on."""

    phase: int
    matches: Mapping[str, int]
    nodes: int
    changed: bool
    stop: Stop | None


class Saturation:
    """A saturation in progress: the graph is loaded on construction, and each `step` runs one iteration."""

    def __init__(
        self,
        terms: Sequence[tuple[str, App]],
        rules: Sequence[Rule],
        exactness: Exactness,
        budget: Budget,
        phases: Sequence[Sequence[str]],
        marks: Marked,
        piecewise: tuple[str, ...] = (),
        traced: bool = False,
    ) -> None:
        """marks: for each analysis the names of the terms for which it holds."""
        start = time.perf_counter()
        self.rules = [rule for rule in rules if rule.exactness <= exactness]
        self._terms, self._piecewise = terms, piecewise
        self._matches: Counter[str] = Counter({rule.name: 0 for rule in self.rules})
        if len(self._matches) < len(self.rules):
            fail(Kind.UNSOUND_RULE, STAGE, "two rules have one name", hint="give each a name of its own")
        self.schedule = tuple(schedule(self.rules, phases))
        live = reachable(self.rules, [term for _, term in terms])
        self.egraph = EGraph(declarations(self.schedule))
        self._program = GrowingProgram(self.egraph, self.schedule, live, traced)
        self.egraph.execute(load_text(terms, marks, known.PARTS))
        nodes, count = budget.nodes_for(len(terms)), len(self.schedule)
        self._growth = Growth(nodes, len(terms))
        self._shares = [nodes * (position + 2) // (count + 1) for position in range(count)]
        self._most_iterations = budget.iterations_for(len(terms))
        self._meter = Meter(budget, start)
        self._last_matches: Mapping[str, int] = {}
        self._resting: list[Rule] = []
        self._done: list[PhaseStats] = []
        self._nodes, self._iterations, self._since = _nodes(self.egraph), 0, time.perf_counter()
        self._load_seconds = time.perf_counter() - start
        self._read_seconds = 0.0

    def step(self) -> Iteration | None:
        """One iteration of the current phase, or of the next one if that has ended; None after the last phase."""
        while len(self._done) < len(self.schedule):
            stop = self._limit()
            if stop is None:
                return self._iterate()
            if stop is Stop.ITERATION_LIMIT and self._iterations >= _ENDLESS:
                self._stop_rules([rule for rule in self.rules if rule.name in self._last_matches])
            self._end(stop)
        return None

    @property
    def phases(self) -> tuple[PhaseStats, ...]:
        """The phases that have ended."""
        return tuple(self._done)

    def finish(self) -> None:
        """Run all remaining iterations."""
        while self.step():
            pass

    def view(self) -> EGraphView:
        """The e-graph as it is now."""
        start = time.perf_counter()
        view = read_view(self.egraph.rows(VIEWED), self._terms, [rule.name for rule in self.rules])
        self._read_seconds += time.perf_counter() - start
        return view

    def trace(self) -> Trace:
        """The matches so far, if they are traced; classes have the same numbers as in the present `view`."""
        tables = self.egraph.rows({*VIEWED, *traced_tables(self.rules, known.ANALYSES)})
        return read_trace(tables, class_numbers(tables), self.rules, known.ANALYSES)

    def stats(self, view: EGraphView) -> SaturationStats:
        """The statistics so far; `view` is the present view."""
        by_family = {rule.family: 0 for rule in self.rules}
        for rule in self.rules:
            by_family[rule.family] += self._matches[rule.name]
        return SaturationStats(
            phases=self.phases,
            matches=dict(self._matches),
            families=by_family,
            nodes=sum(map(len, view.classes.values())),
            classes=len(view.classes),
            load_seconds=self._load_seconds,
            read_seconds=self._read_seconds,
            piecewise=self._piecewise,
        )

    def _limit(self) -> Stop | None:
        """The limit that forbids another iteration of the current phase; None if there is none."""
        if self._iterations >= self._most_iterations:
            return Stop.ITERATION_LIMIT
        if self._nodes > self._shares[len(self._done)]:
            return Stop.NODE_LIMIT
        return self._meter.stop()

    def _iterate(self) -> Iteration:
        place = len(self._done)
        matches, changed = self._run_rules(place)
        matched = {name: matches[name] for name in self._matches if matches.get(name)}
        self._matches.update(matched)
        self._last_matches = matched
        self._iterations += 1
        self._nodes = _nodes(self.egraph)
        if not changed:
            self._end(Stop.MATCH_LIMIT if self._resting_in(place) else Stop.SATURATED)
        elif self._growth.is_steep(self._nodes, max(matched.values(), default=0)):
            self._rest()
        ended = self._done[place].stop if len(self._done) > place else self._limit()
        return Iteration(place, matched, self._nodes, changed, ended)

    def _run_rules(self, place: int) -> tuple[Mapping[str, int], bool]:
        """Run an iteration. Returns the matches by rule, and whether anything changed; no matches if interrupted."""
        try:
            with watch_calls(self._meter.check):
                return self._program.iterate(place)
        except Interruption:
            return {}, True

    def _rest(self) -> None:
        """Stop the rules that would match too often in the present e-graph."""
        stopped = self._growth.too_many(self.egraph.rows(CTORS), self._program.rules)
        if stopped:
            self._stop_rules(stopped)

    def _stop_rules(self, rules: Sequence[Rule]) -> None:
        """Let rules rest in all further iterations."""
        self._resting.extend(rules)
        self._program.rest([rule.name for rule in rules])

    def _resting_in(self, place: int) -> tuple[str, ...]:
        """The resting rules of a phase."""
        return tuple(rule.name for rule in self._resting if rule.family in self.schedule[place].families)

    def _end(self, stop: Stop) -> None:
        place, now = len(self._done), time.perf_counter()
        phase = PhaseStats(
            families=self.schedule[place].families,
            stop=stop,
            iterations=self._iterations,
            nodes=self._nodes,
            seconds=now - self._since,
            resting=self._resting_in(place),
        )
        self._done.append(phase)
        RULES.info("phase %d: %s", place + 1, phase)
        self._iterations, self._since = 0, now


def _constant_uops(graph: Graph, constants: Collection[str]) -> Mapping[Ref, None]:
    """The uops that depend on nothing but constants, numbers and indices."""
    uops: dict[Ref, None] = {}
    for node in graph.nodes:
        if node.arg["tensor_id"] in constants if node.uop == "INPUT" else uops.keys() >= {*node.refs}:
            uops[node.id] = None
    return uops


def _nodes(egraph: EGraph) -> int:
    """The number of e-nodes: rows of the constructors' tables."""
    sizes = egraph.sizes()
    return sum(sizes.get(name, 0) for name in CTORS)
