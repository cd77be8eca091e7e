"""Writes docs/derived.md, the kernels of the programs in `docs.derived_programs`: `python -m docs.make_derived`."""

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
from eqsat.options import check_options
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
    """Kernels of a program, and their bytes to and from memory: with a kernel per op, by ordinary fusion, and by all
    rules; and the further families behind its kernels."""

    name: str
    written: str
    kernels: tuple[int, int, int]
    bytes: tuple[float, float, float]
    families: tuple[str, ...]


@cache
def row(name: str) -> Row:
    """The row of one program, optimized at three levels."""
    source = PROGRAMS[name]
    model = read_model(source())
    bound = model.bind(model.infer({}), strict=False)
    fused, best = (optimize(bound, rules) for rules in (ORDINARY, None))
    fused_bytes, best_bytes = (sum(price.work.bytes for price in artifact.prices) for artifact in (fused, best))
    moved = (written_bytes(bound), fused_bytes, best_bytes)
    kernels = (best.stats.kernels_before, fused.stats.kernels_after, best.stats.kernels_after)
    return Row(name, (source.__doc__ or "").strip(), kernels, moved, further_families(best))


def optimize(bound: BoundModel, rules: Sequence[str] | None) -> Artifact:
    """The program optimized with these rules for a fixed machine, its buffers row-major; nothing is compiled."""
    options = check_options(rules, "rounding", "pareto", "-relayout", None)
    return pipeline.optimize(bound, TARGET, options, Clock())


def written_bytes(bound: BoundModel) -> float:
    """Bytes read and written if every op is a kernel."""
    graph = bound.graph
    nodes = [node for node in graph.nodes if node.uop != "INPUT"]
    return sum(graph.types[ref].nbytes for node in nodes for ref in (node.id, *node.refs))


def further_families(artifact: Artifact) -> tuple[str, ...]:
    """The families beyond `ORDINARY` whose rules built the kernels, including kernels that run at build time."""
    fired = {rule for call in artifact.module.calls for rule in call.rules}
    names = [name for name, family in FAMILIES.items() if fired & {rule.name for rule in family}]
    return tuple(name for name in names if name not in ORDINARY)


def page() -> str:
    """The text of the page."""
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        table="\n".join(_table()), ordinary=", ".join(ORDINARY)
    )


def _table() -> Iterator[str]:
    yield "| program | ops | ordinary fusion | all rules | families beyond ordinary fusion |"
    yield "|---|--:|--:|--:|---|"
    for entry in map(row, PROGRAMS):
        cells = (f"{count}, {_size_text(size)}" for count, size in zip(entry.kernels, entry.bytes, strict=True))
        yield f"| **{entry.name}**: {entry.written} | {' | '.join(cells)} | {', '.join(entry.families)} |"


def _size_text(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB" if size >= 2**20 else f"{size / 2**10:,.0f} KiB"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
