"""Extractors: functions from a covering problem to the kernels that compute its outputs, by name."""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.extraction.extractors.greedy import greedy
from eqsat.extraction.extractors.oracles.exact import exact
from eqsat.extraction.extractors.oracles.tree import tree
from eqsat.extraction.extractors.oracles.windowed import windowed
from eqsat.extraction.extractors.pareto import pareto
from eqsat.extraction.extractors.problem import Extractor

EXTRACTORS: Mapping[str, Extractor] = {
    "pareto": pareto,
    "windowed": windowed,
    "exact": exact,
    "greedy": greedy,
    "tree": tree,
}

SIMPLE = frozenset({"greedy", "tree"})
"""Those that show what the others are worth: they keep to what they find themselves."""

OPTIMAL = frozenset({"windowed", "exact"})
"""Those that weigh every candidate against every other, and so need all of their prices."""
