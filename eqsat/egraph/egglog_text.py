"""The language, its rules and its terms as egglog text.

Beside each constructor `C` stands a relation `W_C`: `(W_C args rule)` says that `rule` built that node. A traced rule
`r` has a relation `M_r` as well, with all that its left side bound and its conditions computed at each match.
`(T i)` is the buffer of the i-th loaded term. Pattern variables are printed with `?`, so that they never meet
a global. The global `$call` is the one Python function that primitives go through.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ir.rule import Clause, Condition, Equal, Exists, Rule
from ir.term import Analysis, App, Ctor, Fact, Prim, Pure, Sort, Store, Term, Var, is_op, sort_of, subterms

SORTS = (Sort.BUF, Sort.PRO, Sort.ACC, Sort.EPI)
LOADED = "T"
ANALYSES = "analyses"
SEPARATOR = "\x1f"
SEPARATOR_TEXT = f'"{SEPARATOR}"'
"""Stands between a primitive's path and its arguments, which cross to Python as one text: each text is pickled."""


def witness(ctor: str) -> str:
    """The relation that names the rules behind the nodes of a constructor."""
    return f"W_{ctor}"


def match_table(rule: str) -> str:
    """The relation that holds a traced rule's matches."""
    return f"M_{rule}"


def recorded(rule: Rule) -> tuple[Term, ...]:
    """What a row of `match_table` holds, in order: the variables that are bound, then every text that was computed."""
    body, _ = _written(rule, Marks())
    return (*rule.bound.values(), *body.computed)


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
        held = [body.text(each) for each in (*rule.bound.values(), *body.computed)]
        head.append(f"({match_table(rule.name)} {' '.join(held)})")
    return f'(rule ({" ".join(body.facts)}) ({" ".join(head)}) :ruleset {ruleset} :name "{rule.name}")'


def _written(rule: Rule, marks: Marks) -> tuple[_Body, list[str]]:
    """The body of a rule, and the actions of its head."""
    body = _Body(rule.lhs)
    for condition in rule.when:
        body.require(condition)
    body.part_from_the_root()
    head: list[str] = []
    result = _build(rule.rhs, body, head, rule.name, marks)
    return body, [*head, f"(union ?root {result})"]


def clause_text(clause: Clause) -> str:
    """One egglog rule that derives a fact."""
    body = _Body(clause.match)
    for condition in clause.when:
        body.require(condition)
    known = f"({clause.fact.analysis.name} {body.text(clause.fact.term)})"
    action = known if clause.value is None else f"(set {known} {body.text(clause.value)})"
    return f"(rule ({' '.join(body.facts)}) ({action}) :ruleset {ANALYSES})"


def load_text(index: int, term: App, indices: Mapping[str, int], parts: Sequence[Analysis] = ()) -> Iterator[str]:
    """`term` becomes the buffer number `index`; its variables are buffers loaded before; `parts` hold for the ops
    below the one that gives its value."""
    yield f"(set ({LOADED} {index}) {_ground(term, indices)})"
    for each in subterms(term):
        if is_op(each) and each != _held(term):
            yield from (f"({part.name} {_ground(each, indices)})" for part in parts if each.ctor.result is part.over)


def mark_text(analysis: Analysis, index: int, value: str = "") -> str:
    """The fact, given from outside, that `analysis` holds for the buffer number `index`, with `value` if it has one."""
    known = f"({analysis.name} ({LOADED} {index}))"
    return f"(set {known} {quoted(value)})" if analysis.valued else known


