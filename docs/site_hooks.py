"""Hooks of mkdocs: pages from files beside docs/, and links to source files as plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent.parent
BESIDE = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""The pages of the site that are files beside docs/."""

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s]+)(?P<anchor>#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages from files beside docs/."""
    from mkdocs.structure.files import File

    for page, name in BESIDE.items():
        text = (HOME / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The text of a page, without links to files that are not pages of the site."""
    return local_links(markdown, page.file.src_uri)


def local_links(markdown: str, page: str) -> str:
    """Links to files beside docs/ become links to their pages, or, of source files, their texts."""
    folder = HOME / "docs" / Path(page).parent

    def link(match: re.Match[str]) -> str:
        if "://" in match["path"]:
            return match[0]
        path = (folder / match["path"]).resolve()
        if path.is_relative_to(HOME / "docs"):
            return match[0]
        for name, file in BESIDE.items():
            if path == HOME / file:
                return f"[{match['text']}]({'../' * page.count('/')}{name}{match['anchor'] or ''})"
        return match["text"]

    return _LINK.sub(link, markdown)
