"""The queries of rules as egglog text: patterns, facts, and computed texts.

The engine chooses a join order from the sizes of tables alone, and joins parts that share a variable. So the form of
the query decides whether time grows linearly or quadratically with the e-graph:

- A part of a pattern that occurs twice, or that a condition refers to, is written once and has a name.
- Texts select little (a dtype, an identity map). Where a text occurs a second time, it gets another name there; the two
  are compared after all else has matched.
- Facts are joined with their part before this part is joined with others. So if a rule has several patterns, or
  conditions on operands of its pattern, each of these parts fills a table, and the rule joins the tables. A table does
  the same with the operands of its own pattern. Rules with equal parts share a table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ir.term.language import App, Fact, Prim, Sort, Term, Var, sort_of, substitute, subterms
from ir.term.rule import KEPT_RULES, Condition, Equal, Exists, condition_terms

SEPARATOR = "\x1f"
"""Stands between the steps of a call and its arguments, which cross to Python in one text: each text is pickled."""


def quote(text: str) -> str:
    """An egglog string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


class Table(NamedTuple):
    """The matches of a pattern for which some facts hold.

    columns: the content of a row, in the rule's names: the pattern and its parts, its variables, texts of facts.
    declaration: of the relation. body, row: of the rule that fills the relation. inner: tables that this rule joins.
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
        """This table and all tables that it joins, directly or not; a table comes after those that it joins."""
        for table in self.inner:
            yield from table.whole
        yield self


@lru_cache(KEPT_RULES)
def tables(patterns: tuple[App, ...], conditions: tuple[Condition, ...]) -> Mapping[App, Table]:
    """The tables that a query joins, by the parts of its patterns that they replace."""
    asked = [fact for term in condition_terms(conditions) for fact in subterms(term) if isinstance(fact, Fact)]
    terms = {fact.term for fact in asked}
    parts = patterns if len(patterns) > 1 else _operands(patterns[0], terms)
    return _tables_of(parts, dict.fromkeys(asked))


def _tables_of(parts: Iterable[App], asked: Collection[Fact]) -> Mapping[App, Table]:
    return {part: _table(part, asked) for part in parts}


def _operands(pattern: App, asked: set[Term]) -> list[App]:
    """The operands that contain a term of `asked`. A single operand is replaced by its own operands that do, if any."""
    operands = [arg for arg in pattern.args if isinstance(arg, App) and not asked.isdisjoint(subterms(arg))]
    if len(operands) == 1:
        return _operands(operands[0], asked) or operands
    return list(dict.fromkeys(operands))


def _table(pattern: App, asked: Collection[Fact]) -> Table:
    """The table of a pattern with the facts on its parts. Its name depends on its content, not on a rule's names."""
    inside = dict.fromkeys(subterms(pattern))
    variables = [part for part in inside if isinstance(part, Var)]
    plain = {var.name: Var(f"x{number}", var.sort) for number, var in enumerate(variables)}
    facts = sorted((fact for fact in asked if fact.term in inside), key=lambda fact: str(substitute(fact, plain)))
    parts = [part for part in inside if isinstance(part, App)]
    columns: tuple[Term, ...] = (*parts, *variables, *(fact for fact in facts if fact.analysis.valued))
    root = substitute(pattern, plain)
    assert isinstance(root, App)
    known = [Fact(fact.analysis, substitute(fact.term, plain)) for fact in facts]
    inner = _tables_of(_operands(root, {fact.term for fact in known}), known)
    body = Body(root, inner)
    for fact in known:
        body.require(fact)
    row = " ".join(body.text(substitute(column, plain)) for column in columns)
    name = f"P_{hashlib.sha256(' '.join((*body.facts, row)).encode()).hexdigest()[:12]}"
    sorts = " ".join(sort_of(column).value for column in columns)
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
    """The body of a rule while it is being written. A computed text is bound once, at its first use."""

    def __init__(self, pattern: App, part_tables: Mapping[App, Table] | None = None, comparing: bool = True) -> None:
        """part_tables: parts of patterns that are read from tables. comparing: also compare texts that occur twice."""
        self._root, self._tables, self._comparing = pattern, part_tables or {}, comparing
        self._named: dict[Term, str] = {pattern: "?root"}
        self._text_names: dict[App, Mapping[str, str]] = {}
        self._texts: dict[str, int] = {}
        self._rows: list[str] = []
        self._known: set[Fact] = set()
        self._bound: dict[Term, str] = {}
        self._conditions: list[str] = []
        self._guards: list[Prim] = []
        self._match(pattern)

    @property
    def facts(self) -> list[str]:
        """Rows of tables, or the pattern and its named parts; then the conditions."""
        parts = [f"(= {name} {self._nest(part)})" for part, name in self._named.items() if part in self._text_names]
        guards = [f'(!= {self._call(self._guards)} "")'] if self._guards else []
        return self._rows + parts + self._conditions + guards

    @property
    def texts(self) -> tuple[Term, ...]:
        """The primitives and facts whose texts are bound."""
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

    def require_acyclic(self, descending: bool = False) -> None:
        """Require that no part of the pattern is the root's class, and no operand of a part is that part's class.
        Otherwise regrouping could go on for ever: if x = 0, then x·7 = x, and a rule would build every 7ⁿ.

        descending: also require that operands of parts are older than the parts. If x = y·3 and, as rounded,
        y = x·(1/3), regrouping would be endless."""
        self._separate(self._root, (), descending)

    def _separate(self, pattern: App, above: tuple[App, ...], descending: bool) -> None:
        """Require operands of a pattern to differ from the pattern and from `above`; not variables of the root."""
        around = (*above, pattern)
        for arg in dict.fromkeys(arg for arg in pattern.args if sort_of(arg) not in (Sort.STR, Sort.I64)):
            alike = [outer for outer in around if outer.ctor.result is sort_of(arg)]
            if isinstance(arg, App) or above:
                self._conditions.extend(f"(!= {self.text(arg)} {self.text(outer)})" for outer in alike)
            if isinstance(arg, App):
                self._separate(arg, around, descending)
            elif above and descending and pattern.ctor.result is sort_of(arg):
                name = self.text(arg)
                self._conditions.append(f"(= {name} (ordering-min {name} {self.text(pattern)}))")

    def text(self, term: Term) -> str:
        match term:
            case App():
                if term in self._text_names or term in self._named:
                    return self._name(term)
                return f"({term.ctor.name} {' '.join(map(self.text, term.args))})"
            case Var():
                return f"?{term.name}"
            case str():
                return quote(term)
            case int():
                return str(term)
            case Prim() | Fact():
                if term not in self._bound:
                    self._bound[term] = self._bind(term)
                return self._bound[term]

    def _name(self, part: App) -> str:
        return self._named.setdefault(part, f"?part{len(self._named)}")

    def _match(self, pattern: App) -> None:
        """Add a pattern, which may share parts and variables with earlier ones."""
        shared: dict[str, str] = {}
        waiting = [pattern]
        while waiting:
            part = waiting.pop()
            if part in self._tables:
                self._read(self._tables[part], shared)
            elif part in self._text_names:
                self._name(part)
            else:
                names = dict.fromkeys(arg.name for arg in part.args if isinstance(arg, Var) and arg.sort is Sort.STR)
                self._text_names[part] = {name: self._name_of_text(name, shared) for name in names}
                waiting.extend(arg for arg in reversed(part.args) if isinstance(arg, App))
        self._compare(shared)

    def _read(self, table: Table, shared: dict[str, str]) -> None:
        """Add a row of a table in the place of its pattern, with own names for texts that occurred before."""
        row = []
        for column in table.columns:
            match column:
                case App():
                    row.append(self._name(column))
                case Var(name, Sort.STR):
                    row.append(self._name_of_text(name, shared))
                case Fact() if column not in self._bound:
                    row.append(self._bound.setdefault(column, self._new_text))
                case Fact():
                    row.append(f"{self._bound[column]}{len(self._rows)}")
                case _:
                    row.append(self.text(column))
        self._known.update(table.facts)
        self._rows.append(f"({table.name} {' '.join(row)})")

    def _name_of_text(self, name: str, shared: dict[str, str]) -> str:
        """The name of a text variable here; also added to `shared` if the variable occurred before."""
        earlier = self._texts[name] = self._texts.get(name, -1) + 1
        if not earlier:
            return f"?{name}"
        shared[f"?{name}_{earlier}"] = f"?{name}"
        return f"?{name}_{earlier}"

    def _compare(self, pairs: Mapping[str, str]) -> None:
        """Require pairs of texts to be equal, by a comparison and not by a join."""
        if pairs and self._comparing:
            same = f"?same{len(self._conditions)}"
            for texts in (pairs.values(), pairs):
                self._conditions.append(f"(= {same} (+ {_separate_texts(texts)}))")

    def _nest(self, pattern: Term) -> str:
        """The pattern, with names in place of its parts that have one."""
        assert isinstance(pattern, App)
        names = self._text_names[pattern]
        args = [
            self._named.get(arg) or self._nest(arg)
            if isinstance(arg, App)
            else names.get(arg.name) or self.text(arg)
            if isinstance(arg, Var)
            else self.text(arg)
            for arg in pattern.args
        ]
        return f"({pattern.ctor.name} {' '.join(args)})"

    @property
    def _new_text(self) -> str:
        return f"?text{len(self._bound)}_"

    def _bind(self, term: Prim | Fact) -> str:
        if isinstance(term, Fact):
            value = f"({term.analysis.name} {self.text(term.term)})"
        else:
            if term.fn.sign:
                first = next(iter(term.arguments.values()))
                self._conditions.append(f"(!= (count-matches {self.text(first)} {quote(term.fn.sign)}) 0)")
            value = self._call([*self._guards, term])
            self._guards.clear()
        name = self._new_text
        self._conditions.append(f"(= {name} {value})")
        if isinstance(term, Prim):
            self._conditions.append(f'(!= {name} "")')
        return name

    def _call(self, wanted: Sequence[Prim]) -> str:
        """A call that returns the text of the last primitive, or "" if a primitive or one of its operands has none. One
        call computes all, because a call to Python costs more than most primitives. Its text: steps, then arguments."""
        steps: dict[Prim, str] = {}
        given: dict[str, int] = {}

        def place(term: Term) -> str:
            if isinstance(term, Prim) and term not in self._bound:
                if term not in steps:
                    operands = [place(arg) for arg in term.args]
                    steps[term] = " ".join((term.fn.path, *operands))
                return f"s{[*steps].index(term)}"
            return f"{given.setdefault(self._as_text(term), len(given))}"

        for primitive in wanted:
            place(primitive)
        texts = _separate_texts([quote(";".join(steps.values())), *given])
        return f"(py-to-string (py-call $call (py-from-string (+ {texts}))))"

    def _as_text(self, arg: Term) -> str:
        text = self.text(arg)
        return text if sort_of(arg) is Sort.STR else f"(to-string {text})"


def _separate_texts(texts: Collection[str]) -> str:
    """The sum of these texts, with separators between them, as arguments of egglog's `+`, which needs two. Literals
    that are neighbours are one literal: the engine takes longer for more arguments."""
    first, *others = texts
    terms = [first]
    for text in others:
        if _is_literal(terms[-1]):
            terms[-1] = f'{terms[-1][:-1]}{SEPARATOR}"'
        else:
            terms.append(quote(SEPARATOR))
        if _is_literal(text):
            terms[-1] = f"{terms[-1][:-1]}{text[1:]}"
        else:
            terms.append(text)
    return " ".join(terms if len(terms) > 1 else [*terms, quote("")])


def _is_literal(text: str) -> bool:
    return text.startswith('"')
