"""Equality saturation: load a Tiny graph, run the rules phase by phase under a budget, read the e-graph."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from eqsat.egglog_text import ANALYSES, clause_text, load_text, mark_text, rule_text, schema
from eqsat.egraph import CALL, EGraph
from eqsat.egraph_read import read_view
from eqsat.egraph_view import EGraphView
from eqsat.options import Budget
from eqsat.tiny_to_term import computed, tiny_to_terms
from ir.diagnostics import Diagnostic, Kind, Severity, note
from ir.rule import Exactness, Rule
from ir.term import CTORS, Analysis, App
from ir.tiny import Graph
from rules import PHASES
from rules import analyses as known

STAGE = "saturate"


class Stop(StrEnum):
    """Why a phase ended."""

    SATURATED = "saturated"
    NODE_LIMIT = "node_limit"
    ITERATION_LIMIT = "iteration_limit"
    TIME_LIMIT = "time_limit"


class PhaseStats(msgspec.Struct, frozen=True):
    """One phase: the families that ran, iterations made, e-nodes at its end, wall-clock seconds."""

    families: tuple[str, ...]
    stop: Stop
    iterations: int
    nodes: int
    seconds: float


class SaturationStats(msgspec.Struct, frozen=True):
    """What saturation did. matches: rule → how often it matched; families: the same, added up.

    `deterministic` is false when the wall clock ended a phase: another run may find another e-graph.
    """

    phases: tuple[PhaseStats, ...]
    matches: Mapping[str, int]
    families: Mapping[str, int]
    nodes: int
    classes: int
    load_seconds: float
    read_seconds: float

    @property
    def deterministic(self) -> bool:
        return all(phase.stop is not Stop.TIME_LIMIT for phase in self.phases)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """A word on every phase that a limit ended."""
        return tuple(
            note(
                Kind.RESOURCE_EXCEEDED,
                STAGE,
                f"stopped at the {phase.stop.replace('_', ' ')}; the program is right, a better one may be missed"
                + (", and another run may differ" if phase.stop is Stop.TIME_LIMIT else ""),
                severity=Severity.WARNING,
                families=phase.families,
                nodes=phase.nodes,
                iterations=phase.iterations,
            )
            for phase in self.phases
            if phase.stop is not Stop.SATURATED
        )

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of it all."""
        return self.load_seconds + self.read_seconds + sum(phase.seconds for phase in self.phases)


def saturate(
    graph: Graph,
    rules: Sequence[Rule],
    exactness: Exactness = Exactness.ROUNDING,
    budget: Budget | None = None,
    phases: Sequence[Sequence[str]] = PHASES,
) -> tuple[EGraphView, SaturationStats]:
    """All that `rules` (those no less exact than `exactness`) make of a graph, and how it went.

    Each phase adds its families to those of the phases before and runs until nothing changes or the budget
    ends it; families that no phase names join the last. The result depends on the graph, the rules, the phases
    and the node and iteration budgets alone.

    Raises:
        EqsatError: UnsoundRule, when two rules share a name or contradict an analysis.
    """
    marks = {known.Computed: computed(graph), known.Output: graph.outputs}
    return saturate_terms(tiny_to_terms(graph), rules, exactness, budget, phases, marks)


