"""The search for a cheap cover: cover, price the chosen kernels, cover again.

The cost of a candidate is its lower bound, scaled by the ratio of prices to bounds of kernels of its kind. The kernels
of a cover are priced by their own best plans, and the cover is computed again, until all its kernels are priced. Then
the nearest rivals of the kernels are priced as well, and the search goes on from there, until no cover is cheaper.

The cover of ordinary fusion is made of the same candidates and competes: no cover is chosen that is dearer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import islice

from eqsat.extraction.candidate import CandidateCover, KernelCandidate
from eqsat.extraction.candidates import STAGE, Candidates
from eqsat.extraction.covering.agreement import find_dispute, resolve_disputes
from eqsat.extraction.covering.greedy import greedy
from eqsat.extraction.covering.problem import Covering, Extractor
from eqsat.extraction.covering.rivals import Rivals
from eqsat.extraction.covering.swaps import enter, refine
from ir.diagnostics import Diagnostic, Kind, Severity, note

ROUNDS = 8
"""Covers that are computed before the choice is confined to candidates that are priced, as far as these make a cover
that computes each value in one way."""

TRIED = 2
"""Candidates of one buffer that are priced with each new one: those that seem cheapest. With 2, fewer covers of the
digests' programs are dearer than with 0, 1, 3, 4 or 8; all take equal time."""


def price_all(candidates: Candidates) -> None:
    """Price every candidate, those among them that covers fall back on."""
    search = CoverSearch(candidates, greedy)
    search.cover_with_known_prices()
    while candidates.prices.learn(candidates.all()):
        search.cover_with_known_prices()


class CoverSearch:
    """Covers of the candidates of one e-graph, by one extractor."""

    def __init__(self, candidates: Candidates, extractor: Extractor) -> None:
        self._candidates, self._extractor = candidates, extractor
        self._stopped: Covering | None = None

    def best(self, is_baseline: bool = False) -> tuple[CandidateCover, CandidateCover | None]:
        """The cheapest cover that the search reaches from the extractor's cover and from that of ordinary fusion; and
        the latter, where there is one. A baseline stays with the covers of its extractor: ordinary fusion does not
        compete, and there is no local search."""
        best = self.cover_with_known_prices()
        ordinary = None if is_baseline else self._ordinary()
        best = self._cheaper(best, ordinary)
        best = best if is_baseline else self._swap(best)
        while True:
            self.price_rivals(best)
            again = self.cover_with_known_prices()
            if not is_baseline:
                again = self._cheaper(self._swap(again), self._swap(best))
            if self._rank(again) >= self._rank(best):
                return best, ordinary
            best = again

    def cover_with_known_prices(self) -> CandidateCover:
        """The extractor's cover of all candidates, after every kernel of it was priced. Where no cover computes each
        value in one way, the kernels that buffers were written with become candidates.

        Raises:
            EqsatError: UnsupportedOp, when some buffer has no candidate that can be a kernel.
        """
        candidates = self._candidates
        candidates.demand_roots()
        rounds, settled = 0, False
        while True:
            cover = self._cover(_is_known, settled) if rounds >= ROUNDS else None
            if cover is None or self._is_disputed(cover):
                cover = self._cover(settled=settled)
            rounds += 1
            if cover is None:
                if not candidates.fall_back(candidates.blocked):
                    candidates.fail_uncovered()
            elif self._learn(cover):
                settled = False
            elif self._is_disputed(cover):
                if settled and not candidates.fall_back(tuple(candidates.by_buffer)):
                    return cover
                settled = not settled
            else:
                return cover

    def _learn(self, kernels: Collection[KernelCandidate]) -> bool:
        """Price these candidates, and with each new one those that seem cheapest for its buffer. Returns whether that
        may change a cover."""
        prices, by_buffer = self._candidates.prices, self._candidates.by_buffer
        fresh = [kernel.buffer for kernel in kernels if kernel.priced is None and not kernel.compile_time]
        is_news = prices.learn(kernels)
        for buffer in fresh:
            prices.learn(sorted(by_buffer[buffer], key=prices.cost)[:TRIED])
        return is_news

    def price_rivals(self, cover: CandidateCover) -> Rivals:
        """The nearest rivals of a cover's kernels, priced, as are the kernels that the rivals would need."""
        while True:
            rivals = Rivals(self._candidates.problem(), cover)
            if not self._learn(rivals.needed):
                return rivals

    def swap_in(self, cover: CandidateCover, rivals: Iterable[KernelCandidate]) -> CandidateCover:
        """The cover with these rivals in turn, but for those that would compute a value in another way."""
        problem = self._candidates.problem()
        return problem.cover(enter(problem.problem, problem.indices(cover), problem.indices(tuple(rivals))))

    def nearest_covers(self, cover: CandidateCover, count: int) -> list[CandidateCover]:
        """Up to `count` covers with another kernel in one place, the nearest by price first."""
        swapped = self.price_rivals(cover).nearest_covers()
        return list(islice((other for other in swapped if not self._is_disputed(other)), count))

    def total_ns(self, cover: CandidateCover) -> float:
        """The time of a cover."""
        return sum(map(self._candidates.prices.cost, cover))

    def stops(self, cover: CandidateCover) -> tuple[Diagnostic, ...]:
        """A warning where a limit ended the search for a better cover than this one."""
        if self._stopped is None:
            return ()
        stop = note(
            Kind.RESOURCE_EXCEEDED,
            STAGE,
            "the binary program stopped at its limit; the program is right, a better one may be missed, and another "
            "run may differ",
            severity=Severity.WARNING,
            cost_ns=self.total_ns(cover),
            proven_ns=self._stopped.bound,
        )
        return (stop,)

    def _swap(self, cover: CandidateCover) -> CandidateCover:
        """The cover after local search among all candidates, whose prices are learnt on the way."""
        while True:
            problem = self._candidates.problem()
            better = problem.cover(refine(problem.problem, problem.indices(cover)))
            if not self._learn(better):
                return self._cheaper(cover, better)

    def _ordinary(self) -> CandidateCover | None:
        """The extractor's cover of the candidates of ordinary fusion; None where these make none that computes each
        value in one way."""
        while True:
            cover = self._cover(lambda candidate: candidate.ordinary)
            if cover is None or self._is_disputed(cover):
                return None
            if not self._learn(cover):
                return cover

    def _cover(
        self, is_allowed: Callable[[KernelCandidate], bool] | None = None, settled: bool = True
    ) -> CandidateCover | None:
        """The extractor's cover of all candidates, or of those that are allowed. settled: without disputes, where there
        is such a cover."""
        problem = self._candidates.problem(is_allowed)
        cover = partial(resolve_disputes, extractor=self._extractor) if settled else self._extractor
        covering = cover(problem.problem)
        if is_allowed is None:
            self._stopped = covering if covering and covering.stopped else None
        return None if covering is None else problem.cover(covering.columns)

    def _cheaper(self, cover: CandidateCover, other: CandidateCover | None) -> CandidateCover:
        """The better of two covers, the first of equals."""
        return cover if other is None else min(cover, other, key=self._rank)

    def _rank(self, cover: CandidateCover) -> tuple[bool, float]:
        """Orders covers: by price, and after all others those that compute a value in several ways."""
        return self._is_disputed(cover), self.total_ns(cover)

    def _is_disputed(self, cover: CandidateCover) -> bool:
        """Whether the kernels compute some value in several ways."""
        return find_dispute(map(self._candidates.marks, cover)) is not None


def _is_known(candidate: KernelCandidate) -> bool:
    """Whether its cost is exact."""
    return candidate.priced is not None or candidate.compile_time
