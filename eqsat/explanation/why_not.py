"""Why two kernels were not fused: the fused kernel is dearer, or an analysis forbids it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, Protocol

import msgspec

from eqsat.cost.fusion import fusion
from eqsat.cost.roofline import Roofline
from eqsat.egraph.barriers import closed_uops
from eqsat.egraph.enode import ENode
from eqsat.explanation.attempts import Attempts
from eqsat.explanation.chain import Chosen
from eqsat.explanation.kernel_by_name import Wanted, place_of
from eqsat.explanation.notation import read_text
from eqsat.explanation.price_text import fusion_text, span
from eqsat.explanation.setting import Setting
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.enumeration.kernel_tree import Tree
from eqsat.extraction.selection import Apart, Rival
from eqsat.looping.stored_bytes import stored_bytes
from eqsat.planning.target_pricer import cold_inputs, pricer_for
from eqsat.runtime.compiled import Compiled, KernelReport
from ir.module.loop import Loop, with_inner
from ir.pricer import Price, Pricer, Rejected
from ir.term.text import sizes_text
from rules import select

Kind = Literal[
    "cost", "refused", "rules", "limits", "between", "apart", "placed", "barrier", "layout", "loop", "call", "same"
]


class WhyNot(msgspec.Struct, frozen=True):
    """The answer for two kernels.

    kind     cost     a fused kernel is dearer: `figures` in ns
             refused  the code generator's analyses refused the fused kernel, or it may not hold both
             rules    no rule computes the first kernel's result inside the second
             limits   the rules do, but one kernel may not hold the accumulators of both
             between  the second kernel reads a result that another kernel computes from the first's
             apart    neither kernel reads the other's result, and a kernel that writes both gains nothing
             placed   the second reads a concatenation of which the first writes a part, in its place
             barrier  the second reads the result of a uop with a barrier, or bytes that are stored
             layout   one of them copies what it reads to another order of axes
             loop     one of them runs once per trip of a loop, or before it, the other one does not
             call     one of them belongs to a call that is optimized by itself, the other one does not
             same     they are the same kernel
    verdict  in one sentence; `reasons` give the details
    """

    first: str
    second: str
    kind: Kind
    verdict: str
    reasons: tuple[str, ...] = ()
    figures: dict[str, float] = {}

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.first} and {self.second}: {self.verdict}", *(f"  {reason}" for reason in self.reasons)]
        )


class Launched(Chosen, Protocol):
    """Chosen kernels with their reports and the setting of the run."""

    @property
    def kernels(self) -> tuple[KernelReport, ...]: ...
    @property
    def setting(self) -> Setting: ...


def why_not(chosen: Launched, first: Wanted, second: Wanted) -> WhyNot:
    """Why these two are not one kernel, in either order.

    Raises:
        EqsatError: InvalidOption if no kernel, or several kernels, have a name.
    """
    places = sorted((place_of(chosen.kernels, first), place_of(chosen.kernels, second)))
    return Pairs(chosen).why_not(*places)


def why_not_in_program(compiled: Compiled, first: Wanted, second: Wanted) -> WhyNot:
    """Why two kernels of a program are not one kernel. Raises as `why_not`."""
    places = sorted((place_of(compiled.kernels, first), place_of(compiled.kernels, second)))
    (one, place), (other, other_place) = map(compiled.part_at, places)
    if one == other:
        return Pairs(one).why_not(place, other_place)
    names = [_kernel_text(compiled.kernels[place]) for place in places]
    if _are_parted_by_loop(compiled.artifact.module.loops, *places):
        verdict = "a loop begins or ends between them, and no kernel is part of two loops"
        return WhyNot(names[0], names[1], "loop", verdict)
    verdict = "a call begins or ends between them that is optimized by itself, once for all calls that equal it"
    return WhyNot(names[0], names[1], "call", verdict)


def _are_parted_by_loop(loops: Sequence[Loop], first: int, second: int) -> bool:
    """Whether a loop begins or ends between two launches."""
    return any(first < edge <= second for loop in with_inner(loops) for edge in (loop.first, loop.end))


class Pairs:
    """Answers for pairs of one program's kernels."""

    def __init__(self, chosen: Launched) -> None:
        self._chosen, self._history = chosen, chosen.history
        self._kernels = chosen.kernels

    @cached_property
    def _pricer(self) -> Pricer:
        setting = self._chosen.setting
        return pricer_for(setting.target, setting.options, setting.bound.graph)

    @cached_property
    def _choices(self) -> Candidates:
        bound, prefix = self._chosen.setting.bound, self._chosen.setting.prefix
        constants = sorted(bound.constants)
        cold = cold_inputs(self._chosen.setting.given, self._chosen.setting.target)
        return Candidates(self._history.view, bound.graph.outputs, self._pricer, constants, prefix=prefix, cold=cold)

    @cached_property
    def _closed(self) -> Sequence[str]:
        return sorted(closed_uops(self._chosen.setting.bound.graph))

    @cached_property
    def _roofline(self) -> Roofline:
        return Roofline(self._chosen.setting.target, self._chosen.setting.options.cost_model)

    @cached_property
    def _attempts(self) -> Attempts:
        options = self._chosen.setting.options
        return Attempts(self._history, select(options.rules, options.exactness))

    def why_not(self, first: int, second: int) -> WhyNot:
        """The answer for the kernels at two places, the earlier first."""
        one, other = self._kernels[first], self._kernels[second]
        if first == second:
            return self._answer(one, other, "same", "they are the same kernel")
        shared = [name for name in one.writes if name in other.reads]
        filled = [name for name in one.fills if name in other.reads]
        if filled and not shared:
            verdict = f"the second reads {filled[0]}, a concatenation of which the first writes a part"
            return self._answer(one, other, "placed", verdict)
        if not shared:
            return self._not_adjacent(first, second)
        return self._adjacent(first, second, shared[0])

    def _not_adjacent(self, first: int, second: int) -> WhyNot:
        """The answer if the second kernel does not read the first one's result."""
        one, other = self._kernels[first], self._kernels[second]
        reached = {*one.writes, *one.fills}
        between = []
        for kernel in self._kernels[first + 1 : second]:
            if reached.intersection(kernel.reads):
                reached |= {*kernel.writes, *kernel.fills}
                between.append(kernel)
        if reached.intersection(other.reads):
            names = ", ".join(kernel.writes[0] for kernel in between)
            verdict = "the second reads a result that other kernels compute from the first's"
            return self._answer(one, other, "between", verdict, [f"between them: {names}"])
        common = [name for name in one.reads if name in other.reads]
        common_reads = f"both read {', '.join(common)}" if common else "they read nothing in common"
        tried = _joint_attempt(one, other)
        if tried is None:
            return self._answer(one, other, "apart", "neither reads what the other writes", [common_reads])
        if tried.extra_ns is None:
            verdict = "a kernel that writes the results of both cannot be generated"
            return self._answer(one, other, "refused", verdict, [tried.reason, common_reads])
        figures = {"first_ns": one.estimated_ns, "second_ns": other.estimated_ns, **_figures(tried)}
        return self._answer(one, other, "cost", _joint_text(tried), [common_reads], figures)

    def _adjacent(self, first: int, second: int, buffer: str) -> WhyNot:
        """The answer if the second kernel reads `buffer`, which the first writes."""
        one, other = self._kernels[first], self._kernels[second]
        classes, terms = self._history.classes, self._chosen.terms
        copies = [self._kernels[place].name for place in (first, second) if terms[place].is_copy]
        if copies:
            verdict = f"{copies[0]} copies {buffer} to or from another order of axes, which takes less than it saves"
            return self._answer(one, other, "layout", verdict)
        closed = [uop for uop in self._closed if self._history.view.tiny[uop] == classes[buffer]]
        if closed:
            rounds = closed[0] in stored_bytes(self._chosen.setting.bound.graph)
            reason = "rounds floats to bytes, which are stored" if rounds else "has a barrier"
            verdict = f"the uop {closed[0]} {reason}: no kernel that reads {buffer} computes it"
            return self._answer(one, other, "barrier", verdict)
        output = terms[second].outputs_reading(buffer)[0]
        read, written = classes[buffer], classes[other.writes[output]]
        given = {classes[name] for name in terms[first].reads | terms[second].reads} - {read} | self._choices.constant
        fused = [tree for tree in self._choices.enumeration.of(written) if given.issuperset(tree.reads)]
        if fused:
            return self._answer_by_price(one, other, buffer, written, fused)
        reads = [ENode("Load", (read, at)) for at in terms[second].loads(buffer)]
        if reads and all(self._attempts.inlined_forms(node, given) for node in reads):
            return self._answer_by_limits(one, other, buffer, len(reads))
        reasons = self._missing_rules(reads, buffer, other)
        memref = self._choices.prices.edge(read).memref
        result = f"{buffer}, the {memref.dtype}{sizes_text(memref.shape)} that {one.name} writes,"
        verdict = f"no rule computes {result} inside of {other.name}"
        too_much = self._too_much(one, other)
        besides = [f"besides, {too_much[0]}: {too_much[1]}"] if too_much else []
        return self._answer(one, other, "rules", verdict, [*reasons, *besides])

    def _missing_rules(self, reads: Sequence[ENode], buffer: str, reader: KernelReport) -> list[str]:
        """The rules that would be needed at the reads, with the conditions that fail there. Reads where the same rules
        fail are reported once."""
        if not reads:
            return [f"{reader.name} reads {buffer} at indices that are computed: it must lie in memory"]
        lines_by_rules: dict[tuple[str, ...], list[str]] = {}
        for node in reads:
            at = f"{reader.name} reads {buffer}{read_text(node.map)}"
            failed = [attempt for attempt in self._attempts.at(node) if attempt.failed][:MOST_RULES]
            if not failed:
                ctors = ", ".join(sorted({value.ctor for value in self._value(node.buffer)}))
                at += f": no rule's left side matches this value ({ctors})"
            lines = [f"{tried.rule.name} ({tried.rule.equation}) needs {tried.failed[0]}" for tried in failed]
            lines_by_rules.setdefault(tuple(tried.rule.name for tried in failed), [at, *lines])
        return [line for lines in lines_by_rules.values() for line in lines]

    def _value(self, buffer: int) -> list[ENode]:
        """The e-nodes of the value that a buffer holds."""
        view = self._history.view
        return [node for store in view.stores(buffer) for node in view.classes[store.value]]

    def _answer_by_limits(self, one: KernelReport, other: KernelReport, buffer: str, reads: int) -> WhyNot:
        """The answer if the rules fuse the kernels, but no kernel may hold the result. reads: of the first's result."""
        computed = f"the rules do compute {buffer} inside of {other.name}"
        computed += f", once for each of its {reads} reads" if reads > 1 else ""
        too_much = self._too_much(one, other, reads)
        if too_much:
            return self._answer(one, other, "limits", too_much[0], [computed, too_much[1]])
        verdict = "no kernel that is both is among the candidates"
        why = (
            "left out before they are priced: kernels that read and compute more than another candidate, and kernels "
            f"that would finish an accumulator of {one.name} again at each of the points that read it"
        )
        return self._answer(one, other, "limits", verdict, [computed, why])

    def _too_much(self, one: KernelReport, other: KernelReport, reads: int = 1) -> tuple[str, str] | None:
        """Why one kernel may not hold the accumulators of both kernels, and the accumulators; None if it may. The first
        kernel's accumulators are needed once for each read."""
        first, second = self._accumulators(one), self._accumulators(other)
        often = f" for each of {reads} reads" if reads > 1 else ""
        accumulators = (
            f"{one.writes[0]} holds {_count_text(first)}{often}, {other.writes[0]} holds {_count_text(second)}"
        )
        if "Contract" in (*first, *second) and len(first) * reads + len(second) > 1 and first:
            return "one kernel may not hold a contraction beside another accumulator", accumulators
        return None

    def _accumulators(self, kernel: KernelReport) -> list[str]:
        term = self._chosen.terms[place_of(self._kernels, kernel)]
        return [str(line[0]) for line in term.lines if line[0] in ("Contract", "Reduce", "Scan", "Scatter", "Stream")]

    def _answer_by_price(
        self, one: KernelReport, other: KernelReport, buffer: str, written: int, fused: Sequence[Tree]
    ) -> WhyNot:
        """The answer if there are fused kernels: their prices, or why they were refused."""
        priced = [(self._price(written, tree), tree) for tree in fused]
        allowed = [(price, tree) for price, tree in priced if isinstance(price, Price)]
        rivals = [(self._rival(other, tree), price, tree) for price, tree in allowed]
        swaps = [(rival.extra_ns, price, tree) for rival, price, tree in rivals if rival and rival.extra_ns is not None]
        if swaps:
            extra, price, tree = min(swaps, key=lambda swap: swap[0])
            return self._answer_dearer(one, other, buffer, price, tree, extra)
        if allowed:
            price, tree = min(allowed, key=lambda pair: pair[0].time_ns)
            return self._answer_dearer(one, other, buffer, price, tree, None)
        refusals = [price for price, _ in priced if isinstance(price, Rejected)]
        reasons = dict.fromkeys(f"{refusal.kind}: {refusal.reason}" for refusal in refusals)
        return self._answer(one, other, "refused", "a kernel that is both cannot be generated", list(reasons))

    def _answer_dearer(
        self, one: KernelReport, other: KernelReport, buffer: str, price: Price, tree: Tree, extra: float | None
    ) -> WhyNot:
        names = self._history.names
        own = price.time_ns
        figures = {"first_ns": one.estimated_ns, "second_ns": other.estimated_ns, "fused_ns": own}
        readers = [kernel.writes[0] for kernel in self._kernels if buffer in kernel.reads and kernel is not other]
        reads = ", ".join(names[class_] for class_ in tree.reads)
        reasons = [
            f"the kernel that is both reads {reads} and takes {span(own)}; "
            f"{one.writes[0]} takes {span(one.estimated_ns)} and {other.writes[0]} {span(other.estimated_ns)}"
        ]
        if readers:
            reasons.append(f"{buffer} is also read by {', '.join(readers)}: it is written in any case")
        tried = _joint_attempt(one, other)
        if tried is not None and tried.extra_ns is not None:
            reasons.append(_joint_text(tried))
        reasons += _differences(other, price)
        replaced = [other] if readers else [one, other]
        change = fusion(price.work, [kernel.work for kernel in replaced], self._roofline)
        own_terms_ns = own - sum(kernel.estimated_ns for kernel in replaced) - change.time
        reasons += fusion_text(change, own_terms_ns if self._chosen.setting.options.cost_model.own else 0.0)
        if extra is None:
            verdict = "a kernel that is both is not among the nearest candidates"
        else:
            figures["extra_ns"] = extra
            verdict = f"the program would take {span(extra)} longer with a kernel that is both"
        return self._answer(one, other, "cost", verdict, reasons, figures)

    def _rival(self, kernel: KernelReport, tree: Tree) -> Rival | None:
        """The rejected candidate of the kernel that this tree is, with its price; None if it was not kept."""
        reads = {self._history.names[class_] for class_ in tree.reads}
        same = [rival for rival in kernel.selection.rivals if set(rival.reads) == reads and rival.extra_ns is not None]
        return min(same, key=lambda rival: rival.extra_ns or 0.0, default=None)

    def _price(self, written: int, tree: Tree) -> Price | Rejected:
        region, _ = self._choices.prices.region([(written, tree)])
        return self._pricer.price(region)

    def _answer(
        self,
        one: KernelReport,
        other: KernelReport,
        kind: Kind,
        verdict: str,
        reasons: Sequence[str] = (),
        figures: dict[str, float] | None = None,
    ) -> WhyNot:
        return WhyNot(_kernel_text(one), _kernel_text(other), kind, verdict, tuple(reasons), figures or {})


