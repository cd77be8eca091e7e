"""An oracle: the least time in ns that any cover by kernels of one output can take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import Cover
from eqsat.extraction.covering.cover_search import price_all
from eqsat.extraction.covering.oracles.exact import exact, lower_bound
from eqsat.extraction.covering.problem import Column, Problem
from ir.pricer import Pricer


@dataclass(frozen=True)
class CoverBound:
    """ns that no cover by candidates of one output can beat: the optimum where kernels may be taken in part
    (`linear_ns`), and what the binary program has proven, which is the optimum itself unless a limit stopped it
    (`proven_ns`)."""

    linear_ns: float
    proven_ns: float

    def gap(self, cover: Cover) -> float:
        """By how much a cover of kernels of one output, with all buffers row-major, is dearer than the linear bound,
        relative to the bound; 0 where both cost nothing."""
        return cover.time_ns / self.linear_ns - 1 if self.linear_ns else 0.0


def bound(
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    *,
    constants: Iterable[str] = (),
) -> CoverBound:
    """What no extractor can beat, whatever it chooses. Prices every candidate.

    Raises:
        EqsatError: UnsupportedOp, when some buffer has no candidate that can be a kernel.
    """
    candidates = Candidates(view, outputs, pricer, constants)
    price_all(candidates)
    columns = (
        Column(kernel.buffer, kernel.reads, kernel.price.time_ns if kernel.price else 0.0, candidates.marks(kernel))
        for kernel in candidates.all()
        if not kernel.refusal
    )
    problem = Problem(tuple(columns), candidates.roots)
    best = exact(problem)
    assert best is not None, "there was a cover to learn from"
    return CoverBound(lower_bound(problem), best.bound)
