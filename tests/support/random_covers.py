"""Any legal cover: what tests run to show that every choice computes the same."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import Cover
from eqsat.extraction.cover_search import CoverSearch
from eqsat.extraction.extractors.oracles.shuffled import shuffled
from eqsat.extraction.joining import joined
from eqsat.extraction.materialize import materialized
from ir.pricer import Pricer

JOINED_SHARE = 0.3
"""Of the kernels that could be joined."""


def random_cover(
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    rng: random.Random,
    *,
    constants: Iterable[str] = (),
) -> Cover:
    """Kernels as they were written and as the rules made them, some joined whether that gains or not."""
    candidates = Candidates(view, outputs, pricer, constants, with_written=True)
    chosen = CoverSearch(candidates, lambda problem: shuffled(problem, rng)).settled()
    cover = materialized(candidates, chosen)
    return joined(cover, candidates.joining_context, is_wanted=lambda _: rng.random() < JOINED_SHARE)
