"""Links of the Markdown pages: the files exist, the headings exist, and the site lists every page."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from docs.site_hooks import local_links

HOME = Path(__file__).parents[2]
DOCS = HOME / "docs"
PAGES = sorted(
    [*HOME.glob("*.md"), *(page for page in DOCS.rglob("*.md") if not page.name.endswith(".template.md"))],
    key=str,
)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them: a repeated heading has a number."""
    results: list[str] = []
    seen: Counter[str] = Counter()
    for heading in re.findall(r"^#+ +(.*)$", text_of(page), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        results += [f"{slug}-{seen[slug]}" if seen[slug] else slug]
        seen[slug] += 1
    return frozenset(results)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in _LINK.findall(text_of(page)):
        path, _, anchor = link.partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_no_page_speaks_of_a_document_that_is_not_here() -> None:
    speaking = [page.name for page in PAGES if re.search(r"\bseed\s+00\d|DESIGN\.md", text_of(page))]
    assert speaking == []


def test_the_site_lists_every_page() -> None:
    listed = set(re.findall(r"[\w/]+\.md", (HOME / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2]))
    pages = {str(page.relative_to(DOCS)) for page in PAGES if page.is_relative_to(DOCS)}
    assert listed == pages | {"contributing.md", "changelog.md"}


def test_links_out_of_the_site_become_text_or_its_pages() -> None:
    text = "[rules](../../rules/movement.py) [us](../../CONTRIBUTING.md#style) [tiny](../tiny.md) [web](https://x.org)"
    shown = "rules [us](../contributing.md#style) [tiny](../tiny.md) [web](https://x.org)"
    assert local_links(text, "users/maintaining.md") == shown
