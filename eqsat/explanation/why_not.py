"""Why two kernels are not one: what it would cost, or what forbids it and by which analysis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, Protocol

import msgspec

from eqsat.assembly.term_to_region import region_of
from eqsat.cost.fusion import fusion
from eqsat.cost.roofline import Roofline
from eqsat.egraph.enode import ENode
from eqsat.explanation.attempts import Attempts
from eqsat.explanation.chain import Chosen
from eqsat.explanation.notation import read_text
from eqsat.explanation.price_text import fusion_text, span
from eqsat.explanation.setting import Setting
from eqsat.explanation.which import Wanted, place_of
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.kernel_tree import Tree
from eqsat.extraction.selection import Apart, Rival
from eqsat.planning.target_pricer import pricer_for
from eqsat.runtime.compiled import KernelReport
from ir.pricer import Price, Pricer, Rejected
from ir.term.text import sizes_text
from rules import select

Kind = Literal["cost", "refused", "rules", "limits", "between", "apart", "same"]


class WhyNot(msgspec.Struct, frozen=True):
    """The answer for two kernels.

    kind     cost     a kernel that is both, and reads what they read, is dearer: `figures` in ns
             refused  a kernel that is both was refused by the code generator's analyses, or may not hold both
             rules    no rule computes the first's result inside of the second
             limits   the rules do, but one kernel may not hold all that both accumulate
             between  the second needs what another kernel makes of the first's result
             apart    neither reads what the other writes, and nothing was gained by one that writes both
             same     they are one kernel
    verdict  in one sentence; `reasons` with what stands behind it
    """

    first: str
    second: str
    kind: Kind
    verdict: str
    reasons: tuple[str, ...] = ()
    figures: dict[str, float] = {}

    def __str__(self) -> str:
        return "\n".join([f"{self.first} and {self.second}: {self.verdict}", *(f"  {each}" for each in self.reasons)])


class Launched(Chosen, Protocol):
    """The kernels that were chosen, with their reports."""

    @property
    def kernels(self) -> tuple[KernelReport, ...]: ...
    @property
    def setting(self) -> Setting: ...


def why_not(chosen: Launched, first: Wanted, second: Wanted) -> WhyNot:
    """Why these two are not one kernel, in whichever order they run.

    Raises:
        EqsatError: InvalidOption for the name of no kernel, or of several.
    """
    places = sorted((place_of(chosen.kernels, first), place_of(chosen.kernels, second)))
    return Pairs(chosen).why_not(*places)


class Pairs:
    """Answers for the pairs of one program's kernels."""

    def __init__(self, chosen: Launched) -> None:
        self._chosen, self._history = chosen, chosen.history
        self._kernels = chosen.kernels

    @cached_property
    def _pricer(self) -> Pricer:
        return pricer_for(self._chosen.setting.target, self._chosen.setting.options)

    @cached_property
    def _choices(self) -> Candidates:
        bound = self._chosen.setting.bound
        return Candidates(self._history.view, bound.graph.outputs, self._pricer, sorted(bound.constants))

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
        if not shared:
            return self._not_adjacent(first, second)
        return self._adjacent(first, second, shared[0])

    def _not_adjacent(self, first: int, second: int) -> WhyNot:
        """Neither reads the other's result: something stands between them, or nothing connects them."""
        one, other = self._kernels[first], self._kernels[second]
        reached = set(one.writes)
        between = []
        for kernel in self._kernels[first + 1 : second]:
            if reached.intersection(kernel.reads):
                reached.update(kernel.writes)
                between.append(kernel)
        if reached.intersection(other.reads):
            names = ", ".join(each.writes[0] for each in between)
            verdict = "the second reads what other kernels make of the first's result"
            return self._answer(one, other, "between", verdict, [f"between them: {names}"])
        common = [name for name in one.reads if name in other.reads]
        told = f"both read {', '.join(common)}" if common else "they read nothing in common"
        tried = _tried(one, other)
        if tried is None:
            return self._answer(one, other, "apart", "neither reads what the other writes", [told])
        if tried.extra_ns is None:
            verdict = "a kernel that writes the results of both cannot be generated"
            return self._answer(one, other, "refused", verdict, [tried.reason, told])
        figures = {"first_ns": one.estimated_ns, "second_ns": other.estimated_ns, **_figures(tried)}
        return self._answer(one, other, "cost", _joint_text(tried), [told], figures)

    def _adjacent(self, first: int, second: int, buffer: str) -> WhyNot:
        """The second reads what the first writes."""
        one, other = self._kernels[first], self._kernels[second]
        classes, terms = self._history.classes, self._chosen.terms
        output = terms[second].outputs_reading(buffer)[0]
        read, written = classes[buffer], classes[other.writes[output]]
        given = {classes[name] for name in terms[first].reads | terms[second].reads} - {read} | self._choices.constant
        fused = [tree for tree in self._choices.enumeration.of(written) if given.issuperset(tree.reads)]
        if fused:
            return self._judged(one, other, buffer, written, fused)
        reads = [ENode("Load", (read, at)) for at in terms[second].loads(buffer)]
        if reads and all(self._attempts.inlined(each, given) for each in reads):
            return self._limited(one, other, buffer, len(reads))
        reasons = self._missing(reads, buffer, other)
        held = self._choices.buffer(read).memref
        what = f"{buffer}, the {held.dtype}{sizes_text(held.shape)} that {one.name} writes,"
        verdict = f"no rule computes {what} inside of {other.name}"
        too_much = self._too_much(one, other)
        besides = [f"besides, {too_much[0]}: {too_much[1]}"] if too_much else []
        return self._answer(one, other, "rules", verdict, [*reasons, *besides])

    def _missing(self, reads: Sequence[ENode], buffer: str, reader: KernelReport) -> list[str]:
        """The rules that would be needed at the reads, with the conditions that fail; of reads where the same rules
        fail only the first."""
        if not reads:
            return [f"{reader.name} reads {buffer} at indices that are computed: it must lie in memory"]
        told: dict[tuple[str, ...], list[str]] = {}
        for each in reads:
            at = f"{reader.name} reads {buffer}{read_text(each.map)}"
            failed = [attempt for attempt in self._attempts.at(each) if attempt.failed][:_TOLD]
            if not failed:
                held = ", ".join(sorted({node.ctor for node in self._value(each.buffer)}))
                at += f": no rule has a left side for such a value ({held})"
            lines = [f"{tried.rule.name} ({tried.rule.equation}) needs {tried.failed[0]}" for tried in failed]
            told.setdefault(tuple(tried.rule.name for tried in failed), [at, *lines])
        return [line for lines in told.values() for line in lines]

    def _value(self, buffer: int) -> list[ENode]:
        view = self._history.view
        return [node for store in view.stores(buffer) for node in view.classes[store.value]]

    def _limited(self, one: KernelReport, other: KernelReport, buffer: str, reads: int) -> WhyNot:
        """The rules made one value of both, but no kernel may hold it; the second reads the first's result so often."""
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
        """Why one kernel may not hold the accumulators of both, those of the first once for each read, and what they
        are; None where it may."""
        first, second = self._accumulators(one), self._accumulators(other)
        often = f" for each of {reads} reads" if reads > 1 else ""
        held = f"{one.writes[0]} holds {_listed(first)}{often}, {other.writes[0]} holds {_listed(second)}"
        if "Contract" in (*first, *second) and len(first) * reads + len(second) > 1 and first:
            return "one kernel may not hold a contraction beside another accumulator", held
        return None

    def _accumulators(self, kernel: KernelReport) -> list[str]:
        term = self._chosen.terms[place_of(self._kernels, kernel)]
        return [str(line[0]) for line in term.lines if line[0] in ("Contract", "Reduce", "Scan", "Stream")]

    def _judged(
        self, one: KernelReport, other: KernelReport, buffer: str, written: int, fused: Sequence[Tree]
    ) -> WhyNot:
        """There are kernels that are both: what they cost, or why they were refused."""
        priced = [(self._price(written, tree), tree) for tree in fused]
        allowed = [(price, tree) for price, tree in priced if isinstance(price, Price)]
        told = [(self._rival(other, tree), price, tree) for price, tree in allowed]
        swaps = [(rival.extra_ns, price, tree) for rival, price, tree in told if rival and rival.extra_ns is not None]
        if swaps:
            extra, price, tree = min(swaps, key=lambda swap: swap[0])
            return self._dearer(one, other, buffer, price, tree, extra)
        if allowed:
            price, tree = min(allowed, key=lambda pair: pair[0].time_ns)
            return self._dearer(one, other, buffer, price, tree, None)
        refusals = [price for price, _ in priced if isinstance(price, Rejected)]
        reasons = dict.fromkeys(f"{each.kind}: {each.reason}" for each in refusals)
        return self._answer(one, other, "refused", "a kernel that is both cannot be generated", list(reasons))

    def _dearer(
        self, one: KernelReport, other: KernelReport, buffer: str, price: Price, tree: Tree, extra: float | None
    ) -> WhyNot:
        names = self._history.names
        own = price.time_ns
        figures = {"first_ns": one.estimated_ns, "second_ns": other.estimated_ns, "fused_ns": own}
        readers = [each.writes[0] for each in self._kernels if buffer in each.reads and each is not other]
        reads = ", ".join(names[each] for each in tree.reads)
        reasons = [
            f"the kernel that is both reads {reads} and takes {span(own)}; "
            f"{one.writes[0]} takes {span(one.estimated_ns)} and {other.writes[0]} {span(other.estimated_ns)}"
        ]
        if readers:
            reasons.append(f"{buffer} is also read by {', '.join(readers)}: it is written in any case")
        tried = _tried(one, other)
        if tried is not None and tried.extra_ns is not None:
            reasons.append(_joint_text(tried))
        reasons += _differences(other, price)
        gone = [other.work] if readers else [one.work, other.work]
        reasons += fusion_text(fusion(price.work, gone, self._roofline))
        if extra is None:
            verdict = "a kernel that is both is not among the nearest candidates"
        else:
            figures["extra_ns"] = extra
            verdict = f"the program would take {span(extra)} longer with a kernel that is both"
        return self._answer(one, other, "cost", verdict, reasons, figures)

    def _rival(self, kernel: KernelReport, tree: Tree) -> Rival | None:
        """What was told of this candidate when the kernel was chosen."""
        reads = {self._history.names[each] for each in tree.reads}
        same = [each for each in kernel.selection.rivals if set(each.reads) == reads and each.extra_ns is not None]
        return min(same, key=lambda each: each.extra_ns or 0.0, default=None)

    def _price(self, written: int, tree: Tree) -> Price | Rejected:
        buffer = self._choices.buffer
        return self._pricer.price(region_of(tree, buffer(written, constant=False), buffer))

    def _answer(
        self,
        one: KernelReport,
        other: KernelReport,
        kind: Kind,
        verdict: str,
        reasons: Sequence[str] = (),
        figures: dict[str, float] | None = None,
    ) -> WhyNot:
        return WhyNot(_named(one), _named(other), kind, verdict, tuple(reasons), figures or {})


