"""Measures the optimization of one graph: seconds by stage, sizes, memory, and the result. Every sample runs in a
process of its own."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.arguments import containing, count
from bench.facts import facts, peak_mebibytes, warn_of_load, write
from eqsat.options import Options
from ir.tiny.graph import Graph

Sample = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """A graph, and the names of the inputs that are known when the graph is optimized."""

    graph: Graph
    constants: tuple[str, ...]


def program_of(outputs: Sequence[Any], arguments: Collection[str]) -> Program:
    """The program of lazy tensors; every input except the `arguments` is a constant."""
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


def sample_optimization(build: Callable[[], Program], options: Options | None = None) -> Sample:
    """One optimization from Tiny IR to a cover: `seconds` by stage, and counts. Libraries are imported before."""
    import egglog  # noqa: F401 - its import is no part of any stage

    from eqsat.egraph.saturate import saturate
    from eqsat.extraction.extract import extract
    from eqsat.find_target import find_target
    from eqsat.garbage_collector import release_memory, uncollected
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
        release_memory()
        cover = extract(view, graph.outputs, pricer_for(target, options, graph), constants=program.constants)
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


def median_of_samples(rounds: int, work: Callable[..., Sample], *arguments: Any) -> Sample:
    """Medians over `rounds` samples of `work`: of seconds and memory.

    Raises:
        SystemExit: if two samples differ in anything but time and memory.
    """
    taken = [in_process(work, *arguments) for _ in range(rounds)]
    first = taken[0]
    varying = {"seconds", "peak MiB", "of which the model and libraries"}
    if any({**sample, **{name: first[name] for name in varying}} != first for sample in taken):
        raise SystemExit(f"{arguments}: two runs gave different covers; not reported")
    stages = {name: statistics.median(sample["seconds"][name] for sample in taken) for name in first["seconds"]}
    memory = {name: statistics.median(sample[name] for sample in taken) for name in sorted(varying - {"seconds"})}
    return {**first, **memory, "seconds": {name: round(value, 4) for name, value in stages.items()}}


def in_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `work` in a fresh process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def run_bench(
    doc: str,
    result: str,
    programs: Iterable[str],
    sample: Callable[[str, int], Sample],
    seconds: Callable[[Sample], float],
) -> dict[str, Sample]:
    """Runs a bench: command line (`--rounds`, `--only`), samples, table. `sample` takes the name of a program and the
    number of rounds. The rows of all programs are written to the file `result` in `bench/results/`."""
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
    """The numbers and texts of a row; those of nested tables come last."""
    plain = {name: value for name, value in row.items() if not isinstance(value, dict | list)}
    nested = (value for value in row.values() if isinstance(value, dict))
    return {name: value for part in (plain, *nested) for name, value in part.items()}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Rows by name as text, with aligned columns."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = [["", *columns]] + [
        [name, *(_format(row.get(column, "")) for column in columns)] for name, row in rows.items()
    ]
    widths = [max(len(line[k]) for line in cells) for k in range(len(columns) + 1)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)


def _format(value: Any) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
