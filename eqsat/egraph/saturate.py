"""Equality saturation: load a Tiny graph, run the rules phase by phase under a budget, read the e-graph."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from eqsat.egraph.egglog_text import ANALYSES, clause_text, load_text, mark_text, rule_text, schema
from eqsat.egraph.engine import CALL, EGraph
from eqsat.egraph.inlining import inlining
from eqsat.egraph.read import read_view
from eqsat.egraph.tiny_to_term import tiny_to_terms
from eqsat.egraph.view import EGraphView
from eqsat.options import Budget
from ir.diagnostics import Diagnostic, Kind, Severity, note
from ir.rule import Exactness, Rule
from ir.term import CTORS, Analysis, App, EView, PView, subterms
from ir.tiny import Graph
from rules import PASSING, PHASES
from rules import analyses as known
from rules.primitives import PIECEWISE
from rules.reachable import reachable

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
    """What saturation did. matches: rule → how often it matched; families: the same, added up; piecewise: movements
    whose map is too long to be composed with others.
    """

    phases: tuple[PhaseStats, ...]
    matches: Mapping[str, int]
    families: Mapping[str, int]
    nodes: int
    classes: int
    load_seconds: float
    read_seconds: float
    piecewise: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """A word on every phase that a limit ended, and on every movement that is stored."""
        return self._limits + tuple(
            note(
                Kind.EXCESSIVE_PIECEWISE,
                STAGE,
                f"this movement and those before it make a map of more than {PIECEWISE} floors: its result is stored",
                at=name,
            )
            for name in self.piecewise
        )

    @property
    def _limits(self) -> tuple[Diagnostic, ...]:
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

    Each phase adds its families to those of the phases before, but for `rules.PASSING`, and runs until nothing
    changes or the budget ends it; families that no phase names join the last. The result depends on the graph, the
    rules, the phases and the node and iteration budgets alone.

    Raises:
        EqsatError: UnsoundRule, when two rules share a name or contradict an analysis.
    """
    budget = budget or Budget()
    decided = inlining(graph, budget.copies)
    marks = {known.Computed: decided.computed, known.Inlined: decided.inlined, known.Output: graph.outputs}
    view, stats = saturate_terms(tiny_to_terms(graph), rules, exactness, budget, phases, marks)
    return view, msgspec.structs.replace(stats, piecewise=decided.piecewise)


def saturate_terms(
    terms: Sequence[tuple[str, App]],
    rules: Sequence[Rule],
    exactness: Exactness = Exactness.ROUNDING,
    budget: Budget | None = None,
    phases: Sequence[Sequence[str]] = PHASES,
    marks: Mapping[Analysis, Sequence[str]] | None = None,
) -> tuple[EGraphView, SaturationStats]:
    """The same for named terms of sort Buf; each may read those before it through variables of their names.

    marks: for an analysis that is given, the names of the terms for which it holds (None: all hold for every term).
    """
    names = [name for name, _ in terms]
    marks = dict.fromkeys((known.Computed, known.Inlined, known.Output), names) if marks is None else marks
    budget = budget or Budget()
    chosen = [rule for rule in rules if rule.exactness <= exactness]
    start = time.perf_counter()
    egraph = EGraph(_program(chosen, phases, reachable(chosen, [term for _, term in terms])))
    indices = {name: index for index, (name, _) in enumerate(terms)}
    for name, term in terms:
        egraph.execute(load_text(indices[name], term, indices, known.PARTS))
    for analysis, marked in marks.items():
        egraph.execute(mark_text(analysis, indices[name]) for name in marked)
    loaded = time.perf_counter()
    matches: Counter[str] = Counter({rule.name: 0 for rule in chosen})
    deadline = None if budget.seconds is None else start + budget.seconds
    schedule = list(_schedule(chosen, phases))
    nodes = budget.nodes_for(len(terms))
    shares = [nodes * (position + 2) // (len(schedule) + 1) for position in range(len(schedule))]
    stats = [
        _run_phase(egraph, phase, _Limits(share, budget.iterations_for(len(terms)), deadline), matches)
        for phase, share in zip(schedule, shares, strict=True)
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
    return "\n".join(_program(rules, phases, rules))


def _program(rules: Sequence[Rule], phases: Sequence[Sequence[str]], live: Sequence[Rule]) -> list[str]:
    """The schedule of all rules, and the text of those that may fire."""
    families = list(dict.fromkeys(rule.family for rule in rules))
    lines = schema(CTORS.values(), known.ANALYSES, CALL)
    lines += [f"(ruleset {name})" for name in (ANALYSES, *map(_ruleset, families))]
    lines += [clause_text(clause) for clause in known.CLAUSES]
    lines += [rule_text(rule, _ruleset(rule.family), known.PARTS if _creates(rule) else ()) for rule in live]
    lines += [
        f"(unstable-combined-ruleset {name} {' '.join(map(_ruleset, joined))})"
        for name, joined in _schedule(rules, phases)
    ]
    return lines


def _creates(rule: Rule) -> bool:
    """Whether it makes values that were not there, rather than move a view."""
    return not any(isinstance(each, App) and each.ctor in (PView, EView) for each in subterms(rule.lhs))


class _Phase(NamedTuple):
    """A ruleset's name and the families in it."""

    ruleset: str
    families: tuple[str, ...]


class _Limits(NamedTuple):
    """Where a phase ends: e-nodes, iterations, and a time of `time.perf_counter`."""

    nodes: int
    iterations: int
    deadline: float | None


def _schedule(rules: Sequence[Rule], phases: Sequence[Sequence[str]]) -> Iterator[_Phase]:
    """The phases; one that adds no family is left out."""
    present = list(dict.fromkeys(rule.family for rule in rules))
    named = {family for phase in phases for family in phase}
    others = [family for family in present if family not in named]
    joined: list[str] = []
    for position, phase in enumerate(phases):
        last = position == len(phases) - 1
        news = [family for family in (*phase, *(others if last else ())) if family in present]
        if news:
            joined = [family for family in joined if family not in PASSING] + news
            yield _Phase(f"phase{position}", tuple(joined))


def _ruleset(family: str) -> str:
    return f"family_{family}"


def _run_phase(egraph: EGraph, phase: _Phase, limits: _Limits, matches: Counter[str]) -> PhaseStats:
    """Iterate one phase; `matches` grows by what its rules matched."""
    start = time.perf_counter()
    nodes = _nodes(egraph)
    stop = Stop.ITERATION_LIMIT
    iterations = 0
    while iterations < limits.iterations:
        if nodes > limits.nodes:
            stop = Stop.NODE_LIMIT
            break
        if limits.deadline is not None and time.perf_counter() > limits.deadline:
            stop = Stop.TIME_LIMIT
            break
        found, changed = egraph.iterate(ANALYSES, phase.ruleset)
        iterations += 1
        for name in matches.keys() & found.keys():
            matches[name] += found[name]
        nodes = _nodes(egraph)
        if not changed:
            stop = Stop.SATURATED
            break
    return PhaseStats(phase.families, stop, iterations, nodes, time.perf_counter() - start)


def _nodes(egraph: EGraph) -> int:
    """E-nodes: rows of the constructors' tables."""
    sizes = egraph.sizes()
    return sum(sizes.get(name, 0) for name in CTORS)
