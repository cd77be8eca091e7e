"""What a notebook shows: HTML that is escaped, bounded, and without colours; progress on the screen."""

from __future__ import annotations

import re
import threading
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from rich.text import Text

from eqsat import Program, optimize_and_compile
from eqsat.explanation.notebook import MOST_LINES, KernelReports, html_of
from eqsat.shown_progress import telling

TEXT = '%x: fp32[4, 4] = input()\n%"<b>&y" = relu(%x)'


@pytest.fixture(scope="module")
def program() -> Program:
    return optimize_and_compile(TEXT, target="cpu", threads=1)


class Tags(HTMLParser):
    """The tags of a text, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.data += data


def shown(value: Any) -> str:
    """The text that a notebook shows of a value, after checks of its HTML."""
    html = value._repr_html_()
    tags = Tags(html)
    assert tags.open == []
    assert tags.names <= {"pre", "b", "i"}
    assert "color" not in html, "the page's own colours are right in light and dark"
    return tags.data


def test_a_program_shows_its_figures_and_kernels(program: Program) -> None:
    text = shown(program)
    assert "1 kernel for cpu" in text
    assert "uops" in text
    assert program.kernels[0].name in text


def test_kernels_and_profiles_are_tables(program: Program) -> None:
    kernels, measured = program.kernels, program.profile(np.ones((4, 4), np.float32), repeats=1)
    assert isinstance(kernels, KernelReports)
    assert isinstance(kernels, tuple)
    assert "measured" not in shown(kernels)
    assert "measured" in shown(measured)


def test_a_program_without_a_variant_says_so() -> None:
    free = optimize_and_compile("%x: fp32[M] = input()\n%y = relu(%x)", target="cpu", threads=1)
    assert "no variant yet" in shown(free)


def test_an_exploration_is_shown_and_names_are_escaped(program: Program) -> None:
    run = program.explore()
    assert re.search("rules?", shown(run))
    assert shown(Escaped()).strip() == "<script>&"


class Escaped:
    def _repr_html_(self) -> str:
        return html_of(Text("<script>&"))


def test_the_size_is_bounded(program: Program) -> None:
    many = KernelReports(program.kernels * 5000)
    text = shown(many)
    assert len(text.splitlines()) <= MOST_LINES + 1
    assert "4,900 further kernels" in text
    long = html_of(Text("\n".join(map(str, range(1000)))))
    assert f"{1000 - MOST_LINES} further lines" in long


class Terminal:
    """A terminal that keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with telling(True) as report:
        assert report is not None
        report("saturate")
        report.detail("phase 1, 1,234 e-nodes")  # type: ignore[attr-defined]
    assert "saturate: phase 1, 1,234 e-nodes" in terminal.text
    with telling(True, steps=3) as step:
        assert step is not None
        step("M=1 ready")
    assert "1/3" in terminal.text


def test_progress_is_quiet_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    result = optimize_and_compile(TEXT, target="cpu", threads=1, cache=False, progress=True)
    assert result.variants
    assert capsys.readouterr() == ("", "")


def test_other_threads_do_not_write_on_the_screen() -> None:
    results: list[object] = []

    def ask() -> None:
        with telling(True) as report:
            results.append(report)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert results == [None]


def test_counts_are_told_to_who_shows_them() -> None:
    details: list[str] = []

    class Shown:
        def __call__(self, stage: str) -> None:
            details.append(stage)

        def detail(self, text: str) -> None:
            details.append(f"  {text}")

    optimize_and_compile(TEXT, target="cpu", threads=1, cache=False, progress=Shown())
    assert "saturate" in details
    assert any("e-nodes" in line for line in details)
    assert any("kernel" in line for line in details)
