"""An explanation of a program in words and tables: kernels, their uops and rules, their prices, rejected candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from eqsat.explanation.chain import chain_table, chains_at
from eqsat.explanation.kernel_by_name import Wanted, place_of
from eqsat.explanation.price_text import micros, price_data, price_text, span
from eqsat.extraction.selection import JointPart, Rival, Selection
from eqsat.runtime.compiled import Compiled, KernelReport
from ir.diagnostics import jsonable
from ir.grammar import with_count
from ir.kernel.resources import KernelResources
from ir.module.launch import Geometry
from ir.module.tag_text import tag_text
from ir.plan.plan import Plan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.pricer import Price
from ir.region.order import Order, order_text
from ir.serde import to_builtins

if TYPE_CHECKING:
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

WIDTH = 120


def explain(compiled: Compiled, kernel: Wanted | None = None) -> str:
    """`explanation` as plain text."""
    return render(explanation(compiled, kernel))


def explanation(compiled: Compiled, kernel: Wanted | None = None) -> Group:
    """The whole program, then each kernel: its uops, the rules that built it, its plan, its price, and the rejected
    candidates for its output. Or one kernel with the rewrites that led to its outputs. A rich renderable."""
    from rich.console import Group
    from rich.text import Text

    if kernel is not None:
        return _kernel_group(compiled, place_of(compiled.kernels, kernel))
    total = _total_ns(compiled)
    parts: list[Any] = [Text(summary(compiled)), kernel_table(compiled.kernels)]
    for report, price in zip(compiled.kernels, compiled.artifact.prices, strict=True):
        parts += [_title(report), _facts(report, price, total, compiled.artifact.module.orders)]
    return Group(*parts)


def summary(compiled: Compiled) -> str:
    """Uops, kernels and times before and after, in a line."""
    stats = compiled.artifact.stats
    return (
        f"{with_count(stats.uops, 'uop')}, {with_count(stats.kernels_before, 'kernel')} before and "
        f"{stats.kernels_after} after; "
        f"{micros(stats.estimated_before_ns)} before and {micros(_total_ns(compiled))} after, "
        f"estimated for {compiled.artifact.target.name}.\n"
    )


def _kernel_group(compiled: Compiled, place: int) -> Group:
    """One kernel, and the chains of its outputs."""
    from rich.console import Group
    from rich.padding import Padding

    kernel, price = compiled.kernels[place], compiled.artifact.prices[place]
    chains = (Padding(chain_table(chain), (1, 0, 0, 2)) for chain in chains_at(*compiled.part_at(place)))
    orders = compiled.artifact.module.orders
    return Group(_title(kernel), _facts(kernel, price, _total_ns(compiled), orders), *chains)


def _title(kernel: KernelReport) -> Text:
    from rich.text import Text

    call = f"{', '.join(kernel.writes)} = {kernel.name}({', '.join(kernel.reads)})"
    return Text.assemble((f"\n{call}", "bold"), f"   {kernel.function}")


def explained(compiled: Compiled, kernel: Wanted | None = None) -> dict[str, Any]:
    """The content of `explain` as JSON-ready data; times in ns, `percent` of the whole program's time."""
    if kernel is not None:
        place = place_of(compiled.kernels, kernel)
        return {**_kernel_data(compiled, place), "chains": to_builtins(chains_at(*compiled.part_at(place)))}
    stats, total = compiled.artifact.stats, _total_ns(compiled)
    data: dict[str, Any] = {
        "target": compiled.artifact.target.name,
        "uops": stats.uops,
        "kernels_before": stats.kernels_before,
        "kernels_after": stats.kernels_after,
        "estimated_before_ns": stats.estimated_before_ns,
        "estimated_ns": total,
        "kernels": [_kernel_data(compiled, place) for place in range(len(compiled.kernels))],
    }
    return {name: jsonable(value) for name, value in data.items()}


