"""What optimizing one graph takes: seconds by stage, sizes, memory, and what came of it. Every sample is a process of
its own."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.arguments import containing, count
from bench.facts import facts, warn_of_load, write
from eqsat.options import Options
from ir.tiny.graph import Graph

Sample = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """A graph, and the names of the inputs that are known when it is optimized."""

    graph: Graph
    constants: tuple[str, ...]


def program_of(outputs: Sequence[Any], arguments: Collection[str]) -> Program:
    """Lazy tensors; every input but the `arguments` is a constant."""
    from eqsat.model import read_model

    graph = read_model(list(outputs)).bind({}, strict=False).graph
    return Program(graph, tuple(name for name in graph.inputs if name not in arguments))


def light_program(name: str) -> Program:
    """A light model of the onnx package, as the library reads it."""
    from eqsat.model import read_model
    from eqsat.zoo import light_model

    model = read_model(light_model(name))
    bound = model.bind(model.infer({}), strict=False)
    return Program(bound.graph, tuple(sorted(bound.constants)))


def optimized(build: Callable[[], Program], options: Options | None = None) -> Sample:
    """One optimization, from Tiny IR to a cover: `seconds` by stage, and counts. The libraries are imported before."""
    import egglog  # noqa: F401 - its import is no part of any stage
    import networkx  # noqa: F401

    from eqsat.collector import uncollected
    from eqsat.egraph.saturate import saturate
    from eqsat.extraction.extract import extract
    from eqsat.find_target import find_target
    from eqsat.planning.target_pricer import pricer_for
    from rules import select

    options = options or Options()
    program, target = build(), find_target("cpu")
    graph = program.graph
    before = peak_mebibytes()
    with uncollected():
        start = time.perf_counter()
        view, stats = saturate(
            graph,
            select(options.rules, options.exactness),
            options.exactness,
            options.budget,
            constants=program.constants,
        )
        saturated = time.perf_counter()
        cover = extract(view, graph.outputs, pricer_for(target, options), constants=program.constants)
        done = time.perf_counter()
    phases = {f"phase {number}": phase.seconds for number, phase in enumerate(stats.phases)}
    return {
        "seconds": {
            "load": stats.load_seconds,
            **phases,
            "read": stats.read_seconds,
            "extract": done - saturated,
            "total": done - start,
        },
        "stops": [str(phase.stop) for phase in stats.phases],
        "uops": len(graph.nodes),
        "e-nodes": stats.nodes,
        "classes": stats.classes,
        "candidates": cover.considered,
        "regions priced": cover.priced,
        "kernels": sum(kernel.price is not None for kernel in cover.kernels),
        "predicted us": round(cover.time_ns / 1e3, 3),
        "peak MiB": round(peak_mebibytes(), 1),
        "of which the model and libraries": round(before, 1),
    }


def sampled(rounds: int, work: Callable[..., Sample], *arguments: Any) -> Sample:
    """`rounds` samples of `work`, each in a process of its own: medians of the seconds and the memory.

    Raises:
        SystemExit: where two samples differ in anything but time and memory.
    """
    taken = [in_process(work, *arguments) for _ in range(rounds)]
    first = taken[0]
    varying = {"seconds", "peak MiB", "of which the model and libraries"}
    if any({**each, **{name: first[name] for name in varying}} != first for each in taken):
        raise SystemExit(f"{arguments}: two runs gave different covers; not reported")
    stages = {name: statistics.median(each["seconds"][name] for each in taken) for name in first["seconds"]}
    memory = {name: statistics.median(each[name] for each in taken) for name in sorted(varying - {"seconds"})}
    return {**first, **memory, "seconds": {name: round(value, 4) for name, value in stages.items()}}


def in_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """What `work` gives in a fresh process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def peak_mebibytes() -> float:
    """The most memory that was resident, since this process began: `ru_maxrss` would hold its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measured(
    doc: str,
    result: str,
    programs: Iterable[str],
    sample: Callable[[str, int], Sample],
    seconds: Callable[[Sample], float],
) -> dict[str, Sample]:
    """A bench from its command line (`--rounds`, `--only`) to its table: `sample` takes the name of a program and the
    number of rounds. The rows of all programs are written to `bench/results/`, in the file `result`."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--only", default="", help="the programs whose names contain this")
    options = parser.parse_args()
    chosen = containing(parser, options.only, programs)
    warn_of_load()
    about = {**facts(), "rounds": options.rounds}
    rows: dict[str, Sample] = {}
    for name in chosen:
        rows[name] = sample(name, options.rounds)
        print(f"{name}: {seconds(rows[name]):.2f} s", flush=True)
    print(table({name: _columns(row) for name, row in rows.items()}))
    if not options.only:
        write(result, about, [{"program": name, **row} for name, row in rows.items()])
    return rows


def _columns(row: Sample) -> Sample:
    """The numbers and texts of a row, those of its nested tables last."""
    plain = {name: value for name, value in row.items() if not isinstance(value, dict | list)}
    nested = (value for value in row.values() if isinstance(value, dict))
    return {name: value for part in (plain, *nested) for name, value in part.items()}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Rows by name, columns as wide as they need."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = [["", *columns]] + [
        [name, *(_shown(row.get(column, "")) for column in columns)] for name, row in rows.items()
    ]
    widths = [max(len(line[k]) for line in cells) for k in range(len(columns) + 1)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)


def _shown(value: Any) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
