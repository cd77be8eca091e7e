"""Writes `docs/performance.md`: eqsat beside its peers, case by case, and why, from `bench/results/peers_cpu_….json`
and `torch_models.json`.

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
RESULTS = Path(__file__).parent.parent / "bench" / "results"
TORCH = RESULTS / "torch_models.json"
MACHINES = {
    "amx": "With AMX",
    "avx512_bf16": "With AVX-512, without AMX",
    "avx2": "With AVX2 alone",
}
"""Instruction sets with results of `bench.peers`, and their titles on the page."""
NAMES = {"xla": "XLA", "openvino": "OpenVINO"}
"""Systems as their makers write them, where that differs."""
SHOWN_FACTS = (
    *("cpu", "instruction sets", "cores", "caches", "fp32 FMA, 1 thread", "fp32 FMA, 2 threads"),
    *(f"bf16 {how}, {threads}" for how in ("in matrix registers", "by pairs") for threads in ("1 thread", "2 threads")),
    "copies",
    *("compiler", "versions", "onnxruntime", "openvino", "jax", "commit", "date", "threads", "rounds", "load"),
)
HEAD = """# Speed beside other systems

Written by `python -m docs.make_performance` from `bench/results/peers_cpu_….json`, which `python -m bench.peers`
writes. All systems are measured in one run, in turns, each in a process of its own. Their outputs are compared first.
Times are medians.