def quoted(text: str) -> str:
    """An egglog string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _ground(term: Term, indices: Mapping[str, int]) -> str:
    match term:
        case App():
            return f"({term.ctor.name} {' '.join(_ground(arg, indices) for arg in term.args)})"
        case Var():
            return f"({LOADED} {indices[term.name]})"
        case str():
            return quoted(term)
        case int():
            return str(term)
    raise TypeError(f"{term} is not ground")


class _Body:
    """The body of a rule while it is written: each primitive and each fact is computed once, and bound.

    Queries are joined in an order that knows the sizes of tables and no more, so that their text decides whether their
    time grows as the e-graph or as its square. A part that is written twice, or that something is asked of, is one
    part with a name. Texts that another pattern has in common with the first are compared when all else has matched.
    """

    def __init__(self, pattern: App) -> None:
        self._conditions: list[str] = []
        self._bound: dict[Term, str] = {}
        self._root = pattern
        self._named = {pattern: "?root"}
        self._apart: dict[App, dict[str, str]] = {}
        self._texts: set[str] = set()
        self._match(pattern)

    @property
    def facts(self) -> list[str]:
        """The pattern, its parts that something is asked of, and the conditions."""
        return [f"(= {name} {self._nested(each)})" for each, name in self._named.items()] + self._conditions

    @property
    def computed(self) -> tuple[Term, ...]:
        """The primitives and facts whose texts it binds."""
        return tuple(self._bound)

    def require(self, condition: Condition) -> None:
        match condition:
            case Prim():
                self.text(condition)
            case Equal():
                self._conditions.append(f"(= {self.text(condition.left)} {self.text(condition.right)})")
            case Exists(pattern):
                self._match(pattern)
                self.text(pattern)
            case Fact() if condition.analysis.valued:
                self.text(condition)
            case Fact():
                self._conditions.append(f"({condition.analysis.name} {self.text(condition.term)})")

    def part_from_the_root(self) -> None:
        """No operand is the value itself. Where x·7 = x, since x is 0, regrouping would find 7ⁿ for ever."""
        for arg in self._root.args:
            if isinstance(arg, App) and arg.ctor.result is self._root.ctor.result:
                self._conditions.append(f"(!= {self.text(arg)} ?root)")

    def text(self, term: Term) -> str:
        match term:
            case App():
                if term in self._apart:
                    return self._named.setdefault(term, f"?part{len(self._named)}")
                return f"({term.ctor.name} {self._all(term.args)})"
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

    def _nested(self, pattern: App) -> str:
        """The pattern, with names for those of its parts that have one."""
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

    def _match(self, pattern: App) -> None:
        """Write a pattern, which may have parts and variables in common with those before."""
        known = frozenset(self._texts)
        shared: dict[str, str] = {}
        waiting = [pattern]
        while waiting:
            each = waiting.pop()
            if each in self._apart:
                self.text(each)
                continue
            apart = self._apart[each] = {}
            for name in dict.fromkeys(arg.name for arg in each.args if isinstance(arg, Var) and arg.sort is Sort.STR):
                if name in known:
                    apart[name] = f"?{name}_{len(self._apart)}"
                    shared[apart[name]] = f"?{name}"
                self._texts.add(name)
            waiting.extend(arg for arg in reversed(each.args) if isinstance(arg, App))
        if shared:
            same = f"?same{len(self._conditions)}"
            for texts in (shared.values(), shared):
                self._conditions.append(f'(= {same} (+ {f" {SEPARATOR_TEXT} ".join(texts)} ""))')

    def _bind(self, term: Prim | Fact) -> str:
        if isinstance(term, Fact):
            value = f"({term.analysis.name} {self.text(term.term)})"
        else:
            parts = [quoted(term.fn.path)]
            for arg in term.args:
                parts += [SEPARATOR_TEXT, self._as_text(arg)]
            value = f"(py-to-string (py-call $call (py-from-string (+ {' '.join(parts)}))))"
        name = f"?text{len(self._bound)}_"
        self._conditions.append(f"(= {name} {value})")
        if isinstance(term, Prim):
            self._conditions.append(f'(!= {name} "")')
        return name

    def _as_text(self, arg: Term) -> str:
        text = self.text(arg)
        return text if sort_of(arg) is Sort.STR else f"(to-string {text})"

    def _all(self, terms: Sequence[Term]) -> str:
        return " ".join(map(self.text, terms))


def _build(term: Term, body: _Body, head: list[str], rule: str, marks: Marks, whole: Collection[Term] = ()) -> str:
    """Write the actions that build `term`, children first, each with its witness; the text that names it.

    whole: values that are all that some buffer holds, and no parts.
    """
    if not isinstance(term, App):
        return body.text(term)
    whole = (*whole, _held(term)) if term.ctor is Store else whole
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


def _held(store: App) -> Term:
    """The value that a buffer holds."""
    value = store.args[0]
    return value.args[0] if isinstance(value, App) and value.ctor is Pure else value
