"""Extractors: functions from a covering problem to the kernels that compute its outputs, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eqsat.extraction.covering.greedy import greedy
from eqsat.extraction.covering.oracles.exact import exact
from eqsat.extraction.covering.oracles.tree import tree
from eqsat.extraction.covering.oracles.windowed import windowed
from eqsat.extraction.covering.pareto import pareto
from eqsat.extraction.covering.problem import Extractor


@dataclass(frozen=True)
class ExtractorEntry:
    """An extractor, and how the search uses it.

    needs_all_prices  whether it weighs every candidate against every other, as oracles do
    is_baseline       whether it shows what other extractors are worth: ordinary fusion does not compete with its
                      covers, and there is no local search
    """

    cover: Extractor
    needs_all_prices: bool = False
    is_baseline: bool = False


EXTRACTORS: Mapping[str, ExtractorEntry] = {
    "pareto": ExtractorEntry(pareto),
    "windowed": ExtractorEntry(windowed, needs_all_prices=True),
    "exact": ExtractorEntry(exact, needs_all_prices=True),
    "greedy": ExtractorEntry(greedy, is_baseline=True),
    "tree": ExtractorEntry(tree, is_baseline=True),
}
