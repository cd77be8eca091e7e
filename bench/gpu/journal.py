"""The journal of a test run: which tests ended how, and which test and kernel were under way when the run ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

JOURNAL = "EQSAT_JOURNAL"
"""The environment variable with the path of the file."""
OUTCOMES = ("passed", "failed", "skipped", "lost")
"""How a test ends; "lost": its process hung or died."""


class Journal(msgspec.Struct):
    """`outcomes`: by test; `kernels`: of each lost test, the kernel that it had launched last, or ""."""

    outcomes: dict[str, str] = {}
    kernels: dict[str, str] = {}

    @classmethod
    def read(cls, path: Path) -> Journal:
        """The journal in a file of lines: "start", "kernel", "passed", "failed" or "skipped", the process, a name, with
        tabs between them. Every process runs one test at a time."""
        journal = cls({}, {})
        running: dict[str, str] = {}
        kernels: dict[str, str] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            word, process, name = line.split("\t", 2)
            if word == "start":
                journal._lose(running.get(process, ""), kernels.get(process, ""))
                running[process], kernels[process] = name, ""
            elif word == "kernel":
                kernels[process] = name
            elif word in OUTCOMES:
                journal.outcomes[name] = word
                if running.get(process) == name:
                    del running[process]
        for process, test in running.items():
            journal._lose(test, kernels[process])
        return journal

    def write(self, path: Path) -> None:
        """Writes the tests that have passed."""
        path.write_text("".join(f"passed\t\t{name}\n" for name in sorted(self.passed)), encoding="utf-8")

    @property
    def passed(self) -> set[str]:
        return {name for name, outcome in self.outcomes.items() if outcome == "passed"}

    def groups(self) -> dict[str, dict[str, Any]]:
        """By the file of the tests: how many ended in each way, and a line for every test that did not pass."""
        groups: dict[str, dict[str, Any]] = {}
        for name, outcome in sorted(self.outcomes.items()):
            group = groups.setdefault(name.partition("::")[0], {**dict.fromkeys(OUTCOMES, 0), "wrong": []})
            group[outcome] += 1
            if outcome in ("failed", "lost"):
                kernel = f" in the kernel {self.kernels[name]}" if self.kernels.get(name) else ""
                group["wrong"].append(f"{name}: {outcome}{kernel}")
        return groups

    def _lose(self, test: str, kernel: str) -> None:
        if test:
            self.outcomes[test], self.kernels[test] = "lost", kernel
