"""Why the program is what it is, in words and tables: kernels, the uops and rules behind them, what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, Any

from eqsat.compiled import Compiled, KernelReport
from ir.diagnostics import Kind, fail

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 120


def explain(compiled: Compiled) -> str:
    """The whole program, then each kernel: its uops, the rules that fired to build it, its plan and its price."""
    total = sum(kernel.estimated_ns for kernel in compiled.kernels)
    stats = compiled.artifact.stats
    target = compiled.artifact.target.name
    lines = [
        f"{stats.uops} uops, {stats.kernels_before} kernels before and {stats.kernels_after} after; "
        f"{micros(stats.estimated_before_ns)} before and {micros(total)} after, estimated for {target}.",
        "",
        rendered(kernel_table(compiled.kernels)),
    ]
    for kernel, price in zip(compiled.kernels, compiled.artifact.prices, strict=True):
        plan = price.plan
        lines += [
            f"{kernel.name} ({kernel.function})",
            f"  uops   {', '.join(kernel.uops) or '(none: a copy)'}",
            f"  rules  {counted(kernel.rules) or '(none: as it was loaded)'}",
            f"  plan   {', '.join(f'{k}: {v}' for k, v in plan.algo_choice.items())}; tile {list(plan.tile)}"
            + (f", register tile {plan.warp_tile}" if plan.warp_tile else "")
            + (f", {plan.vectorize.width} lanes along {plan.vectorize.axis}" if plan.vectorize else "")
            + (f", tails {', '.join(plan.predicate_tail)}" if plan.predicate_tail else ""),
            f"  price  {kernel.flops:,.0f} flops, {kernel.bytes:,.0f} bytes, occupancy {kernel.occupancy:.2f}, "
            f"efficiency {kernel.efficiency:.2f}: {micros(kernel.estimated_ns)}, bound by {kernel.bound}",
        ]
    return "\n".join(lines)


def kernel_table(kernels: Iterable[KernelReport]) -> Table:
    """One row per launch; measured times where they are known."""
    from rich.table import Table

    rows = list(kernels)
    measured = any(kernel.measured_ns is not None for kernel in rows)
    table = Table(box=None, pad_edge=False)
    table.add_column("kernel")
    for name in ("uops", "MFLOP", "MB", "bound", "estimated", *(["measured", "est/meas"] if measured else [])):
        table.add_column(name, justify="right")
    for kernel in rows:
        cells = [
            kernel.name,
            str(len(kernel.uops)),
            f"{kernel.flops / 1e6:.2f}",
            f"{kernel.bytes / 1e6:.3f}",
            kernel.bound,
            micros(kernel.estimated_ns),
        ]
        if kernel.measured_ns is not None:
            cells += [micros(kernel.measured_ns), f"{kernel.estimated_ns / max(kernel.measured_ns, 1):.2f}"]
        table.add_row(*cells)
    return table


def rendered(table: Any, width: int = WIDTH) -> str:
    """A rich renderable as plain text."""
    from rich.console import Console

    console = Console(file=StringIO(), width=width, highlight=False)
    console.print(table)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def counted(rules: Iterable[str]) -> str:
    """Each rule once, with how many nodes of the kernel it built."""
    counts = Counter(rules)
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in sorted(counts.items()))


def micros(ns: float) -> str:
    """ns as µs."""
    return f"{ns / 1e3:,.1f} µs"


def rule_text(name: str) -> str:
    """A rule for people: equation, level, conditions, both sides. Raises EqsatError for a name that is none."""
    import difflib

    from rules import RULES

    found = next((rule for rule in RULES if rule.name == name), None)
    if found is None:
        names = [rule.name for rule in RULES]
        near = difflib.get_close_matches(name, names, 3) or names
        fail(Kind.UNSOUND_RULE, "rules", f"there is no rule {name!r}", hint=", ".join(near))
    lines = [
        f"{found.name} ({found.family}, {found.exactness.name.lower()})",
        f"  {found.equation}",
        f"  from  {found.lhs}",
        f"  to    {found.rhs}",
    ]
    return "\n".join([*lines, *(f"  when  {condition}" for condition in found.when)])