def _joint_attempt(one: KernelReport, other: KernelReport) -> Apart | None:
    """The attempt at one kernel that writes the results of both; None if there was none."""
    return next((attempt for attempt in other.selection.apart if attempt.writes == one.writes), None)


def _joint_text(tried: Apart) -> str:
    longer = span(tried.extra_ns or 0.0)
    return f"one kernel that writes the results of both takes {span(tried.time_ns or 0.0)}, {longer} longer"


def _figures(tried: Apart) -> dict[str, float]:
    return {"fused_ns": tried.time_ns or 0.0, "extra_ns": tried.extra_ns or 0.0}


MOST_RULES = 4
"""Rules that an answer names at one read."""


def _differences(kernel: KernelReport, fused: Price) -> list[str]:
    """Work of the fused kernel compared with the work of the second kernel."""
    return [
        f"it computes {fused.work.flops:,.0f} flops (the second {kernel.flops:,.0f}) and moves {fused.work.bytes:,.0f} "
        f"bytes (the second {kernel.bytes:,.0f}), bound by {fused.bound}"
    ]


def _count_text(ctors: Sequence[str]) -> str:
    names = {"Contract": "contraction", "Reduce": "reduction", "Scan": "scan"}
    names |= {"Scatter": "scatter", "Stream": "streamed sum"}
    counts = [
        f"{ctors.count(ctor)} {names[ctor]}{'s' if ctors.count(ctor) > 1 else ''}" for ctor in names if ctor in ctors
    ]
    return ", ".join(counts) or "no accumulator"


def _kernel_text(kernel: KernelReport) -> str:
    return f"{', '.join(kernel.writes)} = {kernel.name}"
