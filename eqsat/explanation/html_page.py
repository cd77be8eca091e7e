"""A run as one HTML page without references to a network or to other files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.explanation.page_data import page_data
from ir.host.output_file import write_output

if TYPE_CHECKING:
    from eqsat.explanation.explored_run import ExploredRun

TEMPLATES = "page"
"""The folder of the templates within this package."""


def write_page(run: ExploredRun, path: str | Path, title: str = "eqsat explore", with_dot: bool = True) -> None:
    """Write the page of a run. Raises EqsatError, InvalidOption, if the file cannot be written."""
    write_output(Path(path), page(run, title, with_dot).encode(), "explore")


def page(run: ExploredRun, title: str = "eqsat explore", with_dot: bool = True) -> str:
    """The page of a run. with_dot: lay out the graphs with Graphviz if it is installed."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("eqsat.explanation", TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    data = page_data(run, with_dot)
    return environment.get_template("page.html").render(title=title, summary=data["summary"], data=script_json(data))


def script_json(data: Any) -> str:
    """JSON that can stand in a script element: it contains no `<`, which could end the element."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
