"""An instance of a rule that people look at: small, and with little in it that is beside the point."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from ir.dtype import DTYPES
from ir.index.map import identity, parse_map
from ir.term.language import App, Term, subterms
from ir.term.rule import Rule
from rules.soundness import Draw, drawn, rewritten
from rules.styles import PLAIN, Style

_FEW, _MOST = 16, 32
"""So many instances are looked at; more, while each has numbers where operands should be."""
_ATTEMPTS = 3_000


@lru_cache(maxsize=256)
def example(rule: Rule) -> tuple[App, Term] | None:
    """A small instance of the left side and what the rule makes of it, always the same; None if none is found."""
    plain = Style(PLAIN)
    return _best(rule, plain, ("fp32",)) or _best(rule, plain) or _best(rule)


def _best(rule: Rule, style: Style | None = None, elements: tuple[str, ...] = ()) -> tuple[App, Term] | None:
    """The plainest of the first instances of a style (None: of each in turn), of values of these dtypes."""
    draw = Draw.of(rule)
    if elements:
        draw = draw._replace(elements=tuple(each for each in elements if each in draw.elements))
        if not draw.elements:
            return None
    found: list[tuple[App, Term]] = []
    for instance in drawn(draw, np.random.default_rng(0), _ATTEMPTS, style=style):
        rhs = rewritten(rule, instance)
        if rhs is None:
            continue
        found.append((instance.term, rhs))
        if len(found) >= _MOST or (len(found) >= _FEW and any(not _numbers(rule, each) for each, _ in found)):
            break
    return min(found, key=lambda pair: _oddity(rule, pair[0]), default=None)


def _numbers(rule: Rule, term: App) -> int:
    """How many numbers stand where the rule has variables."""
    return str(term).count("Imm(") - str(rule.lhs).count("Imm(")


def _oddity(rule: Rule, term: App) -> tuple[int, str]:
    """How much in a term is beside the point: numbers for operands, sizes 0 and 1, other dtypes than fp32, maps that
    move nothing, and its length."""
    text = str(term)
    small = len(re.findall(r"[\[,][01](?=[\],])", text)) + text.count("[]")
    texts = [each for each in subterms(term) if isinstance(each, str)]
    still = sum(_moves_nothing(each) for each in texts if " -> " in each)
    foreign = sum(each in DTYPES and each != "fp32" for each in texts) + ("fp32" not in text)
    special = sum(word in text for word in ("nan", "inf", "-0.0"))
    beside = 5 * (_numbers(rule, term) + still) + 3 * (small + foreign + special)
    return beside + sum(1 for _ in subterms(term)), text


def _moves_nothing(read: str) -> bool:
    view = parse_map(read)
    return view == identity(view.sizes)
