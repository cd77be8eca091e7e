"""The language, its rules and its terms as egglog text.

Beside each constructor `C` stands a relation `W_C`: `(W_C args rule)` says that `rule` built that node.
`(T i)` is the buffer of the i-th loaded term. Pattern variables are printed with `?`, so that they never meet
a global. The global `$call` is the one Python function that primitives go through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ir.rule import Clause, Condition, Equal, Rule
from ir.term import Analysis, App, Ctor, Fact, Prim, Pure, Sort, Term, Var, is_op, sort_of, subterms

SORTS = (Sort.BUF, Sort.PRO, Sort.ACC, Sort.EPI)
LOADED = "T"
ANALYSES = "analyses"
SEPARATOR = "\x1f"
SEPARATOR_TEXT = f'"{SEPARATOR}"'
"""Stands between a primitive's path and its arguments, which cross to Python as one text: each text is pickled."""


def witness(ctor: str) -> str:
    """The relation that names the rules behind the nodes of a constructor."""
    return f"W_{ctor}"


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


def rule_text(rule: Rule, ruleset: str, parts: Sequence[Analysis] = ()) -> str:
    """One egglog rule: match and compute in the body; build, union and witness in the head.

    parts: what holds for the ops that this rule builds as parts of its result.
    """
    body = _Body()
    body.facts.append(f"(= ?root {body.text(rule.lhs)})")
    for condition in rule.when:
        body.require(condition)
    head: list[str] = []
    result = _build(rule.rhs, body, head, rule.name, parts)
    actions = " ".join([*head, f"(union ?root {result})"])
    return f'(rule ({" ".join(body.facts)}) ({actions}) :ruleset {ruleset} :name "{rule.name}")'


def clause_text(clause: Clause) -> str:
    """One egglog rule that derives a fact."""
    body = _Body()
    body.facts.append(f"(= ?root {body.text(clause.match)})")
    for condition in clause.when:
        body.require(condition)
    about = "?root" if clause.fact.term == clause.match else body.text(clause.fact.term)
    known = f"({clause.fact.analysis.name} {about})"
    action = known if clause.value is None else f"(set {known} {body.text(clause.value)})"
    return f"(rule ({' '.join(body.facts)}) ({action}) :ruleset {ANALYSES})"


def load_text(index: int, term: App, indices: Mapping[str, int], parts: Sequence[Analysis] = ()) -> Iterator[str]:
    """`term` becomes the buffer number `index`; its variables are buffers loaded before; `parts` hold for the ops
    below the one that gives its value."""
    yield f"(set ({LOADED} {index}) {_ground(term, indices)})"
    value = term.args[0]
    if isinstance(value, App) and value.ctor is Pure:
        value = value.args[0]
    for each in subterms(term):
        if is_op(each) and each != value:
            yield from (f"({part.name} {_ground(each, indices)})" for part in parts if each.ctor.result is part.over)


def mark_text(analysis: Analysis, index: int) -> str:
    """The fact, given from outside, that `analysis` holds for the buffer number `index`."""
    return f"({analysis.name} ({LOADED} {index}))"


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
    """The body of a rule while it is written: each primitive and each fact is computed once, and bound."""

    def __init__(self) -> None:
        self.facts: list[str] = []
        self._bound: dict[Term, str] = {}

    def require(self, condition: Condition) -> None:
        match condition:
            case Prim():
                self.text(condition)
            case Equal():
                self.facts.append(f"(= {self.text(condition.left)} {self.text(condition.right)})")
            case Fact() if condition.analysis.valued:
                self.text(condition)
            case Fact():
                self.facts.append(f"({condition.analysis.name} {self.text(condition.term)})")

    def text(self, term: Term) -> str:
        match term:
            case App():
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

    def _bind(self, term: Prim | Fact) -> str:
        if isinstance(term, Fact):
            value = f"({term.analysis.name} {self.text(term.term)})"
        else:
            parts = [quoted(term.fn.path)]
            for arg in term.args:
                parts += [SEPARATOR_TEXT, self._as_text(arg)]
            value = f"(py-to-string (py-call $call (py-from-string (+ {' '.join(parts)}))))"
        name = f"?text{len(self._bound)}_"
        self.facts.append(f"(= {name} {value})")
        if isinstance(term, Prim):
            self.facts.append(f'(!= {name} "")')
        return name

    def _as_text(self, arg: Term) -> str:
        text = self.text(arg)
        return text if sort_of(arg) is Sort.STR else f"(to-string {text})"

    def _all(self, terms: Sequence[Term]) -> str:
        return " ".join(map(self.text, terms))


def _build(term: Term, body: _Body, head: list[str], rule: str, parts: Sequence[Analysis]) -> str:
    """Write the actions that build `term`, children first, each with its witness; the text that names it."""
    if not isinstance(term, App):
        return body.text(term)
    built = [_build(arg, body, head, rule, parts) for arg in term.args]
    for name, arg in zip(built, term.args, strict=True):
        head.extend(f"({part.name} {name})" for part in parts if is_op(arg) and arg.ctor.result is part.over)
    args = " ".join(built)
    name = f"built{len(head)}"
    head.append(f"(let {name} ({term.ctor.name} {args}))")
    head.append(f'({witness(term.ctor.name)} {args} "{rule}")')
    return name
