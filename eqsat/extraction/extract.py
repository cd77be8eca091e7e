"""Extraction: from a saturated e-graph to the kernels of the program.

Candidates are enumerated per buffer, and the DAG of buffers is covered with them. A candidate enters the cover at
its lower bound, scaled by what kernels of its kind turned out to cost; whatever a cover chooses is then priced by
its own best plan, and the cover is computed again, until it consists of priced kernels only.

The cover of ordinary fusion, made of the same candidates, competes: none is chosen that is dearer. After kernels were
joined and buffers laid out it competes again, unless it is further back than these bring.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

from eqsat.collector import release
from eqsat.egraph.view import EGraphView
from eqsat.extraction.choice import Choice
from eqsat.extraction.choices import Choices
from eqsat.extraction.cover import Cover, assert_acyclic
from eqsat.extraction.extractors import EXTRACTORS, OPTIMAL, SIMPLE
from eqsat.extraction.extractors.agreement import agreeing, disputed
from eqsat.extraction.extractors.exact import exact, lower_bound
from eqsat.extraction.extractors.greedy import greedy
from eqsat.extraction.extractors.problem import Column, Covering, Extractor, Problem
from eqsat.extraction.extractors.swaps import refined
from eqsat.extraction.joining import Wanted, gains, joined
from eqsat.extraction.layouts.forms import Forms
from eqsat.extraction.layouts.relayout import relaid
from eqsat.extraction.limits import DEFAULT, EnumerationLimits
from eqsat.extraction.rivals import Contest
from eqsat.extraction.selection import UNCONTESTED, Selection
from ir.diagnostics import Diagnostic, EqsatError, Kind, Severity, fail, note
from ir.pricer import Pricer, Rejected

STAGE = "extract"
ROUNDS = 8
"""Covers computed before the choice is confined to kernels that are priced."""

Finish = Callable[[Cover, float], Cover]
"""What is done to a cover after its kernels were chosen; of no use unless it comes below so many ns."""


def extract(
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    *,
    constants: Iterable[str] = (),
    extractor: str = "pareto",
    limits: EnumerationLimits = DEFAULT,
    joining: bool = True,
    relayout: bool = True,
) -> Cover:
    """The cheapest cover that the extractor finds.

    Args:
        outputs: Tiny nodes.
        constants: names of inputs that are known when the program is built.
        joining: whether one kernel may write several outputs.
        relayout: whether buffers between its kernels may be stored in other orders of their axes.

    Raises:
        EqsatError: UnsupportedOp, when some buffer has no candidate that can be a kernel.
    """
    if extractor not in EXTRACTORS:
        fail(Kind.INVALID_OPTION, STAGE, f"there is no extractor {extractor!r}", hint=", ".join(EXTRACTORS))
    release()
    extraction = Extraction(Choices(view, outputs, pricer, constants, limits))
    if extractor in OPTIMAL:
        extraction.learn_all()
    else:
        extraction.learn()
    finish = partial(relaid, forms=Forms(pricer)) if relayout else None
    return extraction.best(EXTRACTORS[extractor], gains if joining else None, finish, seeded=extractor not in SIMPLE)


@dataclass(frozen=True)
class CoverBound:
    """ns that no cover by candidates of one output can beat: the optimum where kernels may be taken in part
    (`linear_ns`), and what the binary program has proven, which is the optimum itself unless a limit stopped it
    (`proven_ns`)."""

    linear_ns: float
    proven_ns: float

    def gap(self, cover: Cover) -> float:
        """By how much the cover, before kernels were joined, is dearer than the linear bound, relative to that; 0 where
        both cost nothing."""
        return cover.apart_ns / self.linear_ns - 1 if self.linear_ns else 0.0


def bound(
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    *,
    constants: Iterable[str] = (),
    limits: EnumerationLimits = DEFAULT,
) -> CoverBound:
    """What no extractor can beat, whatever it chooses. Prices every candidate.

    Raises:
        EqsatError: UnsupportedOp, when some buffer has no candidate that can be a kernel.
    """
    extraction = Extraction(Choices(view, outputs, pricer, constants, limits))
    extraction.learn_all()
    return extraction.bound()


@dataclass(frozen=True)
class _Picked:
    """The candidates of a cover in an order in which they run, and how they were found."""

    choices: tuple[Choice, ...]
    covering: Covering


class Extraction:
    """The covers of one e-graph."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices

    def cover(self, extractor: Extractor, is_wanted: Wanted | None = None) -> Cover:
        """The cover that `extractor` makes of the priced candidates. `is_wanted`: which kernels to join, none by
        default."""
        return self._finished(self._settled(extractor), {}, is_wanted)

    def best(
        self, extractor: Extractor, is_wanted: Wanted | None = None, finish: Finish | None = None, seeded: bool = True
    ) -> Cover:
        """The best cover that the extractor leads to: compared with what else could be chosen, and made again as long
        as the prices learnt by that make a better one. `seeded`: that of ordinary fusion competes."""

        def compared(picked: _Picked, contest: Contest | None, worth_ns: float = math.inf) -> Cover:
            selections = contest.selections(self.choices.by_buffer, self.choices.names) if contest else {}
            cover = self._finished(picked, selections, is_wanted)
            return finish(cover, worth_ns) if finish else cover

        picked = self._settled(extractor)
        ordinary = self._ordinary(extractor) if seeded else None
        picked, contest = self._contested(extractor, self._better(picked, ordinary), seeded)
        cover = compared(picked, contest)
        if ordinary is None or {*ordinary.choices} == {*picked.choices}:
            return cover
        saved = self._total(picked) - cover.time_ns
        if self._total(ordinary) - self._total(picked) > saved:  # further back than joining and layouts bring
            return cover
        if compared(ordinary, None, cover.time_ns).time_ns >= cover.time_ns:
            return cover
        return compared(ordinary, self._contest(ordinary.choices))

    def learn(self) -> None:
        """Price what cheaply found covers choose, so that a dearer extractor starts from good estimates."""
        self._settled(greedy)

    def learn_all(self) -> None:
        """Price every candidate."""
        self.learn()
        while self.choices.prices.learn([each for several in self.choices.by_buffer.values() for each in several]):
            self._settled(greedy)

    def bound(self) -> CoverBound:
        """What no cover can beat, after `learn_all`."""
        columns, choices = self._columns(_is_priced)
        times = [choice.price.time_ns if choice.price else 0.0 for choice in choices]
        timed = (Column(each.writes, each.reads, time, each.marks) for each, time in zip(columns, times, strict=True))
        problem = Problem(tuple(timed), self.choices.roots)
        best = exact(problem)
        assert best is not None, "there was a cover to learn from"
        return CoverBound(lower_bound(problem), best.bound)

    def _contested(self, extractor: Extractor, picked: _Picked, refine: bool) -> tuple[_Picked, Contest]:
        """The cover, or one that is better of what is priced by then, and how its rivals fared. `refine`: by swaps,
        too."""
        if refine:
            picked = self._swapped(picked)
        while True:
            contest = self._contest(picked.choices)
            again = self._better(self._settled(extractor), self._covered(extractor, _is_priced))
            if refine:
                again = self._better(self._swapped(again), self._swapped(picked))
            if self._rank(again) >= self._rank(picked):
                return picked, contest
            picked = again

    def _ordinary(self, extractor: Extractor) -> _Picked | None:
        """The cover of ordinary fusion."""
        return self._settled_among(extractor, lambda choice: choice.ordinary)

    def _better(self, picked: _Picked, other: _Picked | None) -> _Picked:
        """The better of two covers, the first of equals."""
        return picked if other is None else min(picked, other, key=self._rank)

    def _rank(self, picked: _Picked) -> tuple[bool, float]:
        """Orders covers: by price, and after all others those that compute a value in several ways."""
        return self._is_disputed(picked), self._total(picked)

    def _swapped(self, picked: _Picked) -> _Picked:
        """The cover refined by swaps among all candidates, and again as prices are learnt."""
        while True:
            columns, choices = self._columns()
            place = {choice: index for index, choice in enumerate(choices)}
            problem = Problem(columns, self.choices.roots)
            found = refined(problem, [place[choice] for choice in picked.choices])
            if disputed(problem.marks_of(found)) is not None:
                return picked
            better = replace(picked, choices=tuple(choices[index] for index in found))
            if not self.choices.prices.learn(better.choices):
                return self._better(picked, better)

    def _settled(self, extractor: Extractor) -> _Picked:
        """A cover of priced kernels: cover, price what was chosen, cover again. Where candidates cannot compute every
        value in one way, the kernels that buffers were written with become candidates."""
        for buffer in self.choices.roots:
            self.choices.demand(buffer)
        rounds = 0
        while True:
            picked = self._covered(extractor, _is_priced) if rounds >= ROUNDS else None
            if picked is None:
                picked = self._covered(extractor)
            if picked is None:
                if not self.choices.fall_back(self.choices.blocked):
                    self._without_cover()
            elif not self.choices.prices.learn(picked.choices) and not (
                self._is_disputed(picked) and self.choices.fall_back(tuple(self.choices.by_buffer))
            ):
                return picked
            rounds += 1

    def _is_disputed(self, picked: _Picked) -> bool:
        """Whether the kernels compute some value in several ways."""
        return disputed(map(self.choices.marks, picked.choices)) is not None

    def _settled_among(self, extractor: Extractor, is_meant: Callable[[Choice], bool]) -> _Picked | None:
        """Such a cover of these candidates alone; None where they make none."""
        while True:
            picked = self._covered(extractor, is_meant)
            if picked is None or self._is_disputed(picked):
                return None
            if not self.choices.prices.learn(picked.choices):
                return picked

    def _covered(self, extractor: Extractor, is_meant: Callable[[Choice], bool] | None = None) -> _Picked | None:
        columns, choices = self._columns(is_meant)
        found = agreeing(Problem(columns, self.choices.roots), extractor)
        return None if found is None else _Picked(tuple(choices[index] for index in found.columns), found)

    def _columns(self, is_meant: Callable[[Choice], bool] | None = None) -> tuple[tuple[Column, ...], list[Choice]]:
        """The covering problem of the candidates that were not refused, all or those that are meant."""
        choices = [
            choice
            for several in self.choices.by_buffer.values()
            for choice in several
            if not choice.refusal and (is_meant is None or is_meant(choice))
        ]
        return tuple(map(self.choices.column, choices)), choices

    def _contest(self, picked: Sequence[Choice]) -> Contest:
        """The cover against the other candidates for its outputs, the nearest of which are priced like its kernels,
        and so is what they would need."""
        while True:
            columns, choices = self._columns()
            contest = Contest(Problem(columns, self.choices.roots), choices, picked)
            if not self.choices.prices.learn(contest.nearest):
                return contest

    def _total(self, picked: _Picked) -> float:
        return sum(map(self.choices.prices.cost, picked.choices))

    def _finished(self, picked: _Picked, selections: Mapping[int, Selection], is_wanted: Wanted | None) -> Cover:
        known = self.choices
        single = [known.kernel(choice, selections.get(choice.buffer, UNCONTESTED)) for choice in picked.choices]
        kernels = joined(single, known.setting, is_wanted) if is_wanted else single
        assert_acyclic(kernels)
        return Cover(
            kernels=tuple(kernels),
            outputs=known.outputs,
            names=known.names,
            constants=known.constant,
            considered=len(known),
            priced=len(known.prices),
            saved_ns=sum(each.time_ns for each in single) - sum(each.time_ns for each in kernels),
            diagnostics=self._stops(picked),
        )

    def _stops(self, picked: _Picked) -> tuple[Diagnostic, ...]:
        """A word where a limit ended the search for a better cover."""
        if not picked.covering.stopped:
            return ()
        stop = note(
            Kind.RESOURCE_EXCEEDED,
            STAGE,
            "the binary program stopped at its limit; the program is right, a better one may be missed, and another "
            "run may differ",
            severity=Severity.WARNING,
            cost_ns=self._total(picked),
            proven_ns=picked.covering.bound,
        )
        return (stop,)

    def _without_cover(self) -> NoReturn:
        blocked = self.choices.blocked
        refused = [buffer for buffer in blocked if all(each.refusal for each in self.choices.by_buffer.get(buffer, ()))]
        raise EqsatError(
            Diagnostic(
                kind=self._refusal(buffer).kind,
                stage=STAGE,
                message="no kernel can compute this value",
                at=self.choices.names[buffer],
                details={"reason": self._refusal(buffer).reason},
            )
            for buffer in refused or blocked or self.choices.roots[:1]
        )

    def _refusal(self, buffer: int) -> Rejected:
        """Why the last candidate of a buffer was refused."""
        refusals = [each.refusal for each in self.choices.by_buffer.get(buffer, ()) if each.refusal]
        return refusals[-1] if refusals else Rejected("the rules left no candidate")


def _is_priced(choice: Choice) -> bool:
    return choice.priced is not None or choice.compile_time
