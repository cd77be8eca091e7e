"""Saturates single terms, for tests of single rules."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.egraph.loading import Marked
from eqsat.egraph.saturate import Saturation
from eqsat.egraph.saturation_stats import SaturationStats
from eqsat.egraph.view import EGraphView
from eqsat.options import Budget
from ir.term.language import App
from ir.term.rule import Exactness, Rule
from rules import PHASES
from rules import analyses as known


def saturate_terms(
    terms: Sequence[tuple[str, App]],
    rules: Sequence[Rule],
    exactness: Exactness = Exactness.ROUNDING,
    budget: Budget | None = None,
    phases: Sequence[Sequence[str]] = PHASES,
    marks: Marked | None = None,
) -> tuple[EGraphView, SaturationStats]:
    """As `eqsat.egraph.saturate.saturate`, for named terms of sort Buf; a term may read earlier ones through variables
    of their names.

    marks: for an analysis that is given, the names of the terms for which it holds (None: all hold for every term).
    """
    names = [name for name, _ in terms]
    marks = dict.fromkeys(known.GIVEN, names) if marks is None else marks
    saturation = Saturation(terms, rules, exactness, budget or Budget(), phases, marks)
    saturation.finish()
    view = saturation.view()
    return view, saturation.stats(view)
