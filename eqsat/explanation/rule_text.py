"""A rule for people: equation, level, certificate, conditions, both sides, and what it does to an example."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

import numpy as np

from ir.axis_map import identity, parse_map
from ir.dtype import DTYPES
from ir.rule import Certificate, Rule
from ir.term import App, Term, subterms

_EXAMPLES = 40
_STANDS = {
    Certificate.PROVED: "both sides read the same at every point, whatever the maps, operations and operands",
    Certificate.EXACT: "compared in exact arithmetic on random instances",
    Certificate.SAMPLED: "compared in floating point on random instances",
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
    lines = [
        f"{rule.name} ({rule.family}, {rule.exactness}, {stands})",
        f"  {rule.equation}",
        f"  from  {rule.lhs}",
        f"  to    {rule.rhs}",
        *(f"  when  {condition}" for condition in rule.when),
        f"  {stands}: {_STANDS[stands]}",
    ]
    found = example(rule)
    if found is not None:
        lines += ["", "before", *_tree(found[0]), "after", *_tree(found[1])]
    return "\n".join(lines)


@lru_cache(maxsize=256)
def example(rule: Rule) -> tuple[App, Term] | None:
    """A small instance of the left side and what the rule makes of it, always the same; None if none is found."""
    from rules.soundness import applications

    found = [
        (instance.term, rhs) for instance, rhs in islice(applications(rule, np.random.default_rng(0), 6_000), _EXAMPLES)
    ]
    return min(found, key=lambda pair: _oddity(rule, pair[0])) if found else None


def _oddity(rule: Rule, term: App) -> tuple[int, str]:
    """How much in a term is beside the point: numbers for operands, sizes 0 and 1, other dtypes than fp32, maps that
    move nothing, and its length."""
    text = str(term)
    numbers = text.count("Imm(") - str(rule.lhs).count("Imm(")
    small = len(re.findall(r"[\[,][01](?=[\],])", text)) + text.count("[]")
    texts = [each for each in subterms(term) if isinstance(each, str)]
    still = sum(_moves_nothing(each) for each in texts if " -> " in each)
    foreign = sum(each in DTYPES and each != "fp32" for each in texts) + ("fp32" not in text)
    special = sum(word in text for word in ("nan", "inf", "-0.0"))
    return 4 * numbers + 3 * (small + still + foreign + special) + sum(1 for _ in subterms(term)), text


def _moves_nothing(read: str) -> bool:
    view = parse_map(read)
    return view == identity(view.sizes)


def _tree(term: Term, depth: int = 1) -> list[str]:
    """One line per constructor, its texts and numbers beside it, its operands below."""
    if not isinstance(term, App):
        return [f"{'  ' * depth}{term}"]
    texts = [str(arg) for arg in term.args if not isinstance(arg, App)]
    head = f"{'  ' * depth}{term.ctor.name}" + (f"  {'  '.join(texts)}" if texts else "")
    return [head, *(line for arg in term.args if isinstance(arg, App) for line in _tree(arg, depth + 1))]
