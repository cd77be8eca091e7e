"""Writes `docs/performance.md` from `bench/results/peers_cpu.json`: eqsat beside its peers, case by case, and why.

python -m docs.make_performance
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.__main__ import geometric_mean
from bench.peers.kernels import kernels
from bench.peers.systems import OURS

FILE = Path(__file__).parent / "performance.md"
RESULTS = Path(__file__).parent.parent / "bench" / "results" / "peers_cpu.json"
NAMES = {"xla": "XLA", "openvino": "OpenVINO"}
"""Systems as their makers write them, where that differs."""
SHOWN_FACTS = (
    *("cpu", "instruction sets", "cores", "caches", "fp32 FMA, 1 thread", "fp32 FMA, 2 threads"),
    *("bf16 in matrix registers, 1 thread", "bf16 in matrix registers, 2 threads", "copies"),
    *("compiler", "versions", "onnxruntime", "openvino", "jax", "commit", "date", "threads", "rounds", "load"),
)
HEAD = """# Speed beside other systems

Written by `python -m docs.make_performance` from `bench/results/peers_cpu.json`, which `python -m bench.peers` writes.
All systems are measured in one run, in turns, each in a process of its own. Their outputs are compared first. Times are
medians. The machine:

{machine}

The other systems: {systems}.

- *at range*: eqsat at `exactness="range"`, where it takes Winograd's convolutions
  ([rules.md](rules.md#convolutions-by-tiles)); no ratio is of these times.
- *ratio*: the time of the fastest other system as a multiple of eqsat's; above 1, eqsat is faster.
- *limit*: the share of the machine's measured peak that eqsat reaches: of FLOP/s in fp32, or in matrix registers where
  these multiply the operands, or of the bytes/s of a copy in the level of memory that holds the tensors.

A call's inputs and results are NumPy arrays or the system's own; weights are constants.
"""
WHY: Mapping[str, str] = {
    "linear 128×768×768 bf16": "without AMX, products are widened to fp32; oneDNN multiplies pairs of bf16",
    "stem 7×7/2+relu+maxpool": "the pool is a kernel of its own, with loads two elements apart",
    "softmax 512×1024": "an exponential of 16 lanes takes 26 to 32 cycles; rows lie 4 KB apart",
    "squeezenet": "branches that are concatenated write buffers of their own, which another kernel copies",
    "vgg19": "at exactness range its convolutions go by Winograd's tiles",
}
"""Case → the known cause where eqsat is slower; elsewhere the cause is not known yet."""


def text() -> str:
    """The whole page."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    facts, rows = results["facts"], results["rows"]
    systems = sorted({system for row in rows for system in row["ms"] if system not in OURS})
    parts = [HEAD.format(machine=_machine(facts), systems=", ".join(NAMES.get(name, name) for name in systems))]
    for title, chosen in (
        ("Kernels", [row for row in rows if row["case"] in kernels()]),
        ("Models", [row for row in rows if row["case"] not in kernels()]),
    ):
        parts.append(f"## {title}\n\n{_table(chosen)}")
    return "\n".join(parts)


def _machine(facts: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: {facts[name]}" for name in SHOWN_FACTS if name in facts)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| case | eqsat, ms | at range | fastest other, ms | ratio | limit | why |",
        "|---|--:|--:|---|--:|--:|---|",
    ]
    for row in rows:
        other = row.get("fastest other", "")
        fastest = f"{NAMES.get(other, other)} {row['ms'][other]:.3g}" if other else ""
        share = f"{row['share of the limit']:.0%}" if "share of the limit" in row else ""
        ratio = f"{row['times as fast']:.2f}" if other else ""
        why = WHY.get(row["case"], "") if row.get("times as fast", 1) < 1 else ""
        at_range = f"{row['ms']['eqsat, range']:.3g}" if "eqsat, range" in row["ms"] else ""
        lines.append(
            f"| {row['case']} | {row['ms']['eqsat']:.3g} | {at_range} | {fastest} | {ratio} | {share} | {why} |"
        )
    ratios = [row["times as fast"] for row in rows if "times as fast" in row]
    ahead = sum(ratio >= 1 for ratio in ratios)
    mean = f"{geometric_mean(ratios):.2f}" if ratios else "–"
    return "\n".join([*lines, "", f"Geometric mean of the {len(ratios)} ratios: {mean}; {ahead} are 1 or more.", ""])


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
