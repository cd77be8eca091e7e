"""Rich renderables as HTML for notebooks: text in a fixed width, without colours, so that light and dark pages fit."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from io import StringIO
from typing import Any

from eqsat.explanation.explain import WIDTH, kernel_table, summary
from eqsat.explanation.screen import fitting_text
from eqsat.runtime.compiled import Compiled, KernelReport
from ir.module.tag_text import tag_text

MOST_LINES = 200
"""Lines of one piece of HTML; what follows is left out, and a last line says so."""
_STYLE = "white-space:pre;overflow-x:auto;line-height:1.3;font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace"


class KernelReports(tuple[KernelReport, ...]):
    """The reports of a program's kernels, in the order of their launches. `print` and notebooks show them as a table;
    `rows()` are data for pandas."""

    def rows(self) -> list[dict[str, Any]]:
        """One dict per launch, for `pandas.DataFrame(rows)`. Times in ns, sizes in bytes, rates in GFLOP/s and GB/s;
        `share` of the measured time, from 0 to 1. What is measured is None in reports that were not."""
        total = sum(kernel.measured_ns or 0.0 for kernel in self)
        return [_row(kernel, total) for kernel in self]

    def view(self) -> Any:
        """The table as a renderable of rich."""
        return kernel_table(self)

    def __str__(self) -> str:
        return fitting_text(self.view())

    def _repr_html_(self) -> str:
        return html_of(kernels_view(self))


def _row(kernel: KernelReport, total_ns: float) -> dict[str, Any]:
    """One launch as flat data."""
    ns = kernel.measured_ns
    return {
        "kernel": kernel.name,
        "computes": tag_text(kernel.tags),
        "function": kernel.function,
        "reads": ", ".join(kernel.reads),
        "writes": ", ".join(kernel.writes),
        "uops": len(kernel.uops),
        "runs": kernel.runs,
        "flops": kernel.flops,
        "bytes": kernel.bytes,
        "occupancy": kernel.occupancy,
        "efficiency": kernel.efficiency,
        "bound": kernel.bound,
        "estimated_ns": kernel.estimated_ns,
        "measured_ns": ns,
        "share": None if ns is None else ns / max(total_ns, 1.0),
        "gflop_per_s": None if ns is None else kernel.gflop_per_s,
        "gb_per_s": None if ns is None else kernel.gb_per_s,
    }


def kernels_view(kernels: Sequence[KernelReport]) -> Any:
    """The table of kernels; of very many, the first ones."""
    from rich.console import Group
    from rich.text import Text

    shown = kernels[: MOST_LINES // 2]
    rest = len(kernels) - len(shown)
    return Group(kernel_table(shown), *([Text(f"… and {rest:,} further kernels")] if rest else []))


def program_view(title: str, compiled: Compiled | None) -> Any:
    """A program: its title, its variant's figures, and its kernels."""
    from rich.console import Group
    from rich.text import Text

    if compiled is None:
        return Text(title, style="bold")
    return Group(Text(title, style="bold"), Text(summary(compiled)), kernels_view(compiled.kernels))


def html_of(renderable: Any) -> str:
    """The renderable as HTML that needs no style sheet and no script. All texts are escaped."""
    from rich.console import Console

    console = Console(file=StringIO(), width=WIDTH, highlight=False, color_system="standard", force_jupyter=False)
    lines = console.render_lines(renderable, pad=False)
    rows = ["".join(map(_span, line)).rstrip() for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        rows.append(f"<i>… and {len(lines) - MOST_LINES:,} further lines</i>")
    return f'<pre style="{_STYLE}">' + "\n".join(rows) + "</pre>"


def _span(segment: Any) -> str:
    text = escape(segment.text.rstrip("\n"))
    style = segment.style
    if style is not None and style.bold and text.strip():
        text = f"<b>{text}</b>"
    if style is not None and style.italic and text.strip():
        text = f"<i>{text}</i>"
    return text
