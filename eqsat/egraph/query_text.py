"""The queries of rules as egglog text: patterns, facts, and texts that are computed.

The engine joins a query's tables in an order that knows their sizes and no more, and takes together whatever shares a
variable. What is written decides whether time grows as the e-graph or as its square:

- A part that is written twice, or that something is asked of, is one part with a name.
- Texts tell little (a dtype, an identity map). A text that stands at a second place has a name of its own there, and
  the two are compared when all else has matched.
- Facts are joined with the part that they speak of, before that meets others: where a rule asks for several terms, or
  asks something of the operands of one, each of these fills a table, and the rule joins the tables. A table does the
  same with the operands of its own pattern. Rules that ask for the same share a table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ir.term.language import App, Fact, Prim, Sort, Term, Var, sort_of, substitute, subterms
from ir.term.rule import Condition, Equal, Exists, condition_terms

SEPARATOR = "\x1f"
"""Stands between the steps of a call and its arguments, which cross to Python as one text: each text is pickled."""


def quoted(text: str) -> str:
    """An egglog string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


class Table(NamedTuple):
    """The matches of a pattern for which some facts hold.

    columns: what a row holds, as the rule calls it: the pattern and its parts, its variables, texts that facts have.
    declaration, body, row: of the relation and of the rule that fills it, which joins the tables `inner`.
    """

    name: str
    facts: tuple[Fact, ...]
    columns: tuple[Term, ...]
    declaration: str
    body: tuple[str, ...]
    row: str
    inner: tuple[Table, ...]

    @property
    def whole(self) -> Iterator[Table]:
        """The tables that this one joins, and theirs, before those that join them; itself last."""
        for each in self.inner:
            yield from each.whole
        yield self


def tables(patterns: Sequence[App], conditions: Iterable[Condition]) -> Mapping[App, Table]:
    """The tables that a query joins, by the parts of its patterns that they stand for."""
    asked = [each for term in condition_terms(conditions) for each in subterms(term) if isinstance(each, Fact)]
    terms = {each.term for each in asked}
    parts = patterns if len(patterns) > 1 else _operands(patterns[0], terms)
    return _tables_of(parts, dict.fromkeys(asked))


def _tables_of(parts: Iterable[App], asked: Collection[Fact]) -> Mapping[App, Table]:
    return {part: _table(part, asked) for part in parts}


def _operands(pattern: App, asked: set[Term]) -> list[App]:
    """The operands of which something is asked: where that is one alone, those of its own."""
    found = [arg for arg in pattern.args if isinstance(arg, App) and not asked.isdisjoint(subterms(arg))]
    if len(found) == 1:
        return _operands(found[0], asked) or found
    return list(dict.fromkeys(found))


def _table(pattern: App, asked: Collection[Fact]) -> Table:
    """The table of a pattern and of what is asked of its parts; named by what it holds, whatever a rule calls that."""
    inside = dict.fromkeys(subterms(pattern))
    variables = [each for each in inside if isinstance(each, Var)]
    plain = {each.name: Var(f"x{number}", each.sort) for number, each in enumerate(variables)}
    facts = sorted((each for each in asked if each.term in inside), key=lambda each: str(substitute(each, plain)))
    parts = [each for each in inside if isinstance(each, App)]
    columns: tuple[Term, ...] = (*parts, *variables, *(each for each in facts if each.analysis.valued))
    root = substitute(pattern, plain)
    assert isinstance(root, App)
    known = [Fact(fact.analysis, substitute(fact.term, plain)) for fact in facts]
    inner = _tables_of(_operands(root, {each.term for each in known}), known)
    body = Body(root, inner)
    for fact in known:
        body.require(fact)
    row = " ".join(body.text(substitute(each, plain)) for each in columns)
    name = f"P_{hashlib.sha256(' '.join((*body.facts, row)).encode()).hexdigest()[:12]}"
    sorts = " ".join(sort_of(each).value for each in columns)
    return Table(
        name=name,
        facts=tuple(facts),
        columns=columns,
        declaration=f"(relation {name} ({sorts}))",
        body=tuple(body.facts),
        row=f"({name} {row})",
        inner=tuple(inner.values()),
    )


