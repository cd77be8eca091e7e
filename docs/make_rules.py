"""Writes the catalogue at the end of docs/rules.md: every rule with its level and its equation.

python -m docs.make_rules
"""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Iterator
from pathlib import Path

from rules import FAMILIES, equations

PAGE = Path(__file__).parent / "rules.md"
HEADING = "## Catalogue\n"
WIDTH = 120


def page() -> str:
    """The whole page: what stands before the catalogue stays as it is."""
    before, heading, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    return before + heading + "\n" + "\n".join(_catalogue())


def _catalogue() -> Iterator[str]:
    _, *notation = (equations.__doc__ or "").strip().split("\n\n")
    for paragraph in notation:
        is_table = paragraph.startswith(" ")
        yield f"```text\n{textwrap.dedent(paragraph)}\n```" if is_table else textwrap.fill(paragraph, WIDTH)
        yield ""
    for name, rules in FAMILIES.items():
        about = (importlib.import_module(f"rules.{name}").__doc__ or "").partition("\n")[0]
        yield f"### [{name}](../rules/{name}.py)\n\n{about}\n\n```text"
        longest = max(len(rule.name) for rule in rules)
        yield from (f"{rule.name:<{longest}}  {rule.exactness!s:<11}  {rule.equation}" for rule in rules)
        yield "```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
