"""The candidates of one e-graph, as far as they were asked for, with what is known of their prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from eqsat.assembly.term_to_region import region_of
from eqsat.egraph.view import EGraphView
from eqsat.extraction.as_written import as_written
from eqsat.extraction.candidate import KernelCandidate, PricedRegion
from eqsat.extraction.cover import CoverKernel
from eqsat.extraction.enumeration import Enumeration, constant_classes
from eqsat.extraction.extractors.problem import Column, Mark, Problem, cheapest_writers
from eqsat.extraction.joining import JoiningContext
from eqsat.extraction.kernel_tree import Tree
from eqsat.extraction.limits import DEFAULT, EnumerationLimits
from eqsat.extraction.one_rounding import SUM_TWICE, Roundings
from eqsat.extraction.prices import TIE_NS_PER_BYTE, Prices
from eqsat.extraction.selection import UNCONTESTED, Selection
from ir.diagnostics import Diagnostic, EqsatError
from ir.pricer import Pricer, Rejected
from ir.region.region import Buffer, MemRef, Region


class Candidates:
    """What may compute each buffer that the roots of a program need.

    Args:
        outputs: Tiny nodes.
        constants: names of inputs that are known when the program is built.
        with_written: whether the kernel that a buffer was loaded with is a candidate in any case.
    """

    def __init__(
        self,
        view: EGraphView,
        outputs: Sequence[str],
        pricer: Pricer,
        constants: Iterable[str] = (),
        limits: EnumerationLimits = DEFAULT,
        with_written: bool = False,
    ) -> None:
        self._with_written, self._pricer = with_written, pricer
        self.outputs = tuple((name, view.tiny[name]) for name in outputs)
        inputs = input_classes(view)
        self._inputs = frozenset(inputs.values())
        self.constant = constant_classes(view, [inputs[name] for name in constants if name in inputs])
        self._made_of_nothing = constant_classes(view, ())
        buffers = [buffer for _, buffer in self.outputs]
        self.roots = tuple(buffer for buffer in dict.fromkeys(buffers) if buffer not in self._inputs)
        self.enumeration = Enumeration(view, pricer.lower_bound, buffers, self.constant, limits)
        self.names = buffer_names(view, inputs, buffers)
        self.roundings = Roundings(view, self.constant, pricer.ordered)
        self.prices = Prices(pricer, self.enumeration.forest.shape_of, self._leaf, self._region, self._refused)
        self._joints: dict[tuple[object, ...], PricedRegion] = {}
        self.by_buffer: dict[int, list[KernelCandidate]] = {}

    def __len__(self) -> int:
        """All of them."""
        return sum(map(len, self.by_buffer.values()))

    def all(self) -> list[KernelCandidate]:
        """Those that were asked for, by buffer."""
        return [candidate for several in self.by_buffer.values() for candidate in several]

    def demand_roots(self) -> None:
        """Enumerate the candidates of everything that the outputs may need."""
        for buffer in self.roots:
            self._demand(buffer)

    def _demand(self, buffer: int) -> None:
        """Enumerate the candidates of a buffer, and of every buffer that they read."""
        waiting = [buffer]
        while waiting:
            each = waiting.pop()
            if each not in self.by_buffer and each not in self._inputs:
                self.by_buffer[each] = [self._candidate(each, tree) for tree in self._trees(each)]
                waiting.extend(read for candidate in self.by_buffer[each] for read in candidate.reads)

    def fall_back(self, buffers: Iterable[int]) -> bool:
        """Add the kernel that each of these buffers was written with; whether there was one to add."""
        added = False
        for buffer in buffers:
            written = as_written(self.enumeration.forest, buffer)
            several = self.by_buffer[buffer]
            if written is not None and all(candidate.tree is not written for candidate in several):
                several.append(self._candidate(buffer, written))
                for read in several[-1].reads:
                    self._demand(read)
                added = True
        return added

    @property
    def blocked(self) -> list[int]:
        """The buffers that the candidates cannot compute from the inputs: each was refused, or needs another that is
        blocked, as two copies do that are made of one another."""
        accepted = (candidate for several in self.by_buffer.values() for candidate in several if not candidate.refusal)
        problem = Problem(tuple(map(self.column, accepted)), self.roots)
        computable = cheapest_writers(problem)
        return [buffer for buffer in problem.order if buffer not in computable]

    def column(self, candidate: KernelCandidate) -> Column:
        """The candidate in a covering problem."""
        return Column(candidate.buffer, candidate.reads, self.prices.cost(candidate), self.marks(candidate))

    def marks(self, candidate: KernelCandidate) -> tuple[Mark, ...]:
        """How the candidate computes the values that others might compute in another way."""
        return self.roundings.marks([candidate.tree], folded=candidate.compile_time)

    def kernel(self, candidate: KernelCandidate, selection: Selection = UNCONTESTED) -> CoverKernel:
        """The candidate, once priced, in a cover."""
        assert candidate.priced is not None
        buffers = self.enumeration.forest.shape_of(candidate.tree).buffers
        reads = tuple(buffers[place] for place in candidate.priced.inputs)
        return CoverKernel(
            (candidate.buffer,), (candidate.tree,), reads, candidate.priced.region, candidate.price, selection
        )

    def buffer(self, buffer: int, constant: bool | None = None) -> Buffer:
        """The edge of a region at this Buf class."""
        type_ = self.enumeration.forest.type_of(buffer)
        known = buffer in self.constant if constant is None else constant
        return Buffer(self.names[buffer], MemRef(type_.shape, type_.dtype.name), constant=known)

    def fail_uncovered(self) -> NoReturn:
        """Say of each buffer that no kernel can compute why that is so."""
        blocked = self.blocked
        refused = [buffer for buffer in blocked if all(each.refusal for each in self.by_buffer.get(buffer, ()))]
        raise EqsatError(
            Diagnostic(
                kind=self._refusal(buffer).kind,
                stage="extract",
                message="no kernel can compute this value",
                at=self.names[buffer],
                details={"reason": self._refusal(buffer).reason},
            )
            for buffer in refused or blocked or self.roots[:1]
        )

    def _refusal(self, buffer: int) -> Rejected:
        """Why the last candidate of a buffer was refused."""
        refusals = [each.refusal for each in self.by_buffer.get(buffer, ()) if each.refusal]
        return refusals[-1] if refusals else Rejected("the rules left no candidate")

    @property
    def joining_context(self) -> JoiningContext:
        """What joining needs to know of them."""
        return JoiningContext(
            forest=self.enumeration.forest,
            pricer=self._pricer,
            candidates=lambda buffer: self.by_buffer.get(buffer, ()),
            cost=self.prices.cost,
            edge=self.buffer,
            leaf=self._leaf,
            roundings=self.roundings,
            given=self._inputs,
            roots=self.roots,
            priced=self._joints,
        )

    def _trees(self, buffer: int) -> tuple[Tree, ...]:
        """Candidates; a buffer that can be constant is computed from constants."""
        found = dict.fromkeys((*self.enumeration.of(buffer), *self.enumeration.ordinary(buffer)))
        trees = tuple(tree for tree in found if not self.roundings.disagree([tree]))
        written = as_written(self.enumeration.forest, buffer) if self._with_written else None
        if written is not None and written not in trees:
            trees += (written,)
        return tuple(tree for tree in trees if self._at_compile_time(buffer, tree) or buffer not in self.constant)

    def _at_compile_time(self, buffer: int, tree: Tree) -> bool:
        return buffer in self.constant and self.constant.issuperset(tree.reads)

    def _candidate(self, buffer: int, tree: Tree) -> KernelCandidate:
        reads = tuple(read for read in tree.reads if read not in self._inputs)
        ordinary = tree in self.enumeration.ordinary(buffer)
        if self._at_compile_time(buffer, tree):
            return KernelCandidate(buffer, tree, reads, self._constant_ns(buffer), compile_time=True, ordinary=ordinary)
        return KernelCandidate(buffer, tree, reads, self.enumeration.bound_of(buffer, tree), ordinary=ordinary)

    def _constant_ns(self, buffer: int) -> float:
        """What a constant costs. One made of indices and numbers alone, such as a causal mask, could be computed
        where it is read, and is charged the time to read it: else any is stored that a kernel hides behind its work."""
        size = self.enumeration.forest.type_of(buffer).nbytes
        bound = self._pricer.lower_bound
        reading = bound(0, size) - bound(0, 0) if buffer in self._made_of_nothing else 0.0
        return reading + TIE_NS_PER_BYTE * size

    def _leaf(self, buffer: int) -> str:
        type_ = self.enumeration.forest.type_of(buffer)
        return f"{'const ' if buffer in self.constant else ''}{type_}"

    def _refused(self, candidate: KernelCandidate, region: Region) -> Rejected | None:
        """Why no kernel may compute the candidate, whatever its price is."""
        return SUM_TWICE if self.roundings.repeats_sums([candidate.tree], region) else None

    def _region(self, candidate: KernelCandidate) -> tuple[Region, tuple[int, ...]]:
        """The candidate as a region, and the buffers that are its inputs."""
        region = region_of(candidate.tree, self.buffer(candidate.buffer, constant=False), self.buffer)
        by_name = {self.names[buffer]: buffer for buffer in candidate.tree.reads}
        return region, tuple(by_name[each.name] for each in region.inputs)


def input_classes(view: EGraphView) -> dict[str, int]:
    """The Buf class of every input by its name."""
    return {node.name: each for each, nodes in view.classes.items() for node in nodes if node.ctor == "Input"}


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
