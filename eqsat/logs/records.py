"""The records of saturation, extraction, plans, stages and calls."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from eqsat.egraph.saturation_stats import SaturationStats
from eqsat.explanation.price_text import span
from eqsat.extraction.cover import Cover
from eqsat.logs.topics import CALL, EXTRACT, PLAN, RULES
from eqsat.runtime.compiled import KernelReport
from ir.grammar import with_count
from ir.module.module import Module
from ir.module.tag_text import tag_text
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.pricer import Price

_SHOWN_RULES = 6
"""Rules with the most matches that a record names."""


def tell_saturation(stats: SaturationStats) -> None:
    """The e-graph is saturated, or at a limit. Every phase has its own record, written as the phase ended."""
    if not RULES.isEnabledFor(logging.INFO):
        return
    most = sorted(((count, rule) for rule, count in stats.matches.items() if count), reverse=True)
    shown = ", ".join(f"{rule} {count:,}" for count, rule in most[:_SHOWN_RULES])
    RULES.info("%s e-nodes, %s classes; matches: %s", f"{stats.nodes:,}", f"{stats.classes:,}", shown or "none")


def tell_cover(cover: Cover) -> None:
    """The kernels are chosen."""
    if not EXTRACT.isEnabledFor(logging.INFO):
        return
    kernels = with_count(len(cover.kernels), "kernel")
    EXTRACT.info("%s of %s, %s estimated", kernels, with_count(cover.considered, "candidate"), span(cover.time_ns))
    for kernel in cover.kernels:
        price = f"{span(kernel.price.time_ns)}, bound by {kernel.price.bound}" if kernel.price else "when it is built"
        EXTRACT.info("  %s: %s", kernel.region.name, price)


def tell_plans(module: Module, prices: Iterable[Price]) -> None:
    """The kernels have plans."""
    if not PLAN.isEnabledFor(logging.INFO):
        return
    for call, price in zip(module.running, prices, strict=True):
        lines = str(plan_to_schedule(price.plan)).splitlines()[1:]
        PLAN.info("%s: %s", call.region.name, "; ".join(map(str.strip, lines)))


def tell_call(ns: int, kernels: Sequence[KernelReport], sizes: Mapping[str, int]) -> None:
    """A call has ended. sizes: of the free dims."""
    given = "".join(f" {symbol}={size}" for symbol, size in sizes.items())
    estimate = sum(kernel.estimated_ns for kernel in kernels)
    took = span(ns) if ns < 1e6 else f"{ns / 1e6:,.1f} ms"
    CALL.info("call%s: %s in %s (estimate %s)", given, with_count(len(kernels), "kernel"), took, span(estimate))


def tell_kernels(kernels: Iterable[KernelReport]) -> None:
    """The kernels of a call, measured in another run with the same arguments."""
    for kernel in kernels:
        ns = max(kernel.measured_ns or 0.0, 1.0)
        rates = f"{kernel.gflop_per_s:,.1f} GFLOP/s, {kernel.gb_per_s:,.1f} GB/s"
        computes = f": {tag_text(kernel.tags)}" if kernel.tags else ""
        CALL.debug("  %s: %s (estimate %s), %s%s", kernel.name, span(ns), span(kernel.estimated_ns), rates, computes)