def _tried(one: KernelReport, other: KernelReport) -> Apart | None:
    """What became of one kernel that writes the results of both."""
    return next((each for each in other.selection.apart if each.writes == one.writes), None)


def _joint_text(tried: Apart) -> str:
    longer = span(tried.extra_ns or 0.0)
    return f"one kernel that writes the results of both takes {span(tried.time_ns or 0.0)}, {longer} longer"


def _figures(tried: Apart) -> dict[str, float]:
    return {"fused_ns": tried.time_ns or 0.0, "extra_ns": tried.extra_ns or 0.0}


_TOLD = 4
"""Rules that are told of at one read."""


def _differences(kernel: KernelReport, fused: Price) -> list[str]:
    """How the work of the fused kernel differs from that of the one that reads."""
    return [
        f"it computes {fused.work.flops:,.0f} flops (the second {kernel.flops:,.0f}) and moves {fused.work.bytes:,.0f} "
        f"bytes (the second {kernel.bytes:,.0f}), bound by {fused.bound}"
    ]


def _listed(ctors: Sequence[str]) -> str:
    names = {"Contract": "contraction", "Reduce": "reduction", "Scan": "scan", "Stream": "streamed sum"}
    told = [
        f"{ctors.count(ctor)} {names[ctor]}{'s' if ctors.count(ctor) > 1 else ''}" for ctor in names if ctor in ctors
    ]
    return ", ".join(told) or "no accumulator"


def _named(kernel: KernelReport) -> str:
    return f"{', '.join(kernel.writes)} = {kernel.name}"
