"""Any legal cover: what tests run to show that every choice computes the same."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import Cover
from eqsat.extraction.covering.cover_search import CoverSearch
from eqsat.extraction.covering.oracles.shuffled import shuffle
from eqsat.extraction.joining.join_kernels import join_kernels
from eqsat.extraction.joining.joint_kernels import JointKernels
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
    return next(random_covers(view, outputs, pricer, [rng], constants=constants))


def random_covers(
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    rngs: Iterable[random.Random],
    *,
    constants: Iterable[str] = (),
) -> Iterator[Cover]:
    """A random cover by each generator, all of the same candidates: to enumerate and price these takes longer than to
    choose among them. A cover depends on those before it, which have refused and priced some candidates."""
    candidates = Candidates(view, outputs, pricer, constants)
    candidates.demand_as_written()
    joint_kernels = JointKernels(candidates)
    for rng in rngs:
        yield _draw_cover(candidates, joint_kernels, rng)


def _draw_cover(candidates: Candidates, joint_kernels: JointKernels, rng: random.Random) -> Cover:
    chosen = CoverSearch(candidates, lambda problem: shuffle(problem, rng)).cover_with_known_prices()
    return join_kernels(candidates.materialize(chosen), joint_kernels, lambda _: rng.random() < JOINED_SHARE)
