"""Rich tables below headings, for explorations and comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


def with_heading(title: str, content: object) -> Group:
    """The content below its title, indented."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    return Group(Text(title, style="bold"), Padding(content, (0, 0, 1, 2)))  # type: ignore[arg-type]


def empty_table(*columns: str) -> Table:
    """An empty table without borders, whose long words fold where space is short."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
