"""The language and its rules as egglog text.

Beside each constructor `C` stands a relation `W_C`: `(W_C args rule)` says that `rule` built that node. A traced rule
`r` has a relation `M_r` as well, with all that its left side bound and its right side uses at each match. Relations
`P_…` hold the matches of parts of left sides (`eqsat.egraph.query_text` says when).
`(T i)` is the buffer of the i-th loaded term. Pattern variables are printed with `?`, so that they never meet
a global. The global `$call` is the one Python function that primitives go through.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from eqsat.egraph.query_text import Body, Table, quoted, tables
from ir.term.language import Analysis, App, Ctor, Fact, Imm, Pure, Sort, Store, Term, Var, is_op, sort_of, subterms
from ir.term.rule import Clause, Exists, Rule

SORTS = (Sort.BUF, Sort.PRO, Sort.ACC, Sort.EPI)
LOADED = "T"
ANALYSES = "analyses"
_VARIABLE = re.compile(r"\?\w+")


def witness(ctor: str) -> str:
    """The relation that names the rules behind the nodes of a constructor."""
    return f"W_{ctor}"


def match_table(rule: str) -> str:
    """The relation that holds a traced rule's matches."""
    return f"M_{rule}"


def recorded(rule: Rule) -> tuple[Term, ...]:
    """What a row of `match_table` holds, in order: the variables that are bound, then the texts that are."""
    body, _ = _written(rule, Marks())
    return (*rule.bound.values(), *body.texts)


def trace_text(rule: Rule) -> str:
    """The declaration of a traced rule's table."""
    return f"(relation {match_table(rule.name)} ({' '.join(sort_of(each).value for each in recorded(rule))}))"


def schema(ctors: Iterable[Ctor], analyses: Iterable[Analysis], call: str) -> list[str]:
    """The declarations; `call` is a Python expression for the function behind every primitive."""
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
    lines.append(f"(let $call (py-eval {quoted(call)} (py-dict) (py-dict)))")
    return lines


class Marks(NamedTuple):
    """The facts that hold for what a rule builds: for the ops that are parts of its result, for the buffers that this
    reads, and for those behind them."""

    parts: Sequence[Analysis] = ()
    stored: Sequence[Analysis] = ()
    behind: Sequence[Analysis] = ()


def rule_text(rule: Rule, ruleset: str, marks: Marks | None = None, traced: bool = False) -> str:
    """One egglog rule: match and compute in the body; build, union, mark and witness in the head.

    traced: each match is kept.
    """
    body, head = _written(rule, marks or Marks())
    if traced:
        held = [body.text(each) for each in (*rule.bound.values(), *body.texts)]
        head.append(f"({match_table(rule.name)} {' '.join(held)})")
    return f'(rule ({" ".join(body.facts)}) ({" ".join(head)}) :ruleset {ruleset} :name "{rule.name}")'


def joined_tables(query: Rule | Clause) -> tuple[Table, ...]:
    """The tables that a rule or a clause joins, each after those that it joins itself."""
    return tuple(each for table in tables(query.patterns, query.when).values() for each in table.whole)


def table_text(table: Table) -> Iterator[str]:
    """The declaration of a table, and the rule that fills it, in a ruleset of its own."""
    yield table.declaration
    yield f"(ruleset {filling(table.name)})"
    yield f"(rule ({' '.join(table.body)}) ({table.row}) :ruleset {filling(table.name)})"


def filling(table: str) -> str:
    """The ruleset that fills a table."""
    return f"fill_{table}"


def pattern_text(rule: Rule) -> str:
    """What a rule's patterns and the facts that it asks for are, as a query that finds no less than these; rules that
    ask for the same have the same."""
    body = Body(rule.lhs, tables(rule.patterns, rule.when), comparing=False)
    for condition in rule.when:
        if isinstance(condition, Exists | Fact):
            body.require(condition)
    names: dict[str, str] = {}
    return _VARIABLE.sub(lambda found: names.setdefault(found[0], f"?x{len(names)}"), " ".join(body.facts))


def _written(rule: Rule, marks: Marks) -> tuple[Body, list[str]]:
    """The body of a rule, and the actions of its head."""
    body = Body(rule.lhs, tables(rule.patterns, rule.when))
    for condition in rule.when:
        body.require(condition)
    body.part_from_the_root(_computes_numbers(rule.rhs))
    head: list[str] = []
    result = _build(rule.rhs, body, head, rule.name, marks)
    return body, [*head, f"(union ?root {result})"]


def _computes_numbers(term: Term) -> bool:
    """Whether a number in a term is worked out: of such numbers there is no end."""
    return any(
        isinstance(each, App) and each.ctor is Imm and not isinstance(each.field("value"), str | Var)
        for each in subterms(term)
    )


def clause_text(clause: Clause) -> str:
    """One egglog rule that derives a fact."""
    body = Body(clause.match, tables(clause.patterns, clause.when))
    for condition in clause.when:
        body.require(condition)
    known = f"({clause.fact.analysis.name} {body.text(clause.fact.term)})"
    action = known if clause.value is None else f"(set {known} {body.text(clause.value)})"
    return f"(rule ({' '.join(body.facts)}) ({action}) :ruleset {ANALYSES})"


def _build(term: Term, body: Body, head: list[str], rule: str, marks: Marks, whole: Collection[Term] = ()) -> str:
    """Write the actions that build `term`, children first, each with its witness; the text that names it.

    whole: values that are all that some buffer holds, and no parts.
    """
    if not isinstance(term, App):
        return body.text(term)
    whole = (*whole, held_value(term)) if term.ctor is Store else whole
    behind = marks._replace(stored=marks.behind)
    built = [_build(arg, body, head, rule, behind if _is_store(arg) else marks, whole) for arg in term.args]
    for name, arg in zip(built, term.args, strict=True):
        if isinstance(arg, App) and arg not in whole:
            held = marks.stored if _is_store(arg) else marks.parts if is_op(arg) else ()
            head.extend(f"({mark.name} {name})" for mark in held if mark.over is arg.ctor.result)
    args = " ".join(built)
    name = f"built{len(head)}"
    head.append(f"(let {name} ({term.ctor.name} {args}))")
    head.append(f'({witness(term.ctor.name)} {args} "{rule}")')
    return name


def _is_store(term: Term) -> bool:
    return isinstance(term, App) and term.ctor is Store


def held_value(store: App) -> Term:
    """The value that a buffer holds."""
    value = store.field("value")
    return value.field("x") if isinstance(value, App) and value.ctor is Pure else value
