"""A rule for people: equation, exactness, certificate, both sides, conditions, a glossary, and an example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from eqsat.explanation.notation import term_text
from eqsat.explanation.rule_example import example
from ir.term.language import App, Ctor, Fact, Prim, Sort, Term, Var, subterms
from ir.term.rule import Certificate, Exactness, Rule, condition_terms

WIDTH = 110
"""Characters. A longer term is written on several lines."""

_STANDS = {
    Certificate.PROVED: "both sides read the same at every point, whatever the maps, operations and operands",
    Certificate.EXACT: "compared in exact arithmetic on random instances",
    Certificate.SAMPLED: "compared in floating point on random instances",
}
_DIFFER = {
    Exactness.EXACT: "both sides are the same numbers",
    Exactness.REASSOCIATE: "the same sums and products, in another order or grouping",
    Exactness.ROUNDING: "rounded at other places, or computed wider",
    Exactness.RANGE: "may overflow or cancel where the left side does not",
}
_SORTS = {
    Sort.BUF: "tensor in memory",
    Sort.PRO: "value that a kernel can compute at any index",
    Sort.ACC: "accumulator",
    Sort.EPI: "value at the index that a kernel writes",
}
_FIELDS = {
    "map": "index map, [sizes] -> [coordinates]",
    "type": "type, as fp32[4,8]",
    "sizes": "sizes, as [3,3]; of a reduction: the sizes of the reduced axes, which are the last ones",
    "domain": "sizes, as [3,3]",
    "dtype": "dtype",
    "op": "op",
    "value": "number",
    "axis": "axis, from 0 on",
    "name": "name",
}


def rule_line(rule: Rule) -> str:
    """Name, family, level, certificate and equation on one line."""
    from rules.certificates import certificate

    return f"{rule.name:<50} {rule.family:<12} {rule.exactness!s:<11} {certificate(rule):<7}  {rule.equation}"


def rule_text(name: str) -> str:
    """The page of a rule. Raises EqsatError if no rule has the name."""
    from rules import rule_named

    return rule_page(rule_named(name))


def rule_page(rule: Rule) -> str:
    """The page of a rule, which may be a caller's own."""
    from rules.certificates import certificate

    stands = certificate(rule)
    facts = [
        ("family", [rule.family]),
        ("level", [f"{rule.exactness}: {_DIFFER[rule.exactness]}"]),
        ("certificate", [f"{stands}: {_STANDS[stands]}"]),
        ("from", _wrap_term(rule.lhs)),
        ("to", _wrap_term(rule.rhs)),
        ("when", [str(condition) for condition in rule.when]),
    ]
    lines = [rule.name, f"  {rule.equation}", "", *_label_lines(facts), "", "where", *_glossary(rule)]
    instance = example(rule)
    if instance is not None:
        lines += ["", "example", *_equation(*instance), "", "before", *_tree(instance[0]), "after", *_tree(instance[1])]
    return "\n".join(lines)


def _equation(before: Term, after: Term) -> list[str]:
    """An example in mathematical notation; with marks if the sides look the same without them."""
    sides = term_text(before), term_text(after)
    if sides[0] == sides[1]:
        sides = term_text(before, marked=True), term_text(after, marked=True)
    return [f"  {sides[0]}", f"  becomes {sides[1]}"]


def _label_lines(facts: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """The lines of each fact; its first line carries the label."""
    for label, fact_lines in facts:
        for place, line in enumerate(fact_lines):
            yield f"{label if place == 0 else '':<12} {line}"


def _wrap_term(term: Term, indent: str = "") -> list[str]:
    """A term on one line if it fits, else one line per argument."""
    text = f"{indent}{term}"
    if len(text) <= WIDTH or not isinstance(term, App | Prim):
        return [text]
    name = term.ctor.name if isinstance(term, App) else term.fn.name
    lines = [f"{indent}{name}("]
    for arg in term.args:
        below = _wrap_term(arg, f"{indent}  ")
        lines += [*below[:-1], f"{below[-1]},"]
    return [*lines, f"{indent})"]


def _glossary(rule: Rule) -> list[str]:
    """The meaning of each variable, then of each constructor, fact and primitive, in order of appearance."""
    terms = [part for side in (*rule.patterns, rule.rhs, *condition_terms(rule.when)) for part in subterms(side)]
    meanings = {var.name: _meaning_of(var, rule.patterns) for var in rule.bound.values()}
    grouped: dict[str, list[str]] = {}
    for name, meaning in meanings.items():
        grouped.setdefault(meaning, []).append(name)
    glossary = {", ".join(names): meaning for meaning, names in grouped.items()}
    glossary |= {_signature(term.ctor): term.ctor.doc for term in terms if isinstance(term, App)}
    analyses = [term.analysis for term in terms if isinstance(term, Fact)]
    glossary |= {a.name: a.doc.replace("(given", "(decided before any rule runs") for a in analyses}
    primitives = [term.fn for term in terms if isinstance(term, Prim)]
    glossary |= {f"{fn.name}({', '.join(fn.parameters)})": fn.meaning for fn in primitives}
    lines = [f"  {name}: {meaning}" if meaning else f"  {name}" for name, meaning in glossary.items()]
    return [part for line in lines for part in wrap(line, WIDTH, subsequent_indent="      ")]


def _signature(ctor: Ctor) -> str:
    return f"{ctor.name}({', '.join(ctor.places)})"


def _meaning_of(var: Var, patterns: Iterable[App]) -> str:
    """The meaning of a variable, by its sort, or by the field that it fills."""
    if var.sort in _SORTS:
        return _SORTS[var.sort]
    apps = [term for pattern in patterns for term in subterms(pattern) if isinstance(term, App)]
    fields = (field for app in apps for field in app.fields.items())
    return _FIELDS[next(name for name, arg in fields if arg == var)]


def _tree(term: Term, depth: int = 1) -> list[str]:
    """One line per constructor with its texts and numbers; the operands are indented below it."""
    if not isinstance(term, App):
        return [f"{'  ' * depth}{term}"]
    texts = [str(arg) for arg in term.args if not isinstance(arg, App)]
    head = f"{'  ' * depth}{term.ctor.name}" + (f"  {'  '.join(texts)}" if texts else "")
    return [head, *(line for arg in term.args if isinstance(arg, App) for line in _tree(arg, depth + 1))]
