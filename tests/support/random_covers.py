"""Any legal cover: what tests run to show that every choice computes the same."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from eqsat.egraph.view import EGraphView
from eqsat.extraction.choices import Choices
from eqsat.extraction.cover import Cover
from eqsat.extraction.extract import Extraction
from eqsat.extraction.extractors.shuffled import shuffled
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
    extraction = Extraction(Choices(view, outputs, pricer, constants, with_written=True))
    return extraction.cover(lambda problem: shuffled(problem, rng), is_wanted=lambda _: rng.random() < JOINED_SHARE)
