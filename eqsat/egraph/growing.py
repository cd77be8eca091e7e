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
from functools import cached_property

from eqsat.egraph.egglog_text import ANALYSES, clause_text, filling, joined_tables, pattern_text, table_text
from eqsat.egraph.engine import EGraph
from eqsat.egraph.program import PhaseRules, combined, ruleset_of, told, told_in
from eqsat.egraph.query_text import Table
from ir.term.language import App, Fact, Prim, Term, subterms
from ir.term.rule import Clause, Rule, condition_terms
from rules import analyses as known


class _Part:
    """A rule or a clause that waits, and the names of the constructors and analyses that it reads."""

    def __init__(self, query: Rule | Clause) -> None:
        self.query = query
        self.needs = _read((*query.patterns, *condition_terms(query.when)))

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables that it joins, and theirs, by name."""
        return {table.name: table for table in joined_tables(self.query)}

    def is_named(self, names: Collection[str]) -> bool:
        """Whether it is a rule of one of these names."""
        return isinstance(self.query, Rule) and self.query.name in names

    def belongs_to(self, families: Collection[str]) -> bool:
        """Whether it is of a phase with these families; clauses are of every one."""
        return isinstance(self.query, Clause) or self.query.family in families


@dataclass
class _Watch:
    """The ruleset that looks for some patterns, the rules that wait for them, and whether they have been found."""

    ruleset: str
    rules: list[Rule] = field(default_factory=list)
    found: bool = False


class GrowingProgram:
    """The program of the rules that may come to match in an e-graph."""

    def __init__(self, egraph: EGraph, phases: Sequence[PhaseRules], rules: Iterable[Rule], traced: bool) -> None:
        """egraph: it has the declarations of the phases. traced: every match is kept."""
        self._egraph, self._phases, self._traced = egraph, phases, traced
        self._clauses = list(map(_Part, known.CLAUSES))
        self._rules = list(map(_Part, rules))
        self._all = [*self._clauses, *self._rules]
        self._asleep: list[_Part] = []
        self._filled: set[str] = set()
        self._watches: dict[str, _Watch] = {}
        self._place, self._known, self._combinations = -1, ANALYSES, dict[str, str]()
        self._tables: dict[str, Table] = {}
        self._rows = self._told_of = frozenset[str]()
        self._told: dict[str, list[Rule]] = {}
        self._rulesets = {family: ruleset_of(family) for phase in phases for family in phase.families}

    def iterate(self, place: int) -> tuple[Mapping[str, int], bool]:
        """Learn all that can be known, then run the rules of a phase once: the matches of each, and whether anything
        changed."""
        if place != self._place:
            self._enter(place)
        learnt = self._learn()
        self._look()
        matches, changed = self._egraph.run(f"(run {self._ruleset})")
        return matches, learnt or changed

    @property
    def rules(self) -> Iterator[Rule]:
        """Those that run, or may come to run, in any phase."""
        for several in self._told.values():
            yield from several
        for part in self._rules:
            assert isinstance(part.query, Rule)
            yield part.query
        for watch in self._watches.values():
            yield from watch.rules

    def rest(self, names: Collection[str]) -> None:
        """Run rules no more. A ruleset cannot lose a rule: the others of its family are told again in a new one, where
        they find their old matches once more, and nothing else new."""
        self._all, self._asleep, self._rules = (
            [part for part in parts if not part.is_named(names)] for parts in (self._all, self._asleep, self._rules)
        )
        awake = [part for part in self._all if part not in self._asleep and part.belongs_to(self._families)]
        self._tables = {name: table for part in awake for name, table in part.tables.items()}
        self._rows = frozenset()
        for watch in self._watches.values():
            watch.rules = [rule for rule in watch.rules if rule.name not in names]
        for family, rules in self._told.items():
            left = [rule for rule in rules if rule.name not in names]
            if len(left) < len(rules):
                self._told[family] = left
                self._rulesets[family] += "_"
                self._egraph.execute([f"(ruleset {self._rulesets[family]})"])
                self._egraph.execute(told_in(rule, self._rulesets[family], self._traced) for rule in left)

    @property
    def _families(self) -> Sequence[str]:
        """Those of the phase at hand."""
        return self._phases[self._place].families if self._place >= 0 else ()

    @property
    def _ruleset(self) -> str:
        """All rules of the phase at hand."""
        phase = self._phases[self._place]
        if all(self._rulesets[family] == ruleset_of(family) for family in phase.families):
            return phase.ruleset
        return self._combined([self._rulesets[family] for family in phase.families])

    def _enter(self, place: int) -> None:
        """A phase fills the tables that its own rules join, and its own rules are watched for."""
        self._place, families = place, self._phases[place].families
        self._asleep = [each for each in self._all if each.belongs_to(families)]
        self._tables = {}
        self._rows = self._told_of = frozenset()
        for watch in self._watches.values():
            watch.rules = [rule for rule in watch.rules if rule.family in families]

    def _learn(self) -> bool:
        """Derive facts and fill tables while any can be; whether there were any."""
        changed, rows = False, self._egraph.filled()
        while True:
            if rows != self._rows:
                self._tell_known(rows)
            changed |= self._egraph.run(f"(saturate (run {self._known}))")[1]
            self._rows, rows = rows, self._egraph.filled()
            if rows == self._rows:
                return changed

    def _tell_known(self, rows: frozenset[str]) -> None:
        """Tell of the tables and the clauses that can come to match, as far as somebody may read them."""
        for part in [each for each in self._asleep if each.needs <= rows]:
            self._tables |= part.tables
            self._asleep.remove(part)
        for name, table in self._tables.items():
            if name not in self._filled and _sources(table) <= rows:
                self._egraph.execute(table_text(table))
                self._filled.add(name)
        for part in self._ready(self._clauses, rows):
            assert isinstance(part.query, Clause)
            self._egraph.execute([clause_text(part.query)])
        self._known = self._combined([ANALYSES, *(filling(name) for name in self._tables if name in self._filled)])

    def _look(self) -> None:
        """Declare the rules that can come to match: those without a watch, and those whose watch has found a match."""
        if self._rows != self._told_of:
            self._told_of = self._rows
            self._tell_rules()
        watched = [watch for watch in self._watches.values() if watch.rules]
        if watched:
            matches, _ = self._egraph.run(f"(run {self._combined(watch.ruleset for watch in watched)})")
            for watch in watched:
                watch.found = matches.get(watch.ruleset, 0) > 0
                while watch.found and watch.rules:
                    self._tell(watch.rules.pop(0))

    def _tell_rules(self) -> None:
        for part in self._ready(self._rules, self._rows):
            assert isinstance(part.query, Rule)
            watch = self._watch_of(part.query) if _builds(part.query) else None
            if watch is None or watch.found:
                self._tell(part.query)
            else:
                watch.rules.append(part.query)

    def _ready(self, parts: list[_Part], rows: frozenset[str]) -> list[_Part]:
        """Take out those parts that have waited, in this phase, for these tables alone."""
        families = self._families
        possible = [each for each in parts if each.needs <= rows and each.belongs_to(families)]
        ready = [each for each in possible if each.tables.keys() <= rows]
        parts[:] = [each for each in parts if each not in ready]
        return ready

    def _tell(self, rule: Rule) -> None:
        """Tell of a rule, in the ruleset that its family has by now."""
        self._told.setdefault(rule.family, []).append(rule)
        *tables, _ = told(rule, self._traced)
        self._egraph.execute([*tables, told_in(rule, self._rulesets[rule.family], self._traced)])

    def _watch_of(self, rule: Rule) -> _Watch:
        """The watch for a rule's patterns, which it shares with the rules that ask for the same."""
        patterns = pattern_text(rule)
        if patterns not in self._watches:
            watch = self._watches[patterns] = _Watch(f"Watch{len(self._watches)}")
            told = f'(rule ({patterns}) () :ruleset {watch.ruleset} :name "{watch.ruleset}")'
            self._egraph.execute([f"(ruleset {watch.ruleset})", told])
        return self._watches[patterns]

    def _combined(self, rulesets: Iterable[str]) -> str:
        """The name of a ruleset that is made of others."""
        text = " ".join(rulesets)
        if text not in self._combinations:
            self._combinations[text] = f"combined{len(self._combinations)}"
            self._egraph.execute([combined(self._combinations[text], text)])
        return self._combinations[text]


def _sources(table: Table) -> frozenset[str]:
    """The names of what a table is filled from."""
    return _read((*table.columns, *table.facts)) | {each.name for each in table.inner}


def _read(terms: Iterable[Term]) -> frozenset[str]:
    """The constructors and the analyses in terms."""
    inside = [each for term in terms for each in subterms(term)]
    return frozenset(
        each.ctor.name if isinstance(each, App) else each.analysis.name
        for each in inside
        if isinstance(each, App | Fact)
    )


def _builds(rule: Rule) -> bool:
    """Whether a rule computes a text or builds a node, which its watch does not."""
    terms = (rule.rhs, *condition_terms(rule.when))
    return isinstance(rule.rhs, App) or any(isinstance(part, Prim) for term in terms for part in subterms(term))
