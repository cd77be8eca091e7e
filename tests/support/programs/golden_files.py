"""Golden files: a folder of texts that are as they were recorded, or recorded anew by `pytest --update-golden`."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden"
DIFF_LINES = 80


def compare(name: str, texts: dict[str, str], config: pytest.Config) -> None:
    """Fails with the differences between the texts by file name and those of `golden/<name>`, or records them."""
    folder = GOLDEN / name
    if config.getoption("--update-golden"):
        _record(folder, texts)
        return
    recorded = {path.name: path.read_text(encoding="utf-8") for path in recorded_files(name)}
    assert sorted(recorded) == sorted(texts)
    differences = [difference(f"{name}/{file}", recorded[file], text) for file, text in texts.items()]
    if any(differences):
        pytest.fail("\n".join(filter(None, differences)) + "\n(pytest --update-golden records it)", pytrace=False)


def recorded_files(name: str) -> list[Path]:
    """The files of `golden/<name>`, by name."""
    return sorted((GOLDEN / name).iterdir())


def difference(file: str, recorded: str, text: str) -> str:
    """A unified diff, its long end cut off; empty where there is none."""
    lines = list(
        difflib.unified_diff(
            recorded.splitlines(), text.splitlines(), f"golden/{file}", f"now/{file}", n=2, lineterm=""
        )
    )
    more = [f"… {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
    return "\n".join(lines[:DIFF_LINES] + more)


def _record(folder: Path, texts: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in texts:
            path.unlink()
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