- *at range*: eqsat at `exactness="range"`, where it takes Winograd's larger tiles
  ([rules.md](rules.md#convolutions-by-tiles)); no ratio is of these times.
- *ratio*: the time of the fastest other system as a multiple of eqsat's; above 1, eqsat is faster.
- *limit*: the share of the machine's measured peak that eqsat reaches: of FLOP/s in fp32, or in bf16 where an
  instruction multiplies the operands, or of the bytes/s of a copy in the level of memory that holds the tensors.

A call's inputs and results are NumPy arrays or the system's own; weights are constants. With AVX2 alone, all systems
are held to it on a machine that has more; onnxruntime has no such setting and is left out. So is a system whose output
differs from most others'.
"""
MACHINE_HEAD = """## {title}

The other systems: {systems}. The machine:

{machine}
"""
TORCH_HEAD = """## Models under torch.compile

From `bench/results/torch_models.json`, which `python -m bench.torch_models` writes: the models of transformers and
torchvision with random weights, in eager, in inductor, in onnxruntime (inference alone) and in eqsat, all by torch's
tensors. Results of inference, and the losses of 20 steps of AdamW, are compared with eager's first. Parameters are
arguments, which every call may find changed; *frozen* ones are constants (`options={{"freezing": True}}`), as those of
onnxruntime are. Two threads; versions: {versions}.
Machines:

{machines}

- *ratio*: the time of the fastest other system as a multiple of eqsat's, frozen where that is faster.
- *first call*: seconds of the first call in inference and of the first step, with empty caches, then with the caches
  that these calls wrote.
- *kernels*: where eqsat is slower than the fastest other system, the kernels that lose most time against the roofline:
  their share of the time of all kernels, and the share of the machine's peak that they reach; then the cause, where it
  is known. Kernels of inference are those of the faster of eqsat's two forward passes.

"""
WHY: dict[str, str] = {
    "stem 7×7/2+relu+maxpool": "the pool is a kernel of its own, with loads two elements apart",
}
"""Case → the known cause where eqsat is slower; elsewhere the cause is not known yet."""
WHY_OF_MACHINE: dict[str, dict[str, str]] = {
    "avx2": {
        "resnet50, bytes": "OpenVINO sums pairs of products in 16 bits, which saturate; eqsat's sums are exact",
        "gemm 1024³": "a slow minute: 0.97 and 1.15 in the runs before",
    },
    "avx512_bf16": {
        "stem 7×7/2+relu+maxpool": "some processes take 2 ms, and others 1.2: the runs before gave 0.73 and 1.09",
        "linear 128×768×768 bf16": "a slow process: three runs after gave 1.01, 1.13 and 1.17",
    },
}
"""Instruction sets → causes that hold there alone."""
WHY_TORCH: Mapping[str, str] = {
    "mobilenet_v3 inference": "a tie: the ratio was 1.01 in the run before",
    "mixture step": "gradients of the experts' matrices are products of tiles of 16 rows, which are written, added to "
    "the experts' matrices and transposed: 168 of the 291 ms of the backward pass, which takes eager 148",
}
"""Model and kind → the known cause where eqsat is slower."""


def text() -> str:
    """The whole page."""
    parts = [HEAD]
    for arch, title in MACHINES.items():
        results = json.loads((RESULTS / f"peers_cpu_{arch}.json").read_text(encoding="utf-8"))
        facts, rows = results["facts"], results["rows"]
        systems = sorted({system for row in rows for system in row["ms"] if system not in OURS})
        names = ", ".join(NAMES.get(name, name) for name in systems)
        parts.append(MACHINE_HEAD.format(title=title, machine=_machine(facts), systems=names))
        for kind, chosen in (
            ("Kernels", [row for row in rows if row["case"] in kernels()]),
            ("Models", [row for row in rows if row["case"] not in kernels()]),
        ):
            parts.append(f"### {kind}\n\n{_table(chosen, WHY | WHY_OF_MACHINE.get(arch, {}))}")
    trained = json.loads(TORCH.read_text(encoding="utf-8"))
    head = TORCH_HEAD.format(versions=trained["facts"]["versions"], machines=_machines(trained["rows"]))
    parts.append(head + _torch_table(trained["rows"]))
    return "\n".join(parts)


def _machine(facts: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: {facts[name]}" for name in SHOWN_FACTS if name in facts)


def _machines(rows: Sequence[Mapping[str, Any]]) -> str:
    """The machines of these rows, each with its models. Rates are those of the machine's first row."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        machine = row["machine"]
        groups.setdefault((machine["cpu"], machine["instruction sets"].split()[0]), []).append(row)
    lines = []
    for (cpu, sets), group in groups.items():
        first = group[0]["machine"]
        commits = ", ".join(dict.fromkeys(row["machine"]["commit"] for row in group))
        models = ", ".join(row["model"] for row in group)
        rates = f"fp32 FMA, 2 threads: {first['fp32 FMA, 2 threads']}; copies: {first['copies']}"
        lines.append(f"- {cpu}, {sets}; {rates}; {first['date']}, commits {commits}: {models}")
    return "\n".join(lines)


def _table(rows: Sequence[Mapping[str, Any]], reasons: Mapping[str, str]) -> str:
    lines = [
        "| case | eqsat, ms | at range | fastest other, ms | ratio | limit | why |",
        "|---|--:|--:|---|--:|--:|---|",
    ]
    for row in rows:
        other = row.get("fastest other", "")
        fastest = f"{NAMES.get(other, other)} {row['ms'][other]:.3g}" if other else ""
        share = f"{row['share of the limit']:.0%}" if "share of the limit" in row else ""
        ratio = f"{row['times as fast']:.2f}" if other else ""
        why = reasons.get(row["case"], "") if row.get("times as fast", 1) < 1 else ""
        at_range = f"{row['ms']['eqsat, range']:.3g}" if "eqsat, range" in row["ms"] else ""
        lines.append(
            f"| {row['case']} | {row['ms']['eqsat']:.3g} | {at_range} | {fastest} | {ratio} | {share} | {why} |"
        )
    ratios = [row["times as fast"] for row in rows if "times as fast" in row]
    ahead = sum(ratio >= 1 for ratio in ratios)
    mean = f"{geometric_mean(ratios):.2f}" if ratios else "–"
    return "\n".join([*lines, "", f"Geometric mean of the {len(ratios)} ratios: {mean}; {ahead} are 1 or more.", ""])


def _torch_table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| model | | eqsat, ms | frozen, ms | fastest other, ms | ratio | first call, s | kernels |",
        "|---|---|--:|--:|---|--:|--:|---|",
    ]
    ratios: dict[str, list[float]] = {"forward": [], "step": []}
    for row in rows:
        for place, kind in enumerate(ratios):
            if f"{kind} ms" not in row:
                continue
            times, ratio = row[f"{kind} ms"], row[f"{kind} times as fast"]
            ratios[kind].append(ratio)
            other = min((name for name in times if not name.startswith("eqsat")), key=times.__getitem__)
            frozen = f"{times['eqsat, frozen']:.4g}" if "eqsat, frozen" in times else ""
            calls = " / ".join(f"{row[f'eqsat {cache} s'][place]:.1f}" for cache in ("first calls", "from cache"))
            name = "inference" if place == 0 else "step"
            cause = WHY_TORCH.get(f"{row['model']} {name}", "")
            kernels = ". ".join(filter(None, [row[f"{kind} kernels"], cause])) if ratio < 1 else ""
            lines.append(
                f"| {row['model'] if place == 0 else ''} | {name} "
                f"| {times['eqsat']:.4g} | {frozen} | {other} {times[other]:.4g} | {ratio:.2f} | {calls} | {kernels} |"
            )
    means = [
        f"{name}: {geometric_mean(found):.2f}, {sum(ratio >= 1 for ratio in found)} of {len(found)} are 1 or more"
        for name, found in zip(("inference", "step"), ratios.values(), strict=True)
    ]
    return "\n".join([*lines, "", f"Geometric means of the ratios: {'; '.join(means)}.", ""])


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
