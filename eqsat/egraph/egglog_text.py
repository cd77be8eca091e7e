"""The language and its rules as egglog text.

Each constructor `C` has a relation `W_C`: `(W_C args rule)` says that `rule` built that node. A traced rule `r` has a
relation `M_r` with, for each match, all that its left side bound and its right side uses. Relations `P_…` hold the
matches of parts of left sides (see `eqsat.egraph.query_text`). `(T i)` is the buffer of the i-th loaded term. Pattern
variables begin with `?`, so that they cannot clash with a global. All primitives are called through the global `$call`,
a Python function.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from eqsat.egraph.query_text import Body, Table, quote, tables
from ir.term.language import (
    Analysis,
    App,
    Ctor,
    Fact,
    Imm,
    Prim,
    Pure,
    Sort,
    Store,
    Term,
    Var,
    is_op,
    sort_of,
    subterms,
)
from ir.term.rule import KEPT_RULES, Clause, Condition, Exists, Rule

SORTS = (Sort.BUF, Sort.PRO, Sort.ACC, Sort.EPI)
LOADED = "T"
ANALYSES = "analyses"
_VARIABLE = re.compile(r"\?\w+")


def witness(ctor: str) -> str:
    """The relation that names the rules that built nodes of a constructor."""
    return f"W_{ctor}"


def match_table(rule: str) -> str:
    """The relation with the matches of a traced rule."""
    return f"M_{rule}"


def trace_terms(rule: Rule) -> tuple[Term, ...]:
    """The content of a row of `match_table`, in order: bound variables, then bound texts."""
    body, _ = _write_rule(rule, Marks())
    return (*rule.bound.values(), *body.texts)


def trace_text(rule: Rule) -> str:
    """The declaration of a traced rule's table."""
    return f"(relation {match_table(rule.name)} ({' '.join(sort_of(term).value for term in trace_terms(rule))}))"


def schema(ctors: Iterable[Ctor], analyses: Iterable[Analysis], call: str) -> list[str]:
    """The declarations; `call` is a Python expression for the function that all primitives go through."""
    lines = [f"(sort {sort.value})" for sort in SORTS]
    for ctor in ctors:
        args = " ".join(sort.value for sort in ctor.args)
        lines.append(f"(constructor {ctor.name} ({args}) {ctor.result.value})")
        lines.append(f"(relation {witness(ctor.name)} ({args} String))")
    for analysis in analyses:
        if analysis.valued:
            lines.append(f"(function {analysis.name} ({analysis.over.value}) String :no-merge)")
        else:
            lines.append(f"(relation {analysis.name} ({analysis.over.value}))")
    lines.append(f"(function {LOADED} (i64) {Sort.BUF.value} :no-merge)")
    lines.append(f"(let $call (py-eval {quote(call)} (py-dict) (py-dict)))")
    return lines


class Marks(NamedTuple):
    """The facts that hold for the nodes that a rule builds. parts: for ops that are parts of the result. stored: for
    buffers that the result reads. behind: for buffers that the stored values read."""

    parts: Sequence[Analysis] = ()
    stored: Sequence[Analysis] = ()
    behind: Sequence[Analysis] = ()


@lru_cache(KEPT_RULES)
def rule_text(rule: Rule, ruleset: str, marks: Marks | None = None, traced: bool = False) -> str:
    """One egglog rule: the body matches and computes, the head builds, unites, marks and witnesses.

    traced: the head also keeps the match.
    """
    body, head = _write_rule(rule, marks or Marks())
    if traced:
        bound = [body.text(term) for term in (*rule.bound.values(), *body.texts)]
        head.append(f"({match_table(rule.name)} {' '.join(bound)})")
    return f'(rule ({" ".join(body.facts)}) ({" ".join(head)}) :ruleset {ruleset} :name "{rule.name}")'


@lru_cache(KEPT_RULES)
def joined_tables(query: Rule | Clause) -> tuple[Table, ...]:
    """The tables that a rule or a clause joins; a table comes after those that it joins."""
    return tuple(inner for table in tables(query.patterns, query.when).values() for inner in table.whole)


def table_text(table: Table) -> Iterator[str]:
    """The declaration of a table, and the rule that fills it, in its own ruleset."""
    yield table.declaration
    yield f"(ruleset {filling_ruleset(table.name)})"
    yield f"(rule ({' '.join(table.body)}) ({table.row}) :ruleset {filling_ruleset(table.name)})"


