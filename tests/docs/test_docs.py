"""The documentation is written by the code that runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from docs import make_rules
from docs.make_walkthrough import PAGE, page
from eqsat.explanation.rule_text import rule_text

HOME = Path(__file__).parents[2]
RULES_PAGE = HOME / "docs" / "rules.md"
EXPLORE_PAGE = RULES_PAGE.with_name("explore.md")


def test_the_walkthrough_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.make_walkthrough`"


def test_the_catalogue_of_rules_is_up_to_date() -> None:
    assert make_rules.PAGE.read_text(encoding="utf-8") == make_rules.page(), "run `python -m docs.make_rules`"


@pytest.mark.slow
def test_the_examples_of_the_rules_page_run() -> None:
    text, _, _ = RULES_PAGE.read_text(encoding="utf-8").partition(make_rules.HEADING)
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    answers = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for example in examples:
            exec(compile(example, RULES_PAGE.name, "exec"), names)
    assert len(examples) == 3
    shown, refusal = answers
    assert printed.getvalue().startswith(refusal)
    page = iter(rule_text("compose_load").splitlines())
    assert all(line in page for line in shown.splitlines() if line != "  …")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("tiny.md", 3), ("lazy.md", 2), ("serving.md", 2), ("cost.md", 3)])
def test_the_examples_of_a_page_print_what_it_says(name: str, count: int) -> None:
    text = RULES_PAGE.with_name(name).read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(examples) == count
    for example, answer in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example, name, "exec"), {})
        assert printed.getvalue() == answer


@pytest.mark.slow
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
    assert [kind for kind, _ in blocks].count("python") == 14


def test_the_example_of_the_readme_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (HOME / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(example, "README.md", "exec"), names)
    (kernel,) = names["program"].kernels
    assert len(kernel.uops) == 8, "the example says so"


def test_the_kernel_of_the_emulator_page_has_the_findings_that_it_tells() -> None:
    text = RULES_PAGE.with_name("emulator.md").read_text(encoding="utf-8")
    ((example, answer),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "emulator.md", "exec"), {})
    assert printed.getvalue() == answer


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*HOME.glob("*.md"), *HOME.glob("docs/**/*.md")]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    ]
    local = [(page, link) for page, link in links if ":" not in link]
    assert local
    assert not [f"{page.name}: {link}" for page, link in local if not (page.parent / link).exists()]
