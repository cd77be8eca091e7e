"""The fuzzer's counts and findings, and the report on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WORST = 20
SUMS = ("tries", "valid", "compiled", "large", "elements", "judged", "exact", "again", "seconds")


@dataclass(frozen=True)
class Finding:
    """What should not have happened, at which try, in which stage; `path` is the file that shows it again."""

    index: int
    stage: str
    message: str
    path: str = ""

    def __str__(self) -> str:
        return f"try {self.index}, {self.stage}: {self.message}\n    {self.path}"


@dataclass
class Report:
    """tries, valid programs, programs compiled and run, large ones only optimized; outputs' elements compared, those
    well-conditioned, those compared bit for bit; programs evaluated independently of playback, again; seconds of CPU.

    features: how often an idiom was written, a rule had a match. slowest: the programs that took longest to optimize,
    as (seconds of CPU, e-nodes, uops, index), and `growth` those of most e-nodes a uop.
    """

    tries: int = 0
    valid: int = 0
    compiled: int = 0
    large: int = 0
    elements: int = 0
    judged: int = 0
    exact: int = 0
    again: int = 0
    seconds: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    slowest: list[tuple[float, int, int, int]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Report) -> None:
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.errors, other.errors), (self.features, other.features)):
            for kind, count in theirs.items():
                mine[kind] = mine.get(kind, 0) + count
        self.slowest = sorted({*self.slowest, *other.slowest}, reverse=True)[:WORST]
        self.findings += other.findings

    def count(self, *features: str) -> None:
        for feature in features:
            self.features[feature] = self.features.get(feature, 0) + 1

    def to_json(self) -> dict[str, Any]:
        """All but the findings, which have files of their own."""
        kept = (*SUMS, "errors", "features", "slowest")
        return {**{name: getattr(self, name) for name in kept}}

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Report:
        return cls(**{**document, "slowest": [tuple(entry) for entry in document["slowest"]]})

    def __str__(self) -> str:
        judged = self.judged / self.elements if self.elements else 0.0
        errors = ", ".join(f"{kind} {count}" for kind, count in sorted(self.errors.items(), key=lambda item: -item[1]))
        rate = 60 * self.tries / self.seconds if self.seconds else 0.0
        facts = [
            f"{self.tries} tries: {self.valid} valid ({self.valid / max(1, self.tries):.0%})",
            f"{self.compiled} compiled and run",
            f"{judged:.1%} of {self.elements} elements well-conditioned",
        ]
        facts += [f"{self.large} large ones optimized"] if self.large else []
        facts += [f"{self.exact} compared bit for bit, {self.again} programs evaluated again"] if self.again else []
        facts += [f"{rate:.0f} a minute of CPU, {len(self.features)} idioms and rules"] if self.features else []
        facts += [f"the slowest {self.slowest[0][0]:.1f} s"] if self.slowest else []
        return "; ".join([*facts, f"errors: {errors or 'none'}", f"{len(self.findings)} findings"])
