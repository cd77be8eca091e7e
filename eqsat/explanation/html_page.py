"""A run as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.explanation.page_data import page_data
from ir.diagnostics import Kind, fail
from ir.host.atomic_file import write_atomically

if TYPE_CHECKING:
    from eqsat.explanation.explored_run import ExploredRun

TEMPLATES = "page"
"""The folder of the templates, in this package."""


def write_page(run: ExploredRun, path: str | Path, title: str = "eqsat explore", with_dot: bool = True) -> None:
    """Write the page of a run. Raises EqsatError, InvalidOption, where the file cannot be written."""
    try:
        write_atomically(Path(path), page(run, title, with_dot).encode())
    except OSError as error:
        fail(Kind.INVALID_OPTION, "explore", f"cannot write the file: {error.strerror or error}", at=str(path))


def page(run: ExploredRun, title: str = "eqsat explore", with_dot: bool = True) -> str:
    """The page of a run. `with_dot`: let Graphviz lay out the graphs, where it is installed."""
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
    """JSON that may stand in a script element: no `<` ends it early."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
