"""Cache lines: those that the second-level cache does not hold when a call reads them first, and those that share a
set of the first-level cache."""

from __future__ import annotations

import math

from codegen.plan.contraction_view import Contraction
from ir.target import CACHE_LINE_BYTES, Target

WAY_BYTES = 4096
"""Bytes in one way of a first-level cache: cache lines so far apart share one set. A set holds as many cache lines as
there are ways."""

PAGE_BYTES = 4096
"""Bytes of a page. A core's prefetcher follows reads to the end of their page."""

NEAR_LINE = 1.75
"""Cycles to load a line from the second-level cache, beside other loads."""
PANEL_LINE = 9.0
"""Cycles to load a line of a panel that the second-level cache does not hold, while a tile multiplies."""
FAR_LINE = 18.0
"""Cycles that a core waits for a line beyond the second-level cache where the lines that it reads before and after lie
on other pages: no prefetcher foresees the reads. Fitted to columns of matrix products in long blocks of k."""
STREAMED_LINE = 6.0
"""Cycles that a core waits for a far line, where its prefetcher follows the reads through whole pages. Twice as many
where the core reads at most half of each page."""
_FEW_LINES = 4
"""Lines of a column that are read as fast in turns with other columns as in the order of memory."""
_SHARE = 0.75
"""The share of the cache that an operand may have: the other tensors of a call take the rest."""
_SEEN = 0.7
"""The share that prices count of the time in which a kernel waits for constants after its other work. Where prices
counted all, plans of more work were as cheap, and NasRNN took 4.4 ms in place of 3.1."""
_SHARE_OF_L3 = 8
"""A last-level cache, which other cores and programs fill as well, holds so many times the bytes of the second-level
caches of a program's cores."""


def hold_constants(read: float, target: Target) -> bool:
    """Whether the caches hold the constants of the program from call to call, of which a kernel reads so many bytes."""
    held = target.l2_bytes * target.units * (_SHARE_OF_L3 if target.l3_bytes else 1)
    return max(read, target.constant_bytes) <= held


def cold_constants(read: float, target: Target) -> float:
    """How many of the `read` bytes of constants come from memory: none if the caches hold them from call to call."""
    return 0.0 if hold_constants(read, target) else float(read)


def waiting_for_constants(cold: float, busy: float, target: Target) -> float:
    """Cycles of all cores in which a kernel waits for `cold` bytes of constants, which memory gives, beside `busy`
    cycles of other work. Reading in the order of memory hides that work for the most part: of plans that read the same
    bytes, the one with less work stays the faster one."""
    return _SEEN * max(0.0, target.cycles_in(cold / target.bandwidth) - busy)


def are_far(operand: float, target: Target) -> bool:
    """Whether the lines of an operand of so many bytes, which one core reads, are far."""
    return operand >= _SHARE * target.l2_bytes


def share_of_core(operand: float, parts: int, other_parts: int, target: Target) -> float:
    """The bytes of an operand of a contraction that one core reads, where the tasks have `parts` of the operand: if the
    other operand is whole, each core reads its own parts."""
    return operand / max(1, min(parts, target.units)) if other_parts == 1 else operand


def share_pages(view: Contraction) -> bool:
    """Whether neighbouring columns of a contraction lie more than a few cache lines, and less than a page, apart.
    Prefetchers follow reads in the order of memory, but not several runs of one page: with 2 to 8 columns of 512 to
    2048 bytes in turns, a Zen 4 reads memory at two thirds to a half of the speed."""
    _, step = view.run(view.vector, view.columns)
    distance = abs(step or 0) * view.item_bytes[view.vector]
    return _FEW_LINES * CACHE_LINE_BYTES < distance < PAGE_BYTES


def lines_held(distance: int, target: Target) -> int:
    """How many lines that lie so many bytes apart, more than none, the first-level cache holds."""
    return target.l1_bytes // CACHE_LINE_BYTES // every_nth_set(distance)


def every_nth_set(distance: int) -> int:
    """n where cache lines so many bytes apart use only every n-th set of the first-level cache."""
    return max(1, math.gcd(WAY_BYTES, distance) // CACHE_LINE_BYTES)
