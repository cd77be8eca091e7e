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

from eqsat.as_written import as_written
from eqsat.candidates import DEFAULT, Enumeration, Limits, constant_classes
from eqsat.choice import Choice, Priced
from eqsat.cover import EXTRACTORS, Column, Extractor, Problem, greedy, shuffled
from eqsat.egraph_view import EGraphView
from eqsat.kernel_tree import Tree, structure
from eqsat.one_rounding import Roundings, consistent
from eqsat.rivals import Contest
from eqsat.selection import UNCONTESTED, Selection
from eqsat.term_to_region import region_of
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.pricer import Price, Pricer, Rejected
from ir.region import Buffer, MemRef, Region

STAGE = "extract"
ROUNDS = 8
"""Covers computed before the choice is confined to kernels that are priced."""

TIE_NS_PER_FLOP, TIE_NS_PER_BYTE = 1e-8, 1e-9
"""Far below any time: among covers of one price the one that computes less wins (a roofline hides the smaller side),
then the one with fewer bytes of constants, whose kernels cost nothing when the program runs."""


@dataclass(frozen=True)
class Kernel:
    """One kernel of a cover.

    buffer    the Buf class it writes; `reads` those it reads, in the order of the region's inputs
    region    shared by all kernels that differ only in what they are applied to
    price     of its best plan; None for a kernel that runs once, when the program is built
    selection what else could have written the buffer, where that was asked for
    """

    buffer: int
    tree: Tree
    reads: tuple[int, ...]
    region: Region
    price: Price | None
    selection: Selection = UNCONTESTED

    @property
    def time_ns(self) -> float:
        return self.price.time_ns if self.price else 0.0


@dataclass(frozen=True)
class Cover:
    """The kernels in an order in which they can run, and what was learnt on the way.

    names: Buf class → the name of its buffer. considered: candidates; priced: distinct regions priced.
    """

    kernels: tuple[Kernel, ...]
    outputs: tuple[tuple[str, int], ...]
    names: Mapping[int, str]
    constants: frozenset[int]
    considered: int = 0
    priced: int = 0

    @property
    def time_ns(self) -> float:
        return sum(kernel.time_ns for kernel in self.kernels)


def extract(
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    *,
    constants: Iterable[str] = (),
    extractor: str = "pareto",
    limits: Limits = DEFAULT,
) -> Cover:
    """The cheapest cover that the extractor finds.

    Args:
        outputs: Tiny nodes.
        constants: names of inputs that are known when the program is built.

    Raises:
        EqsatError: UnsupportedOp, when some buffer has no candidate that can be a kernel.
    """
    if extractor not in EXTRACTORS:
        fail(Kind.INVALID_OPTION, STAGE, f"there is no extractor {extractor!r}", hint=", ".join(EXTRACTORS))
    extraction = Extraction(view, outputs, pricer, constants, limits)
    extraction.learn()
    return extraction.cover(EXTRACTORS[extractor], compared=True)


