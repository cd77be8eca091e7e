"""Writes docs/derived.md: what becomes of the programs of `docs.derived_programs`. `python -m docs.make_derived`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from docs.derived_programs import PROGRAMS
from eqsat import pipeline
from eqsat.clock import Clock
from eqsat.cost.targets import nominal_cpu
from eqsat.model import BoundModel, read_model
from eqsat.options import checked_options
from eqsat.runtime.artifact import Artifact
from rules import FAMILIES, ORDINARY

PAGE = Path(__file__).parent / "derived.md"
TEMPLATE = Path(__file__).parent / "derived.template.md"
TARGET = nominal_cpu(
    arch="avx512", cores=2, lanes=16, l1_bytes=48 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20,
    source="an example: the same on every machine",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """Kernels and bytes to and from memory of one program: each op a kernel, ordinary fusion, all rules; and the
    further families behind its kernels."""

    name: str
    written: str
    kernels: tuple[int, int, int]
    bytes: tuple[float, float, float]
    families: tuple[str, ...]


@cache
def row(name: str) -> Row:
    """One program, at three levels."""
    source = PROGRAMS[name]
    model = read_model(source())
    bound = model.bind(model.infer({}), strict=False)
    fused, best = (optimized(bound, rules) for rules in (ORDINARY, None))
    fused_bytes, best_bytes = (sum(price.work.bytes for price in each.prices) for each in (fused, best))
    moved = (written_bytes(bound), fused_bytes, best_bytes)
    kernels = (best.stats.kernels_before, fused.stats.kernels_after, best.stats.kernels_after)
    return Row(name, (source.__doc__ or "").strip(), kernels, moved, further_families(best))


def optimized(bound: BoundModel, rules: Sequence[str] | None) -> Artifact:
    """The program with these rules, for a machine that is everywhere the same; nothing is compiled."""
    options = checked_options(rules, "rounding", "pareto", "roofline", None)
    return pipeline.optimize(bound, TARGET, options, Clock())


def written_bytes(bound: BoundModel) -> float:
    """What is read and written where each op is a kernel."""
    graph = bound.graph
    nodes = [node for node in graph.nodes if node.uop != "INPUT"]
    return sum(graph.types[each].nbytes for node in nodes for each in (node.id, *node.refs))


def further_families(found: Artifact) -> tuple[str, ...]:
    """Those beyond `ORDINARY` whose rules led to the kernels, those that run when the program is built among them."""
    fired = {rule for call in found.module.calls for rule in call.rules}
    names = [name for name, family in FAMILIES.items() if fired & {rule.name for rule in family}]
    return tuple(name for name in names if name not in ORDINARY)


def page() -> str:
    """The page's text."""
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        table="\n".join(_table()), ordinary=", ".join(ORDINARY)
    )


def _table() -> Iterator[str]:
    yield "| program | ops | ordinary fusion | all rules | families beyond ordinary fusion |"
    yield "|---|--:|--:|--:|---|"
    for each in map(row, PROGRAMS):
        cells = (f"{count}, {_shown(size)}" for count, size in zip(each.kernels, each.bytes, strict=True))
        yield f"| **{each.name}**: {each.written} | {' | '.join(cells)} | {', '.join(each.families)} |"


def _shown(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB" if size >= 2**20 else f"{size / 2**10:,.0f} KiB"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
