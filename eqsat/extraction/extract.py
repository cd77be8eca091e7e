"""Extraction: from a saturated e-graph to the kernels of the program.

    Candidates      the kernels that may compute each buffer
    best            a cover of the program by candidates of one output, and the cover of ordinary fusion
    price_rivals    prices of the candidates that are nearest to the chosen ones
    materialize     the cover's candidates as kernels
    join_kernels    one kernel in place of two, where that is cheaper
    explain         the candidates that each kernel was chosen before
    choose_layouts  buffers between kernels, and copies of inputs and outputs, in the order of axes that is cheapest

The cover of ordinary fusion competes in the search, and again after its kernels were joined and laid out, unless it is
further behind than these steps bring. Of the better cover, the swaps that were cheaper before these steps are tried
with them: joint kernels and orders of axes may make a swap cheaper or dearer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidate import CandidateCover, KernelCandidate
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import Cover
from eqsat.extraction.covering.cover_search import CoverSearch, price_all
from eqsat.extraction.covering.extractors import EXTRACTORS
from eqsat.extraction.enumeration.limits import DEFAULT, EnumerationLimits
from eqsat.extraction.joining.join_kernels import join_kernels
from eqsat.extraction.joining.joint_kernels import JointKernels
from eqsat.extraction.layouts.choose_layouts import choose_layouts
from eqsat.extraction.layouts.permuted_kernels import PermutedKernels
from ir.pricer import Pricer


def extract(view: EGraphView, outputs: Sequence[str], pricer: Pricer, **keywords: Any) -> Cover:
    """The cheapest cover that the extractor finds. Arguments and errors are those of `extract_several`."""
    return extract_several(1, view, outputs, pricer, **keywords)[0]


def extract_several(
    count: int,
    view: EGraphView,
    outputs: Sequence[str],
    pricer: Pricer,
    *,
    constants: Iterable[str] = (),
    extractor: str = "pareto",
    limits: EnumerationLimits = DEFAULT,
    joining: bool = True,
    relayout: bool = True,
    prefix: str = "",
    cold: Collection[str] = (),
    given: Collection[str] | None = None,
    packs: bool = True,
    as_written: bool = False,
    free: Collection[int] = (),
) -> list[Cover]:
    """The cheapest cover that the extractor finds, and up to `count` - 1 others that differ from it in one place, the
    nearest by price first.

    Args:
        outputs: Tiny nodes.
        constants: names of inputs that are known when the program is built.
        extractor: a name in `EXTRACTORS`.
        joining: whether one kernel may write several outputs.
        relayout: whether buffers between kernels may be stored in other orders of their axes.
        prefix: of the names of buffers that no uop writes.
        cold: names of inputs that no kernel of the program writes, where prices depend on that.
        given: names of the inputs whose memory the caller decides; None where kernels do not fill concatenations in
            place.
        packs: whether plans pack constant operands of contractions themselves, as on a CPU.
        as_written: whether the kernel of each uop competes where rules left it out, since they know that fusion pays;
            terms of a caller's own may say otherwise.
        free: Buf classes of inputs and outputs that only kernels of other parts of the program see.

    Raises:
        EqsatError: UnsupportedOp, when some buffer has no candidate that can be a kernel.
    """
    entry = EXTRACTORS[extractor]
    candidates = Candidates(view, outputs, pricer, constants, limits, prefix, cold, given, free)
    permuted = PermutedKernels(pricer, packs=packs) if relayout else None
    joint = JointKernels(candidates) if joining else None
    if as_written:
        candidates.demand_as_written()
    if entry.needs_all_prices:
        price_all(candidates)
    search = CoverSearch(candidates, entry.cover)
    chosen, ordinary = search.best(entry.is_baseline)
    finish = partial(
        _finish, search=search, candidates=candidates, joint=joint, permuted=permuted, free=frozenset(free)
    )
    cover = finish(chosen)
    if ordinary is not None and {*ordinary} != {*chosen}:
        behind_ns = search.total_ns(ordinary) - search.total_ns(chosen)
        if behind_ns <= search.total_ns(chosen) - cover.time_ns:
            other = finish(ordinary)
            if other.time_ns < cover.time_ns:
                chosen, cover = ordinary, other
    if not entry.is_baseline:
        chosen, cover = _finish_swaps(chosen, cover, search, finish)
    others = map(finish, search.nearest_covers(chosen, count - 1)) if count > 1 else ()
    covers = [cover, *sorted(others, key=lambda other: other.time_ns)]
    priced = len(candidates.prices) + len(permuted or ())
    return [replace(other, considered=len(candidates), priced=priced) for other in covers]


def _finish_swaps(
    chosen: CandidateCover, cover: Cover, search: CoverSearch, finish: Callable[..., Cover]
) -> tuple[CandidateCover, Cover]:
    """These candidates and their finished cover, or those that swaps lead to, where the swaps make the finished cover
    cheaper: all that seem cheaper at once, else either half of them, and so on. No rival is tried twice alone. Of a
    rival that made a cover dearer, `explain` reports the difference from the last cover."""
    tried: dict[KernelCandidate, float | None] = {}

    def swap(rivals: Sequence[KernelCandidate]) -> tuple[CandidateCover, Cover] | None:
        other = search.swap_in(chosen, rivals)
        finished = finish(other) if other != chosen else None
        if finished and finished.time_ns < cover.time_ns:
            return other, finished
        if len(rivals) > 1:
            middle = len(rivals) // 2
            return swap(rivals[:middle]) or swap(rivals[middle:])
        tried.update((rival, finished.time_ns if finished else None) for rival in rivals)
        return None

    def cheaper() -> list[KernelCandidate]:
        return [rival for rival in search.price_rivals(chosen).cheaper() if rival not in tried]

    while (swapped := swap(cheaper())) is not None:
        chosen, cover = swapped
    extra_ns = {rival: None if time is None else time - cover.time_ns for rival, time in tried.items()}
    return chosen, finish(chosen, extra_ns=extra_ns) if extra_ns else cover


def _finish(
    chosen: CandidateCover,
    extra_ns: Mapping[KernelCandidate, float | None] | None = None,
    *,
    search: CoverSearch,
    candidates: Candidates,
    joint: JointKernels | None,
    permuted: PermutedKernels | None,
    free: frozenset[int],
) -> Cover:
    """The cover of these candidates, joined and laid out. The rivals are priced first: a joint kernel may hold one.
    extra_ns: of rivals that seemed cheaper, by how much their finished covers are dearer; None of a cover that would
    compute a value in two ways."""
    rivals = search.price_rivals(chosen)
    cover = candidates.materialize(chosen)
    cover = join_kernels(cover, joint) if joint is not None else cover
    cover = replace(
        cover,
        kernels=tuple(
            rivals.explain(kernel, candidates.by_buffer, candidates.names, extra_ns or {}) for kernel in cover.kernels
        ),
        diagnostics=(*search.stops(chosen), *cover.diagnostics),
        free=free,
    )
    return replace(choose_layouts(cover, permuted), row_major=cover) if permuted is not None else cover