def random_cover(
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    rng: random.Random,
    *,
    constants: Iterable[str] = (),
    limits: Limits = DEFAULT,
) -> Cover:
    """Any legal cover, of kernels as they were written and as the rules made them: what tests run to show that
    every choice computes the same."""
    extraction = Extraction(view, outputs, pricer, constants, limits, with_written=True)
    return extraction.cover(lambda problem: shuffled(problem, rng))


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
        roots = [buffer for _, buffer in self.outputs]
        self.enumeration = Enumeration(view, pricer.lower_bound, roots, self.constant, limits)
        self.names = buffer_names(view, inputs, roots)
        self._pricer = pricer
        self._roots = tuple(buffer for buffer in dict.fromkeys(roots) if buffer not in self._inputs)
        self._roundings = Roundings(view, self.enumeration.forest.type_of)
        self._choices: dict[int, list[Choice]] = {}
        self._memo: dict[tuple[object, ...], Priced] = {}
        self._kinds: dict[tuple[str, ...], tuple[float, float]] = {}

    def cover(self, extractor: Extractor, *, compared: bool = False) -> Cover:
        """The cover that `extractor` makes of the priced candidates; `compared` with what else could be chosen, and
        made again as long as the prices learnt by that make a better one."""
        for buffer in self._roots:
            self._demand(buffer)
        picked = self._settled(extractor)
        if not compared:
            return self._finished(picked, {})
        contest = self._contest(picked)
        while contest.is_lost:
            again = self._settled(extractor)
            if self._total(again) >= self._total(picked):
                break
            picked, contest = again, self._contest(again)
        return self._finished(picked, contest.selections(self._choices, self.names))

    def learn(self) -> None:
        """Price what cheaply found covers choose, so that a dearer extractor starts from good estimates."""
        for buffer in self._roots:
            self._demand(buffer)
        self._settled(greedy)

    def _settled(self, extractor: Extractor) -> list[Choice]:
        """A cover of priced kernels: cover, price what was chosen, cover again."""
        rounds = 0
        while True:
            picked = self._covered(extractor, priced_only=True) if rounds >= ROUNDS else None
            if picked is None:
                picked = self._covered(extractor, priced_only=False)
            if picked is None:
                self._fall_back()
            elif not self._price_all(picked):
                return picked
            rounds += 1

    def _covered(self, extractor: Extractor, *, priced_only: bool) -> list[Choice] | None:
        columns, choices = self._columns(priced_only=priced_only)
        chosen = consistent(Problem(columns, self._roots), extractor, lambda k: self._roundings.marks(choices[k].tree))
        return None if chosen is None else [choices[index] for index in chosen]

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
        reads = tuple(read for read in tree.reads if read not in self._inputs)
        if self._at_compile_time(buffer, tree):
            size = self.enumeration.forest.type_of(buffer).nbytes
            return Choice(buffer, tree, reads, TIE_NS_PER_BYTE * size, compile_time=True)
        return Choice(buffer, tree, reads, self.enumeration.bound_of(buffer, tree))

    def _columns(self, *, priced_only: bool) -> tuple[tuple[Column, ...], list[Choice]]:
        choices = [
            choice
            for several in self._choices.values()
            for choice in several
            if not choice.refusal and (choice.priced or choice.compile_time or not priced_only)
        ]
        columns = (Column(choice.buffer, choice.reads, self._cost(choice)) for choice in choices)
        return tuple(columns), choices

    def _cost(self, choice: Choice) -> float:
        """The price, or the bound scaled by how far kernels of this kind were from theirs."""
        if choice.compile_time:
            return choice.bound_ns
        tie = TIE_NS_PER_FLOP * choice.tree.flops
        if choice.price is not None:
            return choice.price.time_ns + tie
        time, bound = self._kinds.get(choice.tree.kinds, (1.0, 1.0))
        return choice.bound_ns * max(1.0, time / bound) + tie

    def _price_all(self, picked: Sequence[Choice]) -> bool:
        """Price what is not priced yet; whether there was any."""
        fresh = [choice for choice in picked if choice.priced is None]
        for choice in fresh:
            choice.priced = self._priced(choice)
        return any(not choice.compile_time for choice in fresh)

    def _priced(self, choice: Choice) -> Priced:
        key = (self._leaf(choice.buffer), *structure(choice.tree, self._leaf))
        if key not in self._memo:
            region = self._region(choice)
            self._memo[key] = Priced(region, None if choice.compile_time else self._exact(choice, region))
        return self._memo[key]

    def _exact(self, choice: Choice, region: Region) -> Price | Rejected:
        """What the pricer says; a price tells how far the bounds of its kind are off."""
        found = self._pricer.price(region)
        if isinstance(found, Price) and choice.bound_ns > 0:
            time, bound = self._kinds.get(choice.tree.kinds, (0.0, 0.0))
            self._kinds[choice.tree.kinds] = (time + found.time_ns, bound + choice.bound_ns)
        return found

    def _leaf(self, buffer: int) -> str:
        type_ = self.enumeration.forest.type_of(buffer)
        return f"{'const ' if buffer in self.constant else ''}{type_}"

    def _region(self, choice: Choice) -> Region:
        return region_of(choice.tree, self.buffer(choice.buffer, constant=False), self.buffer)

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
                kind=Kind.UNSUPPORTED_OP,
                stage=STAGE,
                message="no kernel can compute this value",
                at=self.names[buffer],
                details={"reason": self._reason(buffer)},
            )
            for buffer in blocked or self._roots[:1]
        )

    def _reason(self, buffer: int) -> str:
        """Why the last candidate of a buffer was refused."""
        refusals = [each.refusal.reason for each in self._choices.get(buffer, ()) if each.refusal]
        return refusals[-1] if refusals else "the rules left no candidate"

    def _contest(self, picked: Sequence[Choice]) -> Contest:
        """The cover against the other candidates for its outputs, the nearest of which are priced like its kernels,
        and so is what they would need."""
        while True:
            columns, choices = self._columns(priced_only=False)
            contest = Contest(Problem(columns, self._roots), choices, picked)
            if not self._price_all(contest.nearest):
                return contest

    def _total(self, picked: Sequence[Choice]) -> float:
        return sum(map(self._cost, picked))

    def _finished(self, picked: Sequence[Choice], selections: Mapping[int, Selection]) -> Cover:
        kernels = tuple(self._kernel(choice, selections.get(choice.buffer, UNCONTESTED)) for choice in picked)
        _assert_acyclic(kernels)
        return Cover(
            kernels=kernels,
            outputs=self.outputs,
            names=self.names,
            constants=self.constant,
            considered=sum(map(len, self._choices.values())),
            priced=len(self._memo),
        )

    def _kernel(self, choice: Choice, selection: Selection) -> Kernel:
        assert choice.priced is not None
        by_name = {self.names[buffer]: buffer for buffer in choice.tree.reads}
        reads = tuple(by_name[each.name] for each in self._region(choice).inputs)
        return Kernel(choice.buffer, choice.tree, reads, choice.priced.region, choice.price, selection)


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


def _assert_acyclic(kernels: Sequence[Kernel]) -> None:
    """The order of the kernels is one in which they can run; networkx is a second opinion on that."""
    import networkx

    graph = networkx.DiGraph((read, kernel.buffer) for kernel in kernels for read in kernel.reads)
    assert networkx.is_directed_acyclic_graph(graph), "the cover has a cycle"
    place = {kernel.buffer: position for position, kernel in enumerate(kernels)}
    for position, kernel in enumerate(kernels):
        assert all(place.get(read, -1) < position for read in kernel.reads), "a kernel runs before its source"
