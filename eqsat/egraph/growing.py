"""The egglog program of a saturation: rules, clauses and tables are declared one by one, as soon as they can match.

To declare a rule costs the engine as much as many searches for it, and most rules match nothing in most programs. A
rule, a clause or a table therefore waits until every table that it reads has rows. A rule that computes or builds
something waits longer: until its watch, which is the query of its patterns alone, finds a match. A rule that is
declared before it can match matches as if it had always been there.

Two mechanisms leave rules out, and each pays. Without `rules.reachable` saturation takes 10 % longer for attention,
6 % for a conv block and 12 % for Tensat's BERT; without watches 32 %, 27 % and 5 %; without either 65 %, 65 % and 20 %.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from eqsat.egraph.egglog_text import (
    ANALYSES,
    clause_text,
    filling_ruleset,
    joined_tables,
    pattern_text,
    table_text,
    trace_text,
)
from eqsat.egraph.engine import EGraph
from eqsat.egraph.program import PhaseRules, combine_rulesets, ruleset_of, write_rule
from eqsat.egraph.query_text import Table
from ir.term.language import App, Fact, Prim, Term, subterms
from ir.term.rule import KEPT_RULES, Clause, Rule, condition_terms
from rules import analyses as known


class _Part:
    """A rule or a clause that waits, and the names of the constructors and analyses that it reads."""

    def __init__(self, query: Rule | Clause) -> None:
        self.query = query
        self.needs = _names_read((*query.patterns, *condition_terms(query.when)))

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables that the rule or the clause joins, and the tables that those join, by name."""
        return {table.name: table for table in joined_tables(self.query)}

    def is_named(self, names: Collection[str]) -> bool:
        """Whether this is a rule of one of these names."""
        return isinstance(self.query, Rule) and self.query.name in names

    def belongs_to(self, families: Collection[str]) -> bool:
        """Whether a phase with these families has this rule; every phase has all clauses."""
        return isinstance(self.query, Clause) or self.query.family in families


_part_of = lru_cache(KEPT_RULES)(_Part)


@dataclass
class _Watch:
    """The ruleset that looks for some patterns, the rules that wait for a match, and whether there has been one."""

    ruleset: str
    rules: list[Rule] = field(default_factory=list)
    has_matched: bool = False


