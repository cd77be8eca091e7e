"""Extraction: from a saturated e-graph to the kernels of the program.

Candidates are enumerated per buffer, and the DAG of buffers is covered with them. A candidate enters the cover at
its lower bound, scaled by what kernels of its kind turned out to cost; whatever a cover chooses is then priced by
its own best plan, and the cover is computed again, until it consists of priced kernels only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from eqsat.assembly.term_to_region import region_of
from eqsat.egraph.view import EGraphView
from eqsat.extraction.as_written import as_written
from eqsat.extraction.candidates import DEFAULT, Enumeration, Limits, constant_classes
from eqsat.extraction.choice import Choice
from eqsat.extraction.cover import Cover, Kernel, assert_acyclic
from eqsat.extraction.extractors import EXTRACTORS, OPTIMAL
from eqsat.extraction.extractors.agreement import agreeing
from eqsat.extraction.extractors.exact import exact, lower_bound
from eqsat.extraction.extractors.greedy import greedy
from eqsat.extraction.extractors.problem import Column, Covering, Extractor, Mark, Problem
from eqsat.extraction.extractors.shuffled import shuffled
from eqsat.extraction.joining import Setting, Wanted, gains, joined
from eqsat.extraction.kernel_tree import Tree
from eqsat.extraction.layouts.relayout import relaid
from eqsat.extraction.one_rounding import Roundings
from eqsat.extraction.prices import TIE_NS_PER_BYTE, Prices
from eqsat.extraction.rivals import Contest
from eqsat.extraction.selection import UNCONTESTED, Selection
from ir.diagnostics import Diagnostic, EqsatError, Kind, Severity, fail, note
from ir.pricer import Pricer, Rejected
from ir.region import Buffer, MemRef, Region

STAGE = "extract"
ROUNDS = 8
"""Covers computed before the choice is confined to kernels that are priced."""
JOINED_SHARE = 0.3
"""Of the kernels that could be joined, in a random cover."""


def extract(
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    *,
    constants: Iterable[str] = (),
    extractor: str = "pareto",
    limits: Limits = DEFAULT,
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
    extraction = Extraction(view, outputs, pricer, constants, limits)
    if extractor in OPTIMAL:
        extraction.learn_all()
    else:
        extraction.learn()
    cover = extraction.cover(EXTRACTORS[extractor], compared=True, is_wanted=gains if joining else None)
    return relaid(cover, pricer) if relayout else cover


@dataclass(frozen=True)
class Bound:
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
    limits: Limits = DEFAULT,
) -> Bound:
    """What no extractor can beat, whatever it chooses. Prices every candidate.

    Raises:
        EqsatError: UnsupportedOp, when some buffer has no candidate that can be a kernel.
    """
    extraction = Extraction(view, outputs, pricer, constants, limits)
    extraction.learn_all()
    return extraction.bound()


def random_cover(
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    rng: random.Random,
    *,
    constants: Iterable[str] = (),
    limits: Limits = DEFAULT,
) -> Cover:
    """Any legal cover, of kernels as they were written and as the rules made them, some joined whether that gains or
    not: what tests run to show that every choice computes the same."""
    extraction = Extraction(view, outputs, pricer, constants, limits, with_written=True)
    return extraction.cover(lambda problem: shuffled(problem, rng), is_wanted=lambda _: rng.random() < JOINED_SHARE)


@dataclass(frozen=True)
class _Picked:
    """The candidates of a cover in an order in which they run, and how they were found."""

    choices: tuple[Choice, ...]
    covering: Covering


class Extraction:
    """The candidates of one e-graph with their prices, and the covers made of them."""

    def __init__(
        self,
        view: EGraphView,
        outputs: Sequence[str],
        pricer: Pricer,
        constants: Iterable[str] = (),
        limits: Limits = DEFAULT,
        with_written: bool = False,
    ) -> None:
        self._with_written = with_written
        self.view = view
        self.outputs = tuple((name, view.tiny[name]) for name in outputs)
        inputs = input_classes(view)
        self._inputs = frozenset(inputs.values())
        self.constant = constant_classes(view, [inputs[name] for name in constants if name in inputs])
        self._made_of_nothing = constant_classes(view, ())
        self._pricer = pricer
        roots = [buffer for _, buffer in self.outputs]
        self.enumeration = Enumeration(view, pricer.lower_bound, roots, self.constant, limits)
        self.names = buffer_names(view, inputs, roots)
        self._prices = Prices(pricer, self.enumeration.forest.shape_of, self._leaf, self._region)
        self._own = frozenset(view.tiny.values())
        self._roots = tuple(buffer for buffer in dict.fromkeys(roots) if buffer not in self._inputs)
        self._roundings = Roundings(view, self.enumeration.forest.type_of)
        self._choices: dict[int, list[Choice]] = {}
        self._is_rounding = False

    def cover(self, extractor: Extractor, *, compared: bool = False, is_wanted: Wanted | None = None) -> Cover:
        """The cover that `extractor` makes of the priced candidates; `compared` with what else could be chosen, and
        made again as long as the prices learnt by that make a better one. `is_wanted`: which kernels to join, none by
        default."""
        picked = self._settled(extractor)
        if not compared:
            return self._finished(picked, {}, is_wanted)
        own = self._settled_own(extractor)
        picked = picked if own is None else min(picked, own, key=self._total)
        contest = self._contest(picked.choices)
        while self._total(again := self._settled_again(extractor)) < self._total(picked):
            picked, contest = again, self._contest(again.choices)
        return self._finished(picked, contest.selections(self._choices, self.names), is_wanted)

    def learn(self) -> None:
        """Price what cheaply found covers choose, so that a dearer extractor starts from good estimates."""
        self._settled(greedy)

    def learn_all(self) -> None:
        """Price every candidate."""
        self.learn()
        while self._prices.learn([choice for several in self._choices.values() for choice in several]):
            self._settled(greedy)

    def bound(self) -> Bound:
        """What no cover can beat, after `learn_all`."""
        columns, choices = self._columns(priced_only=True)
        times = [choice.price.time_ns if choice.price else 0.0 for choice in choices]
        timed = (Column(each.writes, each.reads, time, each.marks) for each, time in zip(columns, times, strict=True))
        problem = Problem(tuple(timed), self._roots)
        best = exact(problem)
        assert best is not None, "there was a cover to learn from"
        return Bound(lower_bound(problem), best.bound)

    def _settled(self, extractor: Extractor) -> _Picked:
        """A cover of priced kernels: cover, price what was chosen, cover again."""
        for buffer in self._roots:
            self._demand(buffer)
        rounds = 0
        while True:
            picked = self._covered(extractor, priced_only=True) if rounds >= ROUNDS else None
            if picked is None:
                picked = self._covered(extractor, priced_only=False)
            if picked is None:
                self._fall_back()
            elif not self._prices.learn(picked.choices):
                return picked
            rounds += 1

    def _settled_own(self, extractor: Extractor) -> _Picked | None:
        """Such a cover that stores nothing but results of the program's uops, where rules made other buffers: of
        fewer candidates, an extractor misses less. What every compiler fuses is among them."""
        if self._own.issuperset(self._choices):
            return None
        while True:
            picked = self._covered(extractor, priced_only=False, own_only=True)
            if picked is None or not self._prices.learn(picked.choices):
                return picked

    def _settled_again(self, extractor: Extractor) -> _Picked:
        """The better of such a cover and one of the kernels that are priced by then: of fewer, an extractor misses
        less."""
        settled, narrow = self._settled(extractor), self._covered(extractor, priced_only=True)
        return settled if narrow is None else min(settled, narrow, key=self._total)

    def _covered(self, extractor: Extractor, *, priced_only: bool, own_only: bool = False) -> _Picked | None:
        columns, choices = self._columns(priced_only=priced_only, own_only=own_only)
        found = agreeing(Problem(columns, self._roots), extractor)
        return None if found is None else _Picked(tuple(choices[index] for index in found.columns), found)

    def _demand(self, buffer: int) -> None:
        """Enumerate the candidates of a buffer, and of every buffer that they read."""
        waiting = [buffer]
        while waiting:
            each = waiting.pop()
            if each not in self._choices and each not in self._inputs:
                self._choices[each] = [self._choice(each, tree) for tree in self._trees(each)]
                waiting.extend(read for choice in self._choices[each] for read in choice.reads)

    def _trees(self, buffer: int) -> tuple[Tree, ...]:
        """Candidates; a buffer that can be constant is computed from constants."""
        trees = self.enumeration.of(buffer)
        written = as_written(self.enumeration.forest, buffer) if self._with_written else None
        if written is not None and written not in trees:
            trees += (written,)
        return tuple(tree for tree in trees if self._at_compile_time(buffer, tree) or buffer not in self.constant)

    def _at_compile_time(self, buffer: int, tree: Tree) -> bool:
        return buffer in self.constant and self.constant.issuperset(tree.reads)

    def _choice(self, buffer: int, tree: Tree) -> Choice:
        self._is_rounding |= self._roundings.is_rounding(tree)
        reads = tuple(read for read in tree.reads if read not in self._inputs)
        if self._at_compile_time(buffer, tree):
            return Choice(buffer, tree, reads, self._constant_ns(buffer), compile_time=True)
        return Choice(buffer, tree, reads, self.enumeration.bound_of(buffer, tree))

    def _constant_ns(self, buffer: int) -> float:
        """What a constant costs. One made of indices and numbers alone, such as a causal mask, could be computed
        where it is read, and is charged the time to read it: else any is stored that a kernel hides behind its work."""
        size = self.enumeration.forest.type_of(buffer).nbytes
        bound = self._pricer.lower_bound
        reading = bound(0, size) - bound(0, 0) if buffer in self._made_of_nothing else 0.0
        return reading + TIE_NS_PER_BYTE * size

    def _columns(self, *, priced_only: bool, own_only: bool = False) -> tuple[tuple[Column, ...], list[Choice]]:
        choices = [
            choice
            for several in self._choices.values()
            for choice in several
            if not choice.refusal
            and (choice.priced or choice.compile_time or not priced_only)
            and (not own_only or self._own.issuperset((choice.buffer, *choice.reads)))
        ]
        return tuple(map(self._column, choices)), choices

    def _column(self, choice: Choice) -> Column:
        return Column(choice.buffer, choice.reads, self._prices.cost(choice), self._marks(choice.tree))

    def _marks(self, tree: Tree) -> tuple[Mark, ...]:
        return self._roundings.marks(tree) if self._is_rounding else ()

    def _leaf(self, buffer: int) -> str:
        type_ = self.enumeration.forest.type_of(buffer)
        return f"{'const ' if buffer in self.constant else ''}{type_}"

    def _region(self, choice: Choice) -> tuple[Region, tuple[int, ...]]:
        """The candidate as a region, and the buffers that are its inputs."""
        region = region_of(choice.tree, self.buffer(choice.buffer, constant=False), self.buffer)
        by_name = {self.names[buffer]: buffer for buffer in choice.tree.reads}
        return region, tuple(by_name[each.name] for each in region.inputs)

    def buffer(self, buffer: int, constant: bool | None = None) -> Buffer:
        """The edge of a region at this Buf class."""
        type_ = self.enumeration.forest.type_of(buffer)
        known = buffer in self.constant if constant is None else constant
        return Buffer(self.names[buffer], MemRef(type_.shape, type_.dtype.name), constant=known)

    def _fall_back(self) -> None:
        """Where no candidate is left, take the kernel as it was written."""
        added = False
        for buffer in list(self._choices):
            several = self._choices[buffer]
            if all(choice.refusal for choice in several):
                written = as_written(self.enumeration.forest, buffer)
                if written is not None and all(choice.tree is not written for choice in several):
                    several.append(self._choice(buffer, written))
                    for read in several[-1].reads:
                        self._demand(read)
                    added = True
        if not added:
            self._without_cover()

    def _without_cover(self) -> NoReturn:
        blocked = [buffer for buffer, several in self._choices.items() if all(each.refusal for each in several)]
        raise EqsatError(
            Diagnostic(
                kind=self._refusal(buffer).kind,
                stage=STAGE,
                message="no kernel can compute this value",
                at=self.names[buffer],
                details={"reason": self._refusal(buffer).reason},
            )
            for buffer in blocked or self._roots[:1]
        )

    def _refusal(self, buffer: int) -> Rejected:
        """Why the last candidate of a buffer was refused."""
        refusals = [each.refusal for each in self._choices.get(buffer, ()) if each.refusal]
        return refusals[-1] if refusals else Rejected("the rules left no candidate")

    def _contest(self, picked: Sequence[Choice]) -> Contest:
        """The cover against the other candidates for its outputs, the nearest of which are priced like its kernels,
        and so is what they would need."""
        while True:
            columns, choices = self._columns(priced_only=False)
            contest = Contest(Problem(columns, self._roots), choices, picked)
            if not self._prices.learn(contest.nearest):
                return contest

    def _total(self, picked: _Picked) -> float:
        return sum(map(self._prices.cost, picked.choices))

    def _finished(self, picked: _Picked, selections: Mapping[int, Selection], is_wanted: Wanted | None) -> Cover:
        single = [self._kernel(choice, selections.get(choice.buffer, UNCONTESTED)) for choice in picked.choices]
        kernels = joined(single, self._joining, is_wanted) if is_wanted else single
        assert_acyclic(kernels)
        return Cover(
            kernels=tuple(kernels),
            outputs=self.outputs,
            names=self.names,
            constants=self.constant,
            considered=sum(map(len, self._choices.values())),
            priced=len(self._prices),
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

    def _kernel(self, choice: Choice, selection: Selection) -> Kernel:
        assert choice.priced is not None
        buffers = self.enumeration.forest.shape_of(choice.tree).buffers
        reads = tuple(buffers[place] for place in choice.priced.inputs)
        return Kernel((choice.buffer,), (choice.tree,), reads, choice.priced.region, choice.price, selection)

    @property
    def _joining(self) -> Setting:
        return Setting(
            forest=self.enumeration.forest,
            pricer=self._pricer,
            candidates=lambda buffer: self._choices.get(buffer, ()),
            cost=self._prices.cost,
            fits=self.enumeration.fits,
            edge=self.buffer,
            leaf=self._leaf,
            marks=self._marks,
            given=self._inputs,
            roots=self._roots,
        )


def input_classes(view: EGraphView) -> dict[str, int]:
    """The Buf class of every input by its name."""
    return {str(node.args[0]): each for each, nodes in view.classes.items() for node in nodes if node.ctor == "Input"}


def buffer_names(view: EGraphView, inputs: Mapping[str, int], roots: Iterable[int]) -> dict[int, str]:
    """A name per Buf class, no two alike: the input's, else the output's Tiny id, else that of its first node."""
    names: dict[int, str] = {}
    for name, each in inputs.items():
        names.setdefault(each, name)
    taken = set(names.values())
    by_class: dict[int, str] = {}
    for tiny, each in view.tiny.items():
        by_class.setdefault(each, tiny)
    for each in [*roots, *by_class, *view.classes]:
        if each not in names and view.sorts[each].value == "Buf":
            name = by_class.get(each, f"t{each}")
            while name in taken:
                name += "_"
            names[each] = name
            taken.add(name)
    return names