def _kernel_data(compiled: Compiled, place: int) -> dict[str, Any]:
    kernel, total = compiled.kernels[place], _total_ns(compiled)
    data: dict[str, Any] = {
        "name": kernel.name,
        "function": kernel.function,
        "reads": list(kernel.reads),
        "writes": list(kernel.writes),
        "fills": list(kernel.fills),
        "uops": list(kernel.uops),
        "tags": list(kernel.tags),
        "rules": dict(Counter(kernel.rules)),
        "orders": to_builtins(_permuted_orders(kernel, compiled.artifact.module.orders)),
        "plan": to_builtins(plan_to_schedule(compiled.artifact.prices[place].plan)),
        "flops": kernel.flops,
        "bytes": kernel.bytes,
        "occupancy": kernel.occupancy,
        "efficiency": kernel.efficiency,
        "bound": kernel.bound,
        "estimated_ns": kernel.estimated_ns,
        "runs": kernel.runs,
        "price": price_data(compiled.artifact.prices[place]),
        **_launch_data(kernel),
        "candidates": kernel.selection.candidates,
        "joined": to_builtins(kernel.selection.parts),
        "rejected": [_rival_data(rival, total) for rival in kernel.selection.rivals],
    }
    return {name: jsonable(value) for name, value in data.items()}


def _launch_data(kernel: KernelReport) -> dict[str, Any]:
    """Launch geometry and resources, which only a GPU's kernel has."""
    launch = {"geometry": kernel.geometry, "resources": kernel.resources}
    return {name: to_builtins(value) for name, value in launch.items() if value is not None}


def _total_ns(compiled: Compiled) -> float:
    return sum(kernel.estimated_ns for kernel in compiled.kernels)


def _facts(kernel: KernelReport, price: Price, total_ns: float, orders: Mapping[str, Order]) -> Padding:
    """One kernel's block of text. orders: of the buffers that are not row-major."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    block = Table.grid(padding=(0, 2))
    if kernel.tags:
        block.add_row("computes", Text(tag_text(kernel.tags)))
    block.add_row("uops", Text(", ".join(kernel.uops) or "(none: a copy)"))
    block.add_row("rules", count_rules(kernel.rules) or "(none: as it was loaded)")
    block.add_row("plan", Text(plan_text(price.plan)))
    permuted = _permuted_orders(kernel, orders)
    if permuted:
        block.add_row("layout", Text("; ".join(f"{name}{order_text(order)}" for name, order in permuted.items())))
    if kernel.fills:
        block.add_row("in place", Text(f"its results are parts of {', '.join(kernel.fills)}"))
    if kernel.geometry:
        block.add_row("launch", Text(launch_text(kernel.geometry, kernel.resources)))
    block.add_row("price", Text(price_text(price)))
    if kernel.runs > 1:
        block.add_row("runs", Text(f"{kernel.runs:,} in a loop: {span(kernel.estimated_ns)} together"))
    selection = kernel.selection
    if selection.parts:
        block.add_row("joined", Text(parts_text(selection.parts, price.time_ns)))
    if selection.rivals:
        shown, others = len(selection.rivals), selection.candidates - max(1, len(selection.parts))
        which = f"{shown}" if shown == others else f"the nearest {shown} of {others}"
        heading = f"{which} for the same {_outputs(kernel)}: its own time, and the program's with it in this place"
        block.add_row("rejected", heading)
        if any(not rival.refusal for rival in selection.rivals):
            block.add_row("", _rivals(selection, total_ns))
        for line in refusals_text(selection.rivals):
            block.add_row("", Text(line))
    else:
        block.add_row("rejected", f"(none: the only candidate for its {_outputs(kernel)})")
    return Padding(block, (0, 0, 0, 2))


def _permuted_orders(kernel: KernelReport, orders: Mapping[str, Order]) -> dict[str, Order]:
    """The orders of the kernel's buffers that are not row-major."""
    return {name: orders[name] for name in (*kernel.reads, *kernel.writes) if name in orders}


def _outputs(kernel: KernelReport) -> str:
    return "output" if len(kernel.writes) == 1 else "outputs, one kernel each"


def parts_text(parts: Sequence[JointPart], time_ns: float) -> str:
    """The kernels that a kernel of several outputs replaces, and the time that it saves."""
    kernels = " and ".join(f"{', '.join(part.writes)} = {part.name} ({span(part.time_ns)})" for part in parts)
    return f"{kernels}: {span(sum(part.time_ns for part in parts) - time_ns)} less than apart"


def plan_text(plan: Plan) -> str:
    schedule = plan_to_schedule(plan)
    choices = ", ".join(f"{name}: {choice}" for name, choice in schedule.algo_choice.items())
    parts = [f"{choices}; tile {list(schedule.tile)}"]
    if schedule.warp_tile:
        parts.append(f"register tile {schedule.warp_tile}")
    if schedule.vectorize:
        parts.append(f"{schedule.vectorize.width} lanes along {schedule.vectorize.axis}")
    if schedule.predicate_tail:
        parts.append(f"tails {', '.join(schedule.predicate_tail)}")
    return ", ".join(parts)


