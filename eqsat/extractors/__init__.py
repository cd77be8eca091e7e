"""Extractors: functions from a covering problem to the kernels that compute its outputs, by name."""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.extractors.exact import exact
from eqsat.extractors.greedy import greedy
from eqsat.extractors.pareto import pareto
from eqsat.extractors.problem import Extractor
from eqsat.extractors.tree import tree
from eqsat.extractors.windowed import windowed

EXTRACTORS: Mapping[str, Extractor] = {
    "pareto": pareto,
    "windowed": windowed,
    "exact": exact,
    "greedy": greedy,
    "tree": tree,
}

OPTIMAL = frozenset({"windowed", "exact"})
"""Those that weigh every candidate against every other, and so need all of their prices."""
