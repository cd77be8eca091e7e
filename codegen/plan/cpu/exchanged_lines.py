"""The cycles that cores wait for cache lines which another core wrote or reads, too.

Most kernels divide the rows of their tensors among the cores, in the order of memory. A contraction that divides the
columns reads rows that other cores wrote, and its cores write parts of all rows, which the next kernel exchanges again.
"""

from __future__ import annotations

from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.cache_lines import are_far
from ir.plan.cpu import Blocks
from ir.target import CACHE_LINE_BYTES, Target

_READ = 14.0
"""Cycles to read a cache line that another core wrote."""
_WRITTEN = 28.0
"""Cycles to write a cache line for another core: that core read the line before, and reads it again."""
_CONSTANT = 3.0
"""Cycles to read a cache line of constants from the last-level cache."""


def exchange_cycles(view: Contraction, blocks: Blocks, units: int, target: Target, *, holds_constants: bool) -> float:
    """Cycles over all cores, where `units` cores run the tasks of a contraction. holds_constants: whether the caches
    hold the constants of the program from call to call; else memory is what the cores wait for.

    Tasks follow each other by products, then rows, then columns, and every core takes a share of neighbouring tasks.
    """
    products = min(units, max(view.repeats, 1))
    rows = min(units // products, max(1, -(-view.m // blocks.bm)))
    columns = min(units // (products * rows), max(1, -(-view.n // blocks.bn)))
    parts = (columns, rows) if view.vector == 0 else (rows, columns)
    cycles = 0.0
    for side in (0, 1):
        size = view.bytes_read[side]
        share = parts[side] * (products if view.own_products(side) else 1)
        again = size * (units / share - 1) / CACHE_LINE_BYTES
        if not view.is_constant(side):
            cycles += again * _READ
        elif holds_constants and are_far(max(size, target.constant_bytes) / share, target):
            cycles += again * _CONSTANT
    data = [side for side in (0, 1) if not view.is_constant(side)]
    if len(data) == 1:
        cycles += view.bytes_written * (1 - parts[data[0]] * products / units) / CACHE_LINE_BYTES * _WRITTEN
    return cycles
