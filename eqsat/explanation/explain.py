"""Why the program is what it is, in words and tables: kernels, the uops and rules behind them, what they cost, and
what was rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, Any

from eqsat.extraction.selection import Rival, Selection
from eqsat.runtime.compiled import Compiled, KernelReport
from ir.diagnostics import jsonable
from ir.plan import Plan
from ir.pricer import Price
from ir.serde import to_builtins

if TYPE_CHECKING:
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table

WIDTH = 120


def explain(compiled: Compiled) -> str:
    """`explanation` as plain text."""
    return rendered(explanation(compiled))


def explanation(compiled: Compiled) -> Group:
    """The whole program, then each kernel: its uops, the rules that fired to build it, its plan, its price, and what
    was rejected for its output. A rich renderable."""
    from rich.console import Group
    from rich.text import Text

    stats, total = compiled.artifact.stats, _total_ns(compiled)
    summary = (
        f"{stats.uops} uops, {stats.kernels_before} kernels before and {stats.kernels_after} after; "
        f"{micros(stats.estimated_before_ns)} before and {micros(total)} after, "
        f"estimated for {compiled.artifact.target.name}.\n"
    )
    parts: list[Any] = [Text(summary), kernel_table(compiled.kernels)]
    for kernel, price in zip(compiled.kernels, compiled.artifact.prices, strict=True):
        parts += [Text(f"\n{kernel.name} ({kernel.function})", style="bold"), _facts(kernel, price, total)]
    return Group(*parts)


def explained(compiled: Compiled) -> dict[str, Any]:
    """What `explain` says, as JSON-ready data; times in ns, `percent` of the whole program's."""
    stats, total = compiled.artifact.stats, _total_ns(compiled)
    data: dict[str, Any] = {
        "target": compiled.artifact.target.name,
        "uops": stats.uops,
        "kernels_before": stats.kernels_before,
        "kernels_after": stats.kernels_after,
        "estimated_before_ns": stats.estimated_before_ns,
        "estimated_ns": total,
        "kernels": [
            {
                "name": kernel.name,
                "function": kernel.function,
                "uops": list(kernel.uops),
                "rules": dict(Counter(kernel.rules)),
                "plan": to_builtins(price.plan),
                "flops": kernel.flops,
                "bytes": kernel.bytes,
                "occupancy": kernel.occupancy,
                "efficiency": kernel.efficiency,
                "bound": kernel.bound,
                "estimated_ns": kernel.estimated_ns,
                "candidates": kernel.selection.candidates,
                "rejected": [_told(rival, total) for rival in kernel.selection.rivals],
            }
            for kernel, price in zip(compiled.kernels, compiled.artifact.prices, strict=True)
        ],
    }
    return {name: jsonable(value) for name, value in data.items()}


def _total_ns(compiled: Compiled) -> float:
    return sum(kernel.estimated_ns for kernel in compiled.kernels)


def _facts(kernel: KernelReport, price: Price, total_ns: float) -> Padding:
    """One kernel's block."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    block = Table.grid(padding=(0, 2))
    block.add_row("uops", Text(", ".join(kernel.uops) or "(none: a copy)"))
    block.add_row("rules", counted(kernel.rules) or "(none: as it was loaded)")
    block.add_row("plan", Text(_plan(price.plan)))
    block.add_row(
        "price",
        f"{kernel.flops:,.0f} flops, {kernel.bytes:,.0f} bytes, occupancy {kernel.occupancy:.2f}, "
        f"efficiency {kernel.efficiency:.2f}: {micros(kernel.estimated_ns)}, bound by {kernel.bound}",
    )
    selection = kernel.selection
    if selection.rivals:
        told, others = len(selection.rivals), selection.candidates - 1
        which = f"{told}" if told == others else f"the nearest {told} of {others}"
        block.add_row("rejected", f"{which} for the same output: its own time, and the program's with it in this place")
        block.add_row("", _rivals(selection, total_ns))
    else:
        block.add_row("rejected", "(none: the only candidate for its output)")
    return Padding(block, (0, 0, 0, 2))


def _plan(plan: Plan) -> str:
    parts = [", ".join(f"{name}: {choice}" for name, choice in plan.algo_choice.items()) + f"; tile {list(plan.tile)}"]
    if plan.warp_tile:
        parts.append(f"register tile {plan.warp_tile}")
    if plan.vectorize:
        parts.append(f"{plan.vectorize.width} lanes along {plan.vectorize.axis}")
    if plan.predicate_tail:
        parts.append(f"tails {', '.join(plan.predicate_tail)}")
    return ", ".join(parts)


def _rivals(selection: Selection, total_ns: float) -> Table:
    """One row per rejected candidate: what it is, its own time, and what the program would lose with it."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("candidate")
    table.add_column("reads", max_width=40)
    table.add_column("itself", justify="right")
    table.add_column("the program", justify="right")
    table.add_column("")
    for rival in selection.rivals:
        own = "" if rival.time_ns is None else f"{rival.time_ns:,.1f} ns"
        extra = (
            "" if rival.extra_ns is None else f"{rival.extra_ns:+,.1f} ns ({_percent(rival.extra_ns, total_ns):+.2f} %)"
        )
        table.add_row(Text(rival.name), Text(", ".join(rival.reads)), own, extra, Text(_remark(rival, selection)))
    return table


def _remark(rival: Rival, selection: Selection) -> str:
    if rival.refusal:
        return f"{rival.refusal}: {rival.reason}"
    if rival.extra_ns is None:
        return "needs its own result"
    if rival is not selection.runner_up:
        return ""
    return "runner-up" if rival.extra_ns >= 0 else "runner-up: the extractor missed it"


def _told(rival: Rival, total_ns: float) -> dict[str, Any]:
    """A rejected candidate as JSON-ready data."""
    percent = {} if rival.extra_ns is None else {"percent": _percent(rival.extra_ns, total_ns)}
    return {**to_builtins(rival), **percent}


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


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
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def counted(rules: Iterable[str]) -> str:
    """Each rule once, with how many nodes of the kernel it built."""
    counts = Counter(rules)
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in sorted(counts.items()))


def micros(ns: float) -> str:
    """ns as µs."""
    return f"{ns / 1e3:,.1f} µs"