def filling_ruleset(table: str) -> str:
    """The ruleset that fills a table."""
    return f"fill_{table}"


@lru_cache(KEPT_RULES)
def pattern_text(rule: Rule) -> str:
    """A query for a rule's patterns and facts. It may find more than the rule, never less. Rules with equal patterns
    and facts have equal queries."""
    body = Body(rule.lhs, tables(rule.patterns, rule.when), comparing=False)
    for condition in rule.when:
        if isinstance(condition, Exists | Fact) or _is_check(condition):
            body.require(condition)
    names: dict[str, str] = {}
    return _VARIABLE.sub(lambda match: names.setdefault(match[0], f"?x{len(names)}"), " ".join(body.facts))


def _is_check(condition: Condition) -> bool:
    """Whether a condition is a primitive of what the patterns bind."""
    return isinstance(condition, Prim) and all(isinstance(arg, str | Var) for arg in condition.args)


def _write_rule(rule: Rule, marks: Marks) -> tuple[Body, list[str]]:
    """The body of a rule, and the actions of its head. Writes computed texts and built terms."""
    body = Body(rule.lhs, tables(rule.patterns, rule.when))
    for condition in rule.when:
        body.require(condition)
    body.require_acyclic(_computes_numbers(rule.rhs))
    head = _Head(body, rule.name, marks)
    result = head.build(rule.rhs)
    return body, [*head.actions, f"(union ?root {result})"]


def _computes_numbers(term: Term) -> bool:
    """Whether a number in a term is computed. Such a rule could build new numbers without end."""
    return any(
        isinstance(part, App) and part.ctor is Imm and not isinstance(part.field("value"), str | Var)
        for part in subterms(term)
    )


@lru_cache(KEPT_RULES)
def clause_text(clause: Clause) -> str:
    """One egglog rule that derives a fact."""
    body = Body(clause.match, tables(clause.patterns, clause.when))
    for condition in clause.when:
        body.require(condition)
    fact = f"({clause.fact.analysis.name} {body.text(clause.fact.term)})"
    action = fact if clause.value is None else f"(set {fact} {body.text(clause.value)})"
    return f"(rule ({' '.join(body.facts)}) ({action}) :ruleset {ANALYSES})"


class _Head:
    """The actions of a rule's head, which build its right side. A term that occurs several times is built once."""

    def __init__(self, body: Body, rule: str, marks: Marks) -> None:
        self._body, self._rule, self._marks = body, rule, marks
        self._built: dict[App, str] = {}
        self.actions: dict[str, None] = {}

    def build(self, term: Term, marks: Marks | None = None, whole: Collection[Term] = ()) -> str:
        """Write the actions that build `term`, operands first, each with its witness. Returns the text that names it.

        marks: of the operands. whole: values that are the whole content of a buffer, so they are no parts.
        """
        if not isinstance(term, App):
            return self._body.text(term)
        marks = marks or self._marks
        whole = (*whole, held_value(term)) if term.ctor is Store else whole
        behind_stored = marks._replace(stored=marks.behind)
        names = [self.build(arg, behind_stored if _is_store(arg) else marks, whole) for arg in term.args]
        for name, arg in zip(names, term.args, strict=True):
            if isinstance(arg, App) and arg not in whole:
                marks_of_arg = marks.stored if _is_store(arg) else marks.parts if is_op(arg) else ()
                self._act(f"({mark.name} {name})" for mark in marks_of_arg if mark.over is arg.ctor.result)
        if term not in self._built:
            self._built[term] = f"built{len(self._built)}"
            args = " ".join(names)
            self._act([f"(let {self._built[term]} ({term.ctor.name} {args}))"])
            self._act([f'({witness(term.ctor.name)} {args} "{self._rule}")'])
        return self._built[term]

    def _act(self, actions: Iterable[str]) -> None:
        self.actions |= dict.fromkeys(actions)


def _is_store(term: Term) -> bool:
    return isinstance(term, App) and term.ctor is Store


def held_value(store: App) -> Term:
    """The value that a buffer holds."""
    value = store.field("value")
    return value.field("x") if isinstance(value, App) and value.ctor is Pure else value