def launch_text(geometry: Geometry, resources: KernelResources | None) -> str:
    """The resources that a launch asks a GPU for, and those of the kernel if NVRTC reported them."""
    grid = " × ".join(map(str, geometry.grid))
    parts = [f"{grid} blocks of {geometry.threads} threads, {geometry.shared_bytes:,} bytes of shared memory"]
    if resources:
        spilled = resources.spill_stores + resources.spill_loads
        parts.append(
            f"{resources.registers} registers a thread, {f'{spilled} bytes spilled' if spilled else 'no spills'}"
        )
        parts += resources.lints
    return ", ".join(parts)


def _rivals(selection: Selection, total_ns: float) -> Table:
    """One row per rejected candidate with a price: its own time, and the program's loss with the candidate."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("candidate")
    table.add_column("reads", max_width=40)
    table.add_column("itself", justify="right")
    table.add_column("the program", justify="right")
    table.add_column("")
    for rival in selection.rivals:
        if rival.refusal:
            continue
        own = "" if rival.time_ns is None else span(rival.time_ns)
        extra = (
            ""
            if rival.extra_ns is None
            else f"{span(rival.extra_ns, '+')} ({_percent(rival.extra_ns, total_ns):+.2f} %)"
        )
        table.add_row(Text(rival.name), Text(", ".join(rival.reads)), own, extra, Text(remark(rival, selection)))
    return table


def refusals_text(rivals: Iterable[Rival]) -> list[str]:
    """One line per reason why no kernel can be generated: the number of candidates, and the nearest one."""
    alike: dict[str, list[Rival]] = {}
    for rival in rivals:
        if rival.refusal:
            alike.setdefault(f"{rival.refusal}: {rival.reason}", []).append(rival)
    return [
        f"{with_count(len(refused), 'candidate')} refused, {'as' if len(refused) > 1 else 'namely'} "
        f"{refused[0].name}({', '.join(refused[0].reads)}): {why}"
        for why, refused in alike.items()
    ]


def remark(rival: Rival, selection: Selection) -> str:
    if rival.refusal:
        return f"{rival.refusal}: {rival.reason}"
    if rival.extra_ns is None:
        return rival.reason or "needs its own result"
    if rival is not selection.runner_up:
        return ""
    return "runner-up" if rival.extra_ns >= 0 else "runner-up: cheaper by the estimate"


def _rival_data(rival: Rival, total_ns: float) -> dict[str, Any]:
    """A rejected candidate as JSON-ready data."""
    percent = {} if rival.extra_ns is None else {"percent": _percent(rival.extra_ns, total_ns)}
    return {**to_builtins(rival), **percent}


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def kernel_table(kernels: Iterable[KernelReport]) -> Table:
    """One row per launch, with measured times if they are known, and with tags if there are any. Where space is short,
    names and tags fold."""
    from rich.table import Table
    from rich.text import Text

    rows = list(kernels)
    measured = any(kernel.measured_ns is not None for kernel in rows)
    repeated = any(kernel.runs > 1 for kernel in rows)
    table = Table(box=None, pad_edge=False)
    table.add_column("kernel", overflow="fold")
    before, after = (["runs"] if repeated else []), (["measured", "est/meas"] if measured else [])
    for name in (*before, "uops", "MFLOP", "MB", "bound", "estimated", *after):
        table.add_column(name, justify="right", no_wrap=True)
    if named := any(kernel.tags for kernel in rows):
        table.add_column("computes", overflow="fold")
    for kernel in rows:
        cells = [
            kernel.name,
            *([f"{kernel.runs:,}"] if repeated else []),
            str(len(kernel.uops)),
            f"{kernel.flops / 1e6:.2f}",
            f"{kernel.bytes / 1e6:.3f}",
            kernel.bound,
            micros(kernel.estimated_ns),
        ]
        if kernel.measured_ns is not None:
            cells += [micros(kernel.measured_ns), f"{kernel.estimated_ns / max(kernel.measured_ns, 1):.2f}"]
        table.add_row(*cells, *([Text(tag_text(kernel.tags))] if named else []))
    return table


def render(table: Any, width: int = WIDTH) -> str:
    """A rich renderable as plain text."""
    from rich.console import Console

    console = Console(file=StringIO(), width=width, highlight=False)
    console.print(table)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def count_rules(rules: Iterable[str]) -> str:
    """Every rule once, with the number of nodes of the kernel that the rule built."""
    counts = Counter(rules)
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in sorted(counts.items()))
