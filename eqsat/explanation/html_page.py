"""Runs as one HTML page without references to a network or to other files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.explanation.page_data import page_data
from eqsat.pipeline import kernel_texts
from ir.host.output_file import write_output

if TYPE_CHECKING:
    from eqsat.explanation.explored_run import ExploredRun
    from eqsat.runtime.compiled import KernelReport

TEMPLATES = "page"
"""The folder of the templates within this package."""


def write_page(
    runs: ExploredRun | Mapping[str, ExploredRun],
    path: str | Path,
    title: str = "eqsat explore",
    with_dot: bool = True,
    measured: Iterable[KernelReport] = (),
) -> None:
    """Write the page of a run, or of the runs of a model's parts by name. measured: a profile of the program.

    Raises:
        EqsatError: InvalidOption, if the file cannot be written.
    """
    write_output(Path(path), page(runs, title, with_dot, measured).encode(), "explore")


def page(
    runs: ExploredRun | Mapping[str, ExploredRun],
    title: str = "eqsat explore",
    with_dot: bool = True,
    measured: Iterable[KernelReport] = (),
) -> str:
    """The page of a run, or of several. with_dot: lay out the graphs with Graphviz if it is installed."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("eqsat.explanation", TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named = runs if isinstance(runs, Mapping) else {"main": runs}
    times = {
        name: kernel.measured_ns / kernel.runs for kernel in measured if kernel.measured_ns for name in kernel.writes
    }
    data = {
        name: page_data(run, with_dot, kernel_texts(run.module, run.prices, run.setting.target), times)
        for name, run in named.items()
    }
    return environment.get_template("page.html").render(title=title, data=script_json(data))


def script_json(data: Any) -> str:
    """JSON that can stand in a script element: it contains no `<`, which could end the element."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