def saturate_terms(
    terms: Sequence[tuple[str, App]],
    rules: Sequence[Rule],
    exactness: Exactness = Exactness.ROUNDING,
    budget: Budget | None = None,
    phases: Sequence[Sequence[str]] = PHASES,
    marks: Mapping[Analysis, Sequence[str]] | None = None,
) -> tuple[EGraphView, SaturationStats]:
    """The same for named terms of sort Buf; each may read those before it through variables of their names.

    marks: for an analysis that is given, the names of the terms for which it holds (None: every term is
    computed, and is an output).
    """
    names = [name for name, _ in terms]
    marks = {known.Computed: names, known.Output: names} if marks is None else marks
    budget = budget or Budget()
    chosen = [rule for rule in rules if rule.exactness <= exactness]
    start = time.perf_counter()
    egraph = EGraph(_program(chosen, phases))
    indices = {name: index for index, (name, _) in enumerate(terms)}
    egraph.execute(load_text(indices[name], term, indices) for name, term in terms)
    for analysis, marked in marks.items():
        egraph.execute(mark_text(analysis, indices[name]) for name in marked)
    loaded = time.perf_counter()
    matches: Counter[str] = Counter({rule.name: 0 for rule in chosen})
    deadline = None if budget.seconds is None else start + budget.seconds
    stats = [
        _run_phase(egraph, ruleset, families, budget, deadline, matches)
        for ruleset, families in _schedule(chosen, phases)
    ]
    saturated = time.perf_counter()
    view = read_view(egraph.rows(), terms, [rule.name for rule in chosen])
    by_family = {rule.family: 0 for rule in chosen}
    for rule in chosen:
        by_family[rule.family] += matches[rule.name]
    return view, SaturationStats(
        phases=tuple(stats),
        matches=dict(matches),
        families=by_family,
        nodes=sum(map(len, view.classes.values())),
        classes=len(view.classes),
        load_seconds=loaded - start,
        read_seconds=time.perf_counter() - saturated,
    )


def program_text(rules: Sequence[Rule], phases: Sequence[Sequence[str]] = PHASES) -> str:
    """The whole egglog program of a set of rules, for people."""
    return "\n".join(_program(rules, phases))


def _program(rules: Sequence[Rule], phases: Sequence[Sequence[str]]) -> list[str]:
    families = list(dict.fromkeys(rule.family for rule in rules))
    lines = schema(CTORS.values(), known.ANALYSES, CALL)
    lines += [f"(ruleset {name})" for name in (ANALYSES, *map(_ruleset, families))]
    lines += [clause_text(clause) for clause in known.CLAUSES]
    lines += [rule_text(rule, _ruleset(rule.family)) for rule in rules]
    lines += [
        f"(unstable-combined-ruleset {name} {' '.join(map(_ruleset, joined))})"
        for name, joined in _schedule(rules, phases)
    ]
    return lines


def _schedule(rules: Sequence[Rule], phases: Sequence[Sequence[str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Per phase a ruleset's name and the families in it; a phase that adds no family is left out."""
    present = list(dict.fromkeys(rule.family for rule in rules))
    named = {family for phase in phases for family in phase}
    others = [family for family in present if family not in named]
    joined: list[str] = []
    for position, phase in enumerate(phases):
        last = position == len(phases) - 1
        news = [family for family in (*phase, *(others if last else ())) if family in present]
        if news:
            joined += news
            yield f"phase{position}", tuple(joined)


def _ruleset(family: str) -> str:
    return f"family_{family}"


def _run_phase(
    egraph: EGraph,
    ruleset: str,
    families: tuple[str, ...],
    budget: Budget,
    deadline: float | None,
    matches: Counter[str],
) -> PhaseStats:
    """Iterate one phase; `matches` grows by what its rules matched."""
    start = time.perf_counter()
    nodes = _nodes(egraph)
    stop = Stop.ITERATION_LIMIT
    iterations = 0
    while iterations < budget.iterations:
        if nodes > budget.nodes:
            stop = Stop.NODE_LIMIT
            break
        if deadline is not None and time.perf_counter() > deadline:
            stop = Stop.TIME_LIMIT
            break
        found, changed = egraph.iterate(ANALYSES, ruleset)
        iterations += 1
        for name in matches.keys() & found.keys():
            matches[name] += found[name]
        nodes = _nodes(egraph)
        if not changed:
            stop = Stop.SATURATED
            break
    return PhaseStats(families, stop, iterations, nodes, time.perf_counter() - start)


def _nodes(egraph: EGraph) -> int:
    """E-nodes: rows of the constructors' tables."""
    sizes = egraph.sizes()
    return sum(sizes.get(name, 0) for name in CTORS)
