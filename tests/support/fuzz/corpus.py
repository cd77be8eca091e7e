"""The fuzzer's memory between runs: its progress, its counts, and the slowest programs.

One folder holds a JSON file for each kind and seed. Tries are numbered; the next run begins at the first try that no
run has taken. A feature (an idiom, a rule) is reported when it is seen for the first time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ir.host.atomic_file import write_atomically
from ir.host.cache_folder import writable_cache
from tests.support.fuzz.report import Report

Tries = tuple[int, ...]


class Corpus:
    """The memory of a kind of tries under a seed."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        self._path = folder / f"{kind}_{seed}.json"
        stored: dict[str, Any] = {"next": 0, "lost": [], "total": {}}
        if self._path.exists():
            stored = json.loads(self._path.read_text())
        self._next: int = stored["next"]
        self._pending: set[Tries] = {tuple(pending_tries) for pending_tries in stored["lost"]}
        self.total = Report.of_json(stored["total"]) if stored["total"] else Report()

    def ranges(self, length: int) -> Iterator[Tries]:
        """Ranges that no run has finished: first those under way when a run was stopped, then new ones."""
        yield from sorted(self._pending)
        while True:
            tries = tuple(range(self._next, self._next + length))
            self._next += length
            self._pending.add(tries)
            yield tries

    def done(self, tries: Tries, report: Report) -> list[str]:
        """Remember what came of tries; the features that are new."""
        new = sorted(report.features.keys() - self.total.features.keys())
        self.total.add(report)
        self.total.findings = []
        for pending in [pending_tries for pending_tries in self._pending if set(pending_tries) & set(tries)]:
            self._pending.remove(pending)
            rest = tuple(number for number in pending if number not in tries)
            if rest:
                self._pending.add(rest)
        self._store()
        return new

    def _store(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        stored = {"next": self._next, "lost": sorted(self._pending), "total": self.total.to_json()}
        write_atomically(self._path, json.dumps(stored).encode())


def corpus_folder() -> Path:
    """Beside the programs and libraries of the cache."""
    folder, _ = writable_cache()
    return folder / "fuzz"
