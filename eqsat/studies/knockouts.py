"""The knock-outs of the ablation: a family of rules, a term of §11, or the default extractor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from eqsat.cost.roofline import ALL_TERMS, TERM_NAMES, Terms
from eqsat.extraction.covering.extractors import EXTRACTORS
from rules import FAMILIES


@dataclass(frozen=True)
class Knockout:
    """`kind` is "", "family", "term" or "extractor"; the other fields are options of `optimize_and_compile`."""

    kind: str = ""
    name: str = "everything on"
    rules: tuple[str, ...] | None = None
    terms: Terms = ALL_TERMS
    extractor: str = "pareto"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()


EVERYTHING = Knockout()
KINDS = ("family", "term", "extractor")


def knockouts(kinds: tuple[str, ...] = KINDS, slow: bool = True) -> Iterator[Knockout]:
    """All knock-outs of these kinds; `slow`: with the extractors that price every candidate, of which large programs
    have too many."""
    if "family" in kinds:
        yield from (Knockout("family", name, rules=(f"-{name}",)) for name in FAMILIES)
    if "term" in kinds:
        yield from (
            Knockout("term", name, terms=msgspec.structs.replace(ALL_TERMS, **{name: False})) for name in TERM_NAMES
        )
    if "extractor" in kinds:
        others = [name for name in EXTRACTORS if name != EVERYTHING.extractor]
        tried = [name for name in others if slow or name in ("greedy", "tree")]
        yield from (Knockout("extractor", name, extractor=name) for name in tried)
