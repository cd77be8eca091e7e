"""A rule for people: equation, level, certificate, both sides, conditions, what its words mean, and what it does to an
example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from eqsat.explanation.notation import written
from eqsat.explanation.rule_example import example
from ir.term.language import App, Ctor, Fact, Prim, Sort, Term, Var, subterms
from ir.term.rule import Certificate, Exactness, Rule, condition_terms

WIDTH = 110
"""Terms longer than a line are laid out over several."""

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
    "sizes": "sizes, as [3,3]; of a reduction those of the axes that it reduces, the last ones",
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
    """All about the rule of that name. Raises EqsatError for a name that is none."""
    from rules import rule_named

    return rule_page(rule_named(name))


def rule_page(rule: Rule) -> str:
    """All about a rule, which may be a caller's own."""
    from rules.certificates import certificate

    stands = certificate(rule)
    facts = [
        ("family", [rule.family]),
        ("level", [f"{rule.exactness}: {_DIFFER[rule.exactness]}"]),
        ("certificate", [f"{stands}: {_STANDS[stands]}"]),
        ("from", _laid_out(rule.lhs)),
        ("to", _laid_out(rule.rhs)),
        ("when", [str(each) for each in rule.when]),
    ]
    lines = [rule.name, f"  {rule.equation}", "", *_labelled(facts), "", "where", *_glossary(rule)]
    found = example(rule)
    if found is not None:
        lines += ["", "example", *_equation(*found), "", "before", *_tree(found[0]), "after", *_tree(found[1])]
    return "\n".join(lines)


def _equation(before: Term, after: Term) -> list[str]:
    """An instance in mathematics; with marks where nothing else tells the sides apart."""
    sides = written(before), written(after)
    if sides[0] == sides[1]:
        sides = written(before, marked=True), written(after, marked=True)
    return [f"  {sides[0]}", f"  becomes {sides[1]}"]


def _labelled(facts: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """Labels before what they say, further lines below the first."""
    for label, said in facts:
        for place, line in enumerate(said):
            yield f"{label if place == 0 else '':<12} {line}"


def _laid_out(term: Term, indent: str = "") -> list[str]:
    """A term on one line, or, where that is too long, its arguments below one another."""
    text = f"{indent}{term}"
    if len(text) <= WIDTH or not isinstance(term, App | Prim):
        return [text]
    name = term.ctor.name if isinstance(term, App) else term.fn.name
    lines = [f"{indent}{name}("]
    for arg in term.args:
        below = _laid_out(arg, f"{indent}  ")
        lines += [*below[:-1], f"{below[-1]},"]
    return [*lines, f"{indent})"]


def _glossary(rule: Rule) -> list[str]:
    """What each variable stands for, then what each constructor, fact and primitive means, as they come."""
    terms = [each for side in (*rule.patterns, rule.rhs, *condition_terms(rule.when)) for each in subterms(side)]
    meanings = {var.name: _stands_for(var, rule.patterns) for var in rule.bound.values()}
    grouped: dict[str, list[str]] = {}
    for name, meaning in meanings.items():
        grouped.setdefault(meaning, []).append(name)
    told = {", ".join(names): meaning for meaning, names in grouped.items()}
    told |= {_signature(each.ctor): each.ctor.doc for each in terms if isinstance(each, App)}
    facts = [each.analysis for each in terms if isinstance(each, Fact)]
    told |= {each.name: each.doc.replace("(given", "(decided before any rule runs") for each in facts}
    called = [each.fn for each in terms if isinstance(each, Prim)]
    told |= {f"{each.name}({', '.join(each.parameters)})": each.meaning for each in called}
    lines = [f"  {name}: {meaning}" if meaning else f"  {name}" for name, meaning in told.items()]
    return [part for line in lines for part in wrap(line, WIDTH, subsequent_indent="      ")]


def _signature(ctor: Ctor) -> str:
    return f"{ctor.name}({', '.join(ctor.places)})"


def _stands_for(var: Var, patterns: Iterable[App]) -> str:
    """What a variable stands for, by its sort, or by the field in which it stands."""
    if var.sort in _SORTS:
        return _SORTS[var.sort]
    apps = [each for pattern in patterns for each in subterms(pattern) if isinstance(each, App)]
    fields = (field for app in apps for field in app.fields.items())
    return _FIELDS[next(name for name, arg in fields if arg == var)]


def _tree(term: Term, depth: int = 1) -> list[str]:
    """One line per constructor, its texts and numbers beside it, its operands below."""
    if not isinstance(term, App):
        return [f"{'  ' * depth}{term}"]
    texts = [str(arg) for arg in term.args if not isinstance(arg, App)]
    head = f"{'  ' * depth}{term.ctor.name}" + (f"  {'  '.join(texts)}" if texts else "")
    return [head, *(line for arg in term.args if isinstance(arg, App) for line in _tree(arg, depth + 1))]