class Body:
    """The body of a rule while it is written: a text that is used is bound, once, whatever it takes."""

    def __init__(self, pattern: App, held: Mapping[App, Table] | None = None, comparing: bool = True) -> None:
        """held: the parts of patterns that are read from tables. comparing: equal texts are asked for."""
        self._root, self._tables, self._comparing = pattern, held or {}, comparing
        self._named: dict[Term, str] = {pattern: "?root"}
        self._apart: dict[App, Mapping[str, str]] = {}
        self._texts: dict[str, int] = {}
        self._rows: list[str] = []
        self._known: set[Fact] = set()
        self._bound: dict[Term, str] = {}
        self._conditions: list[str] = []
        self._guards: list[Prim] = []
        self._match(pattern)

    @property
    def facts(self) -> list[str]:
        """The rows of tables, or the pattern and its parts that something is asked of; then the conditions."""
        parts = [f"(= {name} {self._nested(each)})" for each, name in self._named.items() if each in self._apart]
        guards = [f'(!= {self._call(self._guards)} "")'] if self._guards else []
        return self._rows + parts + self._conditions + guards

    @property
    def texts(self) -> tuple[Term, ...]:
        """The primitives and facts whose texts it binds."""
        return tuple(self._bound)

    def require(self, condition: Condition) -> None:
        match condition:
            case Prim():
                self._guards.append(condition)
            case Equal(left, right):
                self._compare({self.text(left): self.text(right)})
            case Exists(pattern):
                self._match(pattern)
                self.text(pattern)
            case Fact() if condition.analysis.valued:
                self.text(condition)
            case Fact() if condition not in self._known:
                self._conditions.append(f"({condition.analysis.name} {self.text(condition.term)})")

    def part_from_the_root(self, descending: bool = False) -> None:
        """No part of the pattern is the value itself, and no operand of a part is that part. Where x·7 = x, since x is
        0, regrouping would find 7ⁿ for ever. `descending`: operands of parts are older than these. Where x = y·3 and
        y = x·(1/3), as rounded, regrouping would go round for ever."""
        self._part(self._root, (), descending)

    def _part(self, pattern: App, above: tuple[App, ...], descending: bool) -> None:
        """Part the operands of a pattern from those `above` them; variables of the root may be the root."""
        around = (*above, pattern)
        for arg in dict.fromkeys(arg for arg in pattern.args if sort_of(arg) not in (Sort.STR, Sort.I64)):
            alike = [each for each in around if each.ctor.result is sort_of(arg)]
            if isinstance(arg, App) or above:
                self._conditions.extend(f"(!= {self.text(arg)} {self.text(each)})" for each in alike)
            if isinstance(arg, App):
                self._part(arg, around, descending)
            elif above and descending and pattern.ctor.result is sort_of(arg):
                name = self.text(arg)
                self._conditions.append(f"(= {name} (ordering-min {name} {self.text(pattern)}))")

    def text(self, term: Term) -> str:
        match term:
            case App():
                if term in self._apart or term in self._named:
                    return self._name(term)
                return f"({term.ctor.name} {' '.join(map(self.text, term.args))})"
            case Var():
                return f"?{term.name}"
            case str():
                return quoted(term)
            case int():
                return str(term)
            case Prim() | Fact():
                if term not in self._bound:
                    self._bound[term] = self._bind(term)
                return self._bound[term]

    def _name(self, part: App) -> str:
        return self._named.setdefault(part, f"?part{len(self._named)}")

    def _match(self, pattern: App) -> None:
        """Write a pattern, which may have parts and variables in common with those before."""
        shared: dict[str, str] = {}
        waiting = [pattern]
        while waiting:
            each = waiting.pop()
            if each in self._tables:
                self._read(self._tables[each], shared)
            elif each in self._apart:
                self._name(each)
            else:
                names = dict.fromkeys(arg.name for arg in each.args if isinstance(arg, Var) and arg.sort is Sort.STR)
                self._apart[each] = {name: self._text_apart(name, shared) for name in names}
                waiting.extend(arg for arg in reversed(each.args) if isinstance(arg, App))
        self._compare(shared)

    def _read(self, table: Table, shared: dict[str, str]) -> None:
        """Write a row of a table in the place of its pattern, texts apart."""
        row = []
        for column in table.columns:
            match column:
                case App():
                    row.append(self._name(column))
                case Var(name, Sort.STR):
                    row.append(self._text_apart(name, shared))
                case Fact() if column not in self._bound:
                    row.append(self._bound.setdefault(column, self._unbound))
                case Fact():
                    row.append(f"{self._bound[column]}{len(self._rows)}")
                case _:
                    row.append(self.text(column))
        self._known.update(table.facts)
        self._rows.append(f"({table.name} {' '.join(row)})")

    def _text_apart(self, name: str, shared: dict[str, str]) -> str:
        """What a text is called here; noted among the `shared` where it has been met before."""
        met = self._texts[name] = self._texts.get(name, -1) + 1
        if not met:
            return f"?{name}"
        shared[f"?{name}_{met}"] = f"?{name}"
        return f"?{name}_{met}"

    def _compare(self, pairs: Mapping[str, str]) -> None:
        """Require texts to be the same, without a join on them."""
        if pairs and self._comparing:
            same = f"?same{len(self._conditions)}"
            for texts in (pairs.values(), pairs):
                self._conditions.append(f'(= {same} (+ {_spaced(texts)} ""))')

    def _nested(self, pattern: Term) -> str:
        """The pattern, with names for those of its parts that have one."""
        assert isinstance(pattern, App)
        apart = self._apart[pattern]
        args = [
            self._named.get(arg) or self._nested(arg)
            if isinstance(arg, App)
            else apart.get(arg.name) or self.text(arg)
            if isinstance(arg, Var)
            else self.text(arg)
            for arg in pattern.args
        ]
        return f"({pattern.ctor.name} {' '.join(args)})"

    @property
    def _unbound(self) -> str:
        return f"?text{len(self._bound)}_"

    def _bind(self, term: Prim | Fact) -> str:
        if isinstance(term, Fact):
            value = f"({term.analysis.name} {self.text(term.term)})"
        else:
            value = self._call([*self._guards, term])
            self._guards.clear()
        name = self._unbound
        self._conditions.append(f"(= {name} {value})")
        if isinstance(term, Prim):
            self._conditions.append(f'(!= {name} "")')
        return name

    def _call(self, wanted: Sequence[Prim]) -> str:
        """What the last of some primitives answers, if all of them do and those within them: computed in one call, for
        to cross to Python costs more than most of them. Its text is a list of steps, then what they are given."""
        steps: dict[Prim, str] = {}
        given: dict[str, int] = {}

        def place(term: Term) -> str:
            if isinstance(term, Prim) and term not in self._bound:
                if term not in steps:
                    operands = [place(arg) for arg in term.args]
                    steps[term] = " ".join((term.fn.path, *operands))
                return f"s{[*steps].index(term)}"
            return f"{given.setdefault(self._as_text(term), len(given))}"

        for each in wanted:
            place(each)
        texts = _spaced([quoted(";".join(steps.values())), *given])
        return f"(py-to-string (py-call $call (py-from-string (+ {texts}))))"

    def _as_text(self, arg: Term) -> str:
        text = self.text(arg)
        return text if sort_of(arg) is Sort.STR else f"(to-string {text})"


def _spaced(texts: Collection[str]) -> str:
    """egglog arguments whose sum is these texts, with separators between them."""
    return f" {quoted(SEPARATOR)} ".join(texts)
