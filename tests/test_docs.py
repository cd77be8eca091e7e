"""The documentation is written by the code that runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from docs.make_walkthrough import PAGE, page

RULES_PAGE = Path(__file__).parent.parent / "docs" / "rules.md"


def test_the_walkthrough_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.make_walkthrough`"


def test_the_examples_of_the_rules_page_run() -> None:
    text = RULES_PAGE.read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    told = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for example in examples:
            exec(compile(example, RULES_PAGE.name, "exec"), names)
    assert len(examples) == 3
    assert printed.getvalue().startswith(told[0])
