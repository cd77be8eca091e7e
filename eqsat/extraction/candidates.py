"""The candidates of one e-graph, as far as they were asked for, with what is known of their prices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NoReturn

from eqsat.egraph.buffers import buffer_names, constant_classes, input_classes
from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidate import CandidateCover, CandidateProblem, KernelCandidate
from eqsat.extraction.cover import Cover, CoverKernel, assert_acyclic
from eqsat.extraction.covering.problem import Column, Mark, Problem
from eqsat.extraction.enumeration.as_written import as_written
from eqsat.extraction.enumeration.enumeration import EGraphFacts, Enumeration, ordinary_nodes
from eqsat.extraction.enumeration.kernel_tree import Tree
from eqsat.extraction.enumeration.limits import DEFAULT, EnumerationLimits
from eqsat.extraction.prices import TIE_NS_PER_BYTE, Prices
from eqsat.extraction.rounding.one_rounding import Roundings
from ir.diagnostics import Diagnostic, EqsatError
from ir.pricer import Pricer, Rejected

STAGE = "extract"
"""The stage that diagnostics of extraction name."""


class Candidates:
    """What may compute each buffer that the roots of a program need.

    Args:
        outputs: Tiny nodes.
        constants: names of inputs that are known when the program is built.
        cold: names of inputs that no kernel of the program writes, where prices depend on that; then constants that
            are computed when the program is built are cold, too.
        prefix: of the names of buffers that no uop writes.
        given: names of the inputs whose memory the caller decides; None where kernels do not fill concatenations in
            place.
        free: Buf classes of outputs that only kernels of other parts of the program see.
    """

    def __init__(
        self,
        view: EGraphView,
        outputs: Sequence[str],
        pricer: Pricer,
        constants: Iterable[str] = (),
        limits: EnumerationLimits = DEFAULT,
        prefix: str = "",
        cold: Collection[str] = (),
        given: Collection[str] | None = None,
        free: Collection[int] = (),
    ) -> None:
        self._pricer = pricer
        self.outputs = tuple((name, view.tiny[name]) for name in outputs)
        inputs = input_classes(view)
        self.inputs = frozenset(inputs.values())
        self.constant = constant_classes(view, [inputs[name] for name in constants if name in inputs])
        self._made_of_nothing = constant_classes(view, ())
        buffers = [buffer for _, buffer in self.outputs]
        self.roots = tuple(buffer for buffer in dict.fromkeys(buffers) if buffer not in self.inputs)
        self.facts = EGraphFacts(view, pricer.lower_bound, buffers, self.constant, limits)
        self.forest = self.facts.forest
        self.enumeration = Enumeration(self.facts)
        self._ordinary = Enumeration(self.facts, ordinary_nodes(view), self.enumeration)
        self.names = buffer_names(view, inputs, buffers, prefix)
        self.roundings = Roundings(view, self.constant, pricer.ordered)
        cold_inputs = frozenset(inputs[name] for name in cold if name in inputs)
        unwritten = cold_inputs | (frozenset(self.constant) if cold else frozenset())
        fixed, results = None, {*buffers} - {*free}
        if given is not None:
            fixed = {inputs[name] for name in given if name in inputs} | results | self.constant
        unread = results if cold and given is not None else ()
        self.prices = Prices(pricer, self.forest, self.roundings, self.names, self.constant, unwritten, unread, fixed)
        self.by_buffer: dict[int, list[KernelCandidate]] = {}
        self._whole: tuple[tuple[int, int], CandidateProblem] | None = None

    def __len__(self) -> int:
        """How many candidates there are."""
        return sum(map(len, self.by_buffer.values()))

    def all(self) -> list[KernelCandidate]:
        """Every candidate that was asked for, by buffer."""
        return [candidate for several in self.by_buffer.values() for candidate in several]

    def demand_roots(self) -> None:
        """Enumerate the candidates of everything that the outputs may need."""
        for root in self.roots:
            self._demand(root)

    def _demand(self, root: int) -> None:
        """Enumerate the candidates of a buffer, and of every buffer that the candidates read."""
        waiting = [root]
        while waiting:
            buffer = waiting.pop()
            if buffer not in self.by_buffer and buffer not in self.inputs:
                self.by_buffer[buffer] = [self._candidate(buffer, tree) for tree in self._trees(buffer)]
                waiting.extend(read for candidate in self.by_buffer[buffer] for read in candidate.reads)

    def demand_as_written(self) -> None:
        """Enumerate these candidates, and add the kernel that each buffer was written with: rules may have left none of
        them."""
        self.demand_roots()
        while self.fall_back(tuple(self.by_buffer)):
            pass

    def fall_back(self, buffers: Iterable[int]) -> bool:
        """Add the kernel that each of these buffers was written with. Returns whether there was one to add."""
        added = False
        for buffer in buffers:
            written = as_written(self.forest, buffer)
            several = self.by_buffer[buffer]
            if (
                written is not None
                and self._is_allowed(buffer, written)
                and all(candidate.tree is not written for candidate in several)
            ):
                several.append(self._candidate(buffer, written))
                for read in several[-1].reads:
                    self._demand(read)
                added = True
        return added

    def problem(self, is_allowed: Callable[[KernelCandidate], bool] | None = None) -> CandidateProblem:
        """The covering problem of the candidates that were not refused: all, or those that are allowed."""
        if is_allowed is not None:
            return self._problem_of(filter(is_allowed, self.all()))
        known = len(self), sum(candidate.priced is not None for candidate in self.all())
        if self._whole is None or self._whole[0] != known:  # candidates are only added, and prices only learnt
            self._whole = known, self._problem_of(self.all())
        return self._whole[1]

    def _problem_of(self, candidates: Iterable[KernelCandidate]) -> CandidateProblem:
        accepted = [candidate for candidate in candidates if not candidate.refusal]
        return CandidateProblem(Problem(tuple(map(self._column, accepted)), self.roots), accepted)

    @property
    def blocked(self) -> list[int]:
        """The buffers that the candidates cannot compute from the inputs: all candidates were refused, or need another
        buffer that is blocked, as two copies do that are made of one another."""
        problem = self.problem().problem
        return [buffer for buffer in problem.order if buffer not in problem.computable]

    def _column(self, candidate: KernelCandidate) -> Column:
        """The candidate in a covering problem."""
        return Column(candidate.buffer, candidate.reads, self.prices.cost(candidate), self.marks(candidate))

    def marks(self, candidate: KernelCandidate) -> tuple[Mark, ...]:
        """How the candidate computes the values that others might compute in another way."""
        return self.roundings.marks([candidate.tree], folded=candidate.compile_time)

    def materialize(self, cover: CandidateCover) -> Cover:
        """The kernels of these candidates, which are all priced."""
        kernels = tuple(self._kernel(candidate) for candidate in cover)
        assert_acyclic(kernels)
        return Cover(kernels, self.outputs, self.names, self.constant)

    def _kernel(self, candidate: KernelCandidate) -> CoverKernel:
        priced = candidate.priced
        assert priced is not None
        return CoverKernel((candidate.buffer,), (candidate.tree,), priced.reads, priced.region, candidate.price)

    def fail_uncovered(self) -> NoReturn:
        """Say of each buffer that no kernel can compute why that is so."""
        blocked = self.blocked
        refused = [buffer for buffer in blocked if all(one.refusal for one in self.by_buffer.get(buffer, ()))]
        raise EqsatError(
            Diagnostic(
                kind=self._refusal(buffer).kind,
                stage=STAGE,
                message="no kernel can compute this value",
                at=self.names[buffer],
                details={"reason": self._refusal(buffer).reason},
            )
            for buffer in refused or blocked or self.roots[:1]
        )

    def _refusal(self, buffer: int) -> Rejected:
        """Why the last candidate of a buffer was refused."""
        refusals = [candidate.refusal for candidate in self.by_buffer.get(buffer, ()) if candidate.refusal]
        return refusals[-1] if refusals else Rejected("the rules left no candidate")

    def _trees(self, buffer: int) -> list[Tree]:
        """The candidates of a buffer as trees."""
        trees = dict.fromkeys((*self.enumeration.of(buffer), *self._ordinary.of(buffer)))
        return [tree for tree in trees if not self.roundings.disagree([tree]) and self._is_allowed(buffer, tree)]

    def _is_allowed(self, buffer: int, tree: Tree) -> bool:
        """Whether a tree may compute a buffer: one that can be constant is computed from constants."""
        return buffer not in self.constant or self.constant.issuperset(tree.reads)

    def _candidate(self, buffer: int, tree: Tree) -> KernelCandidate:
        compile_time = buffer in self.constant
        candidate = KernelCandidate(
            buffer,
            tree,
            reads=tuple(read for read in tree.reads if read not in self.inputs),
            bound_ns=self._constant_ns(buffer) if compile_time else self._bound_ns(buffer, tree),
            compile_time=compile_time,
            ordinary=tree in self._ordinary.of(buffer),
        )
        self.prices.enter(candidate)
        return candidate

    def _bound_ns(self, buffer: int, tree: Tree) -> float:
        """A time that no plan of this candidate can beat."""
        moved = sum(tree.reads.values()) + self.forest.type_of(buffer).nbytes
        return self._pricer.lower_bound(tree.flops, moved, self.facts.ranking.multiplies_narrow(tree))

    def _constant_ns(self, buffer: int) -> float:
        """What a constant costs. One made of indices and numbers alone, such as a causal mask, could be computed
        where it is read, and is charged the time to read it: else every such constant is stored that a kernel hides
        behind its work."""
        size = self.forest.type_of(buffer).nbytes
        bound = self._pricer.lower_bound
        reading = bound(0, size) - bound(0, 0) if buffer in self._made_of_nothing else 0.0
        return reading + TIE_NS_PER_BYTE * size
