"""The documentation is written by the code that runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from docs.make_walkthrough import PAGE, page

RULES_PAGE = Path(__file__).parent.parent / "docs" / "rules.md"
EXPLORE_PAGE = RULES_PAGE.with_name("explore.md")


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


def test_the_example_of_the_cost_page_prints_what_it_says() -> None:
    text = RULES_PAGE.with_name("cost.md").read_text(encoding="utf-8")
    ((example, told),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "cost.md", "exec"), {})
    assert printed.getvalue() == told


def test_the_scripts_of_the_explore_page_run_and_print_what_it_says() -> None:
    blocks = re.findall(r"```(python|text)\n(.*?)```", EXPLORE_PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    printed = ""
    for kind, block in blocks:
        if kind == "text":
            assert printed == block
            continue
        assert len(block.splitlines()) <= 10
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, EXPLORE_PAGE.name, "exec"), names)
        printed = output.getvalue()
        assert printed
    assert [kind for kind, _ in blocks].count("python") == 8
