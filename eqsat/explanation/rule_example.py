"""An example of a rule for people: small, with few distracting details."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from ir.dtype import DTYPES
from ir.index.map import identity, parse_map
from ir.term.language import App, Term, subterms
from ir.term.rule import Rule
from rules.soundness import Draw, draw_instances, rewrite
from rules.styles import PLAIN, Style

_FEW, _MOST = 16, 32
"""Instances among which the best one is chosen: the first number if one of them has only variables as operands, else up
to the second."""
_ATTEMPTS = 3_000
"""Random draws before the search for instances ends."""


@lru_cache(maxsize=256)
def example(rule: Rule) -> tuple[App, Term] | None:
    """A small instance of the left side and the rule's result; deterministic. None if none is found."""
    plain = Style(PLAIN)
    return _best(rule, plain, ("fp32",)) or _best(rule, plain) or _best(rule)


def _best(rule: Rule, style: Style | None = None, elements: tuple[str, ...] = ()) -> tuple[App, Term] | None:
    """The least distracting of the first instances in a style (None: in all styles) and with these dtypes."""
    draw = Draw.of(rule)
    if elements:
        draw = draw._replace(elements=tuple(dtype for dtype in elements if dtype in draw.elements))
        if not draw.elements:
            return None
    instances: list[tuple[App, Term]] = []
    for instance in draw_instances(draw, np.random.default_rng(0), _ATTEMPTS, style=style):
        rhs = rewrite(rule, instance)
        if rhs is None:
            continue
        instances.append((instance.term, rhs))
        if len(instances) >= _MOST or (
            len(instances) >= _FEW and any(not _numbers(rule, term) for term, _ in instances)
        ):
            break
    return min(instances, key=lambda pair: _distraction(rule, pair[0]), default=None)


def _numbers(rule: Rule, term: App) -> int:
    """Numbers in the term at places where the rule has variables."""
    return str(term).count("Imm(") - str(rule.lhs).count("Imm(")


def _distraction(rule: Rule, term: App) -> tuple[int, str]:
    """How much in a term distracts: numbers as operands, sizes 0 and 1, dtypes other than fp32, maps that move nothing,
    and its length."""
    text = str(term)
    small = len(re.findall(r"[\[,][01](?=[\],])", text)) + text.count("[]")
    texts = [text_ for text_ in subterms(term) if isinstance(text_, str)]
    still = sum(_moves_nothing(text_) for text_ in texts if " -> " in text_)
    foreign = sum(text_ in DTYPES and text_ != "fp32" for text_ in texts) + ("fp32" not in text)
    special = sum(word in text for word in ("nan", "inf", "-0.0"))
    distraction = 5 * (_numbers(rule, term) + still) + 3 * (small + foreign + special)
    return distraction + sum(1 for _ in subterms(term)), text


def _moves_nothing(read: str) -> bool:
    view = parse_map(read)
    return view == identity(view.sizes)
