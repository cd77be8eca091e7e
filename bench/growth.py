"""Measures the e-graphs of the worst small programs: twenty that fuzzers of chains found, all below 100 uops.

    python -m bench.growth [--rounds 3] [--only masks]

They are chains of masks, pads, slices, permutations and norms over axes of size 1, and centred, pooled and scaled
constants at the level `range`. All of them once grew without end, or more than others of their kind. Every sample runs
in a process of its own. Medians are reported and written to `bench/results/`; `bench/growth_programs.json` has the
programs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from bench.optimizing import Sample, in_process, run_bench

PROGRAMS = Path(__file__).with_name("growth_programs.json")
MOST_SECONDS = 30.0
"""CPU seconds within which a program below 100 uops must be optimized."""


class Grown(msgspec.Struct, frozen=True):
    """A program: its level of exactness, the inputs that are constants, and its Tiny IR."""

    exactness: str
    constants: tuple[str, ...]
    graph: dict[str, Any]


@cache
def programs() -> Mapping[str, Grown]:
    """All programs by name."""
    return msgspec.json.decode(PROGRAMS.read_bytes(), type=dict[str, Grown])


def measure(name: str) -> Sample:
    """One optimization of a program: CPU seconds by stage, e-nodes a uop, and the limits that ended phases."""
    import egglog  # noqa: F401 - its import is no part of any stage
    import networkx  # noqa: F401

    from eqsat.egraph.saturate import saturate
    from eqsat.extraction.extract import extract
    from eqsat.find_target import find_target
    from eqsat.garbage_collector import uncollected
    from eqsat.model import read_model
    from eqsat.options import Options, exactness_named
    from eqsat.planning.target_pricer import pricer_for
    from rules import select

    program = programs()[name]
    level, target = exactness_named(program.exactness), find_target("cpu")
    graph = read_model(program.graph).bind({}, strict=False).graph
    with uncollected():
        start = time.process_time()
        view, stats = saturate(graph, select(None, level), level, constants=program.constants)
        saturated = time.process_time()
        pricer = pricer_for(target, Options(exactness=level), graph)
        cover = extract(view, graph.outputs, pricer, constants=program.constants)
        done = time.process_time()
    return {
        "saturate": round(saturated - start, 3),
        "extract": round(done - saturated, 3),
        "uops": len(graph.nodes),
        "e-nodes": stats.nodes,
        "e-nodes a uop": round(stats.nodes / len(graph.nodes), 1),
        "stops": ", ".join(dict.fromkeys(str(phase.stop) for phase in stats.phases if phase.stop != "saturated")),
        "kernels": sum(kernel.price is not None for kernel in cover.kernels),
    }


def median_sample(name: str, rounds: int) -> Sample:
    """The sample with the median CPU seconds.

    Raises:
        SystemExit: if two samples differ in anything but seconds.
    """
    taken: list[Sample] = sorted((in_process(measure, name) for _ in range(rounds)), key=_seconds)
    if len({str({key: sample[key] for key in sample if key not in ("saturate", "extract")}) for sample in taken}) > 1:
        raise SystemExit(f"{name}: two runs gave different e-graphs; not reported")
    return taken[len(taken) // 2]


def _seconds(sample: Sample) -> float:
    return float(sample["saturate"] + sample["extract"])


def main() -> None:
    rows = run_bench(__doc__, "growth", programs(), median_sample, _seconds)
    late = [name for name, row in rows.items() if _seconds(row) > MOST_SECONDS]
    if late:
        raise SystemExit(f"more than {MOST_SECONDS:.0f} s: {', '.join(late)}")


if __name__ == "__main__":
    main()