class GrowingProgram:
    """The program of the rules that may come to match in an e-graph."""

    def __init__(self, egraph: EGraph, phases: Sequence[PhaseRules], rules: Iterable[Rule], traced: bool) -> None:
        """egraph: it has the declarations of the phases. traced: every match is kept."""
        self._egraph, self._phases, self._traced = egraph, phases, traced
        self._clauses = list(map(_part_of, known.CLAUSES))
        self._rules = list(map(_part_of, rules))
        self._all = [*self._clauses, *self._rules]
        self._asleep: list[_Part] = []
        self._filled: set[str] = set()
        self._watches: dict[str, _Watch] = {}
        self._place, self._known, self._combinations = -1, ANALYSES, dict[tuple[str, ...], str]()
        self._tables: dict[str, Table] = {}
        self._rows = self._looked_at = frozenset[str]()
        self._declared: dict[str, list[Rule]] = {}
        self._rulesets = {family: ruleset_of(family) for phase in phases for family in phase.families}

    def iterate(self, place: int) -> tuple[Mapping[str, int], bool]:
        """Derive all facts, then run the rules of a phase once. Returns the matches by rule, and whether anything
        changed."""
        if place != self._place:
            self._enter(place)
        has_learnt = self._learn()
        self._look()
        matches, changed = self._egraph.run(f"(run {self._ruleset})")
        return matches, has_learnt or changed

    @property
    def rules(self) -> Iterator[Rule]:
        """The rules that run, or may come to run, in any phase."""
        for rules_of_family in self._declared.values():
            yield from rules_of_family
        for part in self._rules:
            assert isinstance(part.query, Rule)
            yield part.query
        for watch in self._watches.values():
            yield from watch.rules

    def rest(self, names: Collection[str]) -> None:
        """Run these rules no more. A ruleset cannot lose a rule: the other rules of the family are declared again in a
        new ruleset, where they find their old matches once more, and nothing else new."""
        self._all, self._asleep, self._rules = (
            [part for part in parts if not part.is_named(names)] for parts in (self._all, self._asleep, self._rules)
        )
        awake = [part for part in self._all if part not in self._asleep and part.belongs_to(self._families)]
        self._tables = {name: table for part in awake for name, table in part.tables.items()}
        self._rows = frozenset()
        for watch in self._watches.values():
            watch.rules = [rule for rule in watch.rules if rule.name not in names]
        for family, rules in self._declared.items():
            left = [rule for rule in rules if rule.name not in names]
            if len(left) < len(rules):
                self._declared[family] = left
                self._rulesets[family] += "_"
                self._egraph.execute([f"(ruleset {self._rulesets[family]})"])
                self._egraph.execute(write_rule(rule, self._rulesets[family], self._traced) for rule in left)

    @property
    def _families(self) -> Sequence[str]:
        """The families of the current phase."""
        return self._phases[self._place].families if self._place >= 0 else ()

    @property
    def _ruleset(self) -> str:
        """The ruleset of all rules of the current phase."""
        phase = self._phases[self._place]
        if all(self._rulesets[family] == ruleset_of(family) for family in phase.families):
            return phase.ruleset
        return self._combine([self._rulesets[family] for family in phase.families])

    def _enter(self, place: int) -> None:
        """Begin a phase: it fills only the tables that its own rules join, and watches only for its own rules."""
        self._place, families = place, self._phases[place].families
        self._asleep = [part for part in self._all if part.belongs_to(families)]
        self._tables = {}
        self._rows = self._looked_at = frozenset()
        for watch in self._watches.values():
            watch.rules = [rule for rule in watch.rules if rule.family in families]

    def _learn(self) -> bool:
        """Derive facts and fill tables until there are no more; whether there were any."""
        changed, rows = False, self._egraph.filled_tables()
        while True:
            if rows != self._rows:
                self._declare_known(rows)
            changed |= self._egraph.run(f"(saturate (run {self._known}))")[1]
            self._rows, rows = rows, self._egraph.filled_tables()
            if rows == self._rows:
                return changed

    def _declare_known(self, rows: frozenset[str]) -> None:
        """Declare the tables and the clauses that can come to match, as far as a rule of the phase may read them."""
        for part in [part for part in self._asleep if part.needs <= rows]:
            self._tables |= part.tables
            self._asleep.remove(part)
        for name, table in self._tables.items():
            if name not in self._filled and _sources(table) <= rows:
                self._egraph.execute(table_text(table))
                self._filled.add(name)
        for part in self._take_ready(self._clauses, rows):
            assert isinstance(part.query, Clause)
            self._egraph.execute([clause_text(part.query)])
        self._known = self._combine(
            [ANALYSES, *(filling_ruleset(name) for name in self._tables if name in self._filled)]
        )

    def _look(self) -> None:
        """Declare the rules that can come to match: rules without a watch, and rules whose watch has had a match."""
        if self._rows != self._looked_at:
            self._looked_at = self._rows
            self._declare_rules()
        watched = [watch for watch in self._watches.values() if watch.rules]
        if watched:
            matches, _ = self._egraph.run(f"(run {self._combine(watch.ruleset for watch in watched)})")
            for watch in watched:
                watch.has_matched = matches.get(watch.ruleset, 0) > 0
                while watch.has_matched and watch.rules:
                    self._declare(watch.rules.pop(0))

    def _declare_rules(self) -> None:
        """Declare the rules that no longer wait for tables, or let their watch look for them."""
        for part in self._take_ready(self._rules, self._rows):
            assert isinstance(part.query, Rule)
            watch = self._watch_of(part.query) if _builds(part.query) else None
            if watch is None or watch.has_matched:
                self._declare(part.query)
            else:
                watch.rules.append(part.query)

    def _take_ready(self, parts: list[_Part], rows: frozenset[str]) -> list[_Part]:
        """Take out the parts of the current phase for which these tables are enough."""
        families = self._families
        possible = [part for part in parts if part.needs <= rows and part.belongs_to(families)]
        ready = [part for part in possible if part.tables.keys() <= rows]
        parts[:] = [part for part in parts if part not in ready]
        return ready

    def _declare(self, rule: Rule) -> None:
        """Declare a rule in the present ruleset of its family."""
        self._declared.setdefault(rule.family, []).append(rule)
        if self._traced:
            self._egraph.execute([trace_text(rule)])
        self._egraph.execute([write_rule(rule, self._rulesets[rule.family], self._traced)])

    def _watch_of(self, rule: Rule) -> _Watch:
        """The watch for a rule's patterns. Rules with equal patterns share a watch."""
        patterns = pattern_text(rule)
        if patterns not in self._watches:
            watch = self._watches[patterns] = _Watch(f"Watch{len(self._watches)}")
            query = f'(rule ({patterns}) () :ruleset {watch.ruleset} :name "{watch.ruleset}")'
            self._egraph.execute([f"(ruleset {watch.ruleset})", query])
        return self._watches[patterns]

    def _combine(self, rulesets: Iterable[str]) -> str:
        """The name of a ruleset that consists of these rulesets."""
        names = tuple(rulesets)
        if names not in self._combinations:
            self._combinations[names] = f"combined{len(self._combinations)}"
            self._egraph.execute([combine_rulesets(self._combinations[names], names)])
        return self._combinations[names]


def _sources(table: Table) -> frozenset[str]:
    """The names of the tables from which a table is filled."""
    return _names_read((*table.columns, *table.facts)) | {inner.name for inner in table.inner}


def _names_read(terms: Iterable[Term]) -> frozenset[str]:
    """The names of the constructors and the analyses in terms."""
    parts = [part for term in terms for part in subterms(term)]
    return frozenset(
        part.ctor.name if isinstance(part, App) else part.analysis.name
        for part in parts
        if isinstance(part, App | Fact)
    )


def _builds(rule: Rule) -> bool:
    """Whether a rule computes a text or builds a node, as its watch does not."""
    terms = (rule.rhs, *condition_terms(rule.when))
    return isinstance(rule.rhs, App) or any(isinstance(part, Prim) for term in terms for part in subterms(term))
