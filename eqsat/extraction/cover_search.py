"""The search for a cheap cover: cover, price what was chosen, cover again.

A candidate is estimated by its lower bound, scaled by what kernels of its kind turned out to cost. What a cover
chooses is priced by its own best plan, and the cover is computed again, until all its kernels are priced. Then the
nearest rivals of its kernels are priced as well, and the search goes on from there, until no cover is cheaper.

The cover of ordinary fusion is made of the same candidates and competes: no cover is chosen that is dearer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from eqsat.extraction.candidate import KernelCandidate
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.extractors.agreement import agreeing, disputed
from eqsat.extraction.extractors.problem import Covering, Extractor, Problem
from eqsat.extraction.extractors.swaps import refined
from eqsat.extraction.rivals import Contest
from eqsat.extraction.selection import Selection
from ir.diagnostics import Diagnostic, Kind, Severity, note

STAGE = "extract"
ROUNDS = 8
"""Covers computed before the choice is confined to candidates that are priced."""

Chosen = tuple[KernelCandidate, ...]
"""A cover: one candidate for each buffer that is written, in an order in which the kernels can run."""


class CoverSearch:
    """Covers of the candidates of one e-graph, by one extractor."""

    def __init__(self, candidates: Candidates, extractor: Extractor) -> None:
        self.candidates, self._extractor = candidates, extractor
        self._stopped: Covering | None = None

    def price_all(self) -> None:
        """Price every candidate."""
        self.settled()
        while self.candidates.prices.learn(self.candidates.all()):
            self.settled()

    def best(self, settled: Chosen, ordinary: Chosen | None, *, swaps: bool) -> Chosen:
        """The cheapest cover that the search reaches from the extractor's and from the one of ordinary fusion.
        `swaps`: by local search, too."""
        best = self._cheaper(settled, ordinary)
        best = self._swapped(best) if swaps else best
        while True:
            self._contest(best)
            again = self._cheaper(self.settled(), self._covered(_is_known))
            if swaps:
                again = self._cheaper(self._swapped(again), self._swapped(best))
            if self._rank(again) >= self._rank(best):
                return best
            best = again

    def _swapped(self, chosen: Chosen) -> Chosen:
        """The cover after local search among all candidates, whose prices are learnt on the way. The extractor swaps
        within parts of the program; here kernels of several parts change together."""
        while True:
            problem, columns = self._problem()
            place = {candidate: index for index, candidate in enumerate(columns)}
            found = refined(problem, [place[candidate] for candidate in chosen])
            better = tuple(columns[index] for index in found)
            if self._is_disputed(better):
                return chosen
            if not self.candidates.prices.learn(better):
                return self._cheaper(chosen, better)

    def settled(self) -> Chosen:
        """The extractor's cover of all candidates, every kernel priced. Where no cover computes each value in one way,
        the kernels that buffers were written with become candidates.

        Raises:
            EqsatError: UnsupportedOp, when some buffer has no candidate that can be a kernel.
        """
        candidates = self.candidates
        candidates.demand_roots()
        rounds = 0
        while True:
            chosen = self._covered(_is_known) if rounds >= ROUNDS else None
            chosen = chosen or self._covered()
            rounds += 1
            if chosen is None:
                if not candidates.fall_back(candidates.blocked):
                    candidates.fail_uncovered()
            elif not candidates.prices.learn(chosen) and not (
                self._is_disputed(chosen) and candidates.fall_back(tuple(candidates.by_buffer))
            ):
                return chosen

    def ordinary(self) -> Chosen | None:
        """The extractor's cover of the candidates of ordinary fusion; None where these make none that computes each
        value in one way."""
        while True:
            chosen = self._covered(lambda candidate: candidate.ordinary)
            if chosen is None or self._is_disputed(chosen):
                return None
            if not self.candidates.prices.learn(chosen):
                return chosen

    def selections(self, chosen: Chosen) -> Mapping[int, Selection]:
        """What the kernels of a cover were chosen before, by the buffer that they write."""
        return self._contest(chosen).selections(self.candidates.by_buffer, self.candidates.names)

    def stops(self, chosen: Chosen) -> tuple[Diagnostic, ...]:
        """A word where a limit ended the search for a better cover than this one."""
        if self._stopped is None:
            return ()
        stop = note(
            Kind.RESOURCE_EXCEEDED,
            STAGE,
            "the binary program stopped at its limit; the program is right, a better one may be missed, and another "
            "run may differ",
            severity=Severity.WARNING,
            cost_ns=self.total_ns(chosen),
            proven_ns=self._stopped.bound,
        )
        return (stop,)

    def _contest(self, chosen: Chosen) -> Contest:
        """A cover's kernels against the other candidates for their outputs. The nearest are priced, and so are the
        kernels that these would need."""
        while True:
            problem, columns = self._problem()
            contest = Contest(problem, columns, chosen)
            if not self.candidates.prices.learn(contest.nearest):
                return contest

    def total_ns(self, chosen: Chosen) -> float:
        """The time of a cover."""
        return sum(map(self.candidates.prices.cost, chosen))

    def _covered(self, is_meant: Callable[[KernelCandidate], bool] | None = None) -> Chosen | None:
        """The extractor's cover of all candidates, or of those that are meant."""
        problem, columns = self._problem(is_meant)
        found = agreeing(problem, self._extractor)
        if found is None:
            return None
        self._stopped = found if found.stopped else None
        return tuple(columns[index] for index in found.columns)

    def _problem(
        self, is_meant: Callable[[KernelCandidate], bool] | None = None
    ) -> tuple[Problem, Sequence[KernelCandidate]]:
        """The covering problem of the candidates that were not refused, all or those that are meant, and the candidate
        of each column."""
        columns = [each for each in self.candidates.all() if not each.refusal and (is_meant is None or is_meant(each))]
        return Problem(tuple(map(self.candidates.column, columns)), self.candidates.roots), columns

    def _cheaper(self, chosen: Chosen, other: Chosen | None) -> Chosen:
        """The better of two covers, the first of equals."""
        return chosen if other is None else min(chosen, other, key=self._rank)

    def _rank(self, chosen: Chosen) -> tuple[bool, float]:
        """Orders covers: by price, and after all others those that compute a value in several ways."""
        return self._is_disputed(chosen), self.total_ns(chosen)

    def _is_disputed(self, chosen: Chosen) -> bool:
        """Whether the kernels compute some value in several ways."""
        return disputed(map(self.candidates.marks, chosen)) is not None


def _is_known(candidate: KernelCandidate) -> bool:
    """Whether its cost is exact."""
    return candidate.priced is not None or candidate.compile_time
