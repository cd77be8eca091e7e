"""Runs a range of the fuzzer's tries in one process: mutate, load, compile many at once, compare."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import eqsat
from eqsat.runtime.program import Program
from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import load
from ir.tiny.graph import Graph, verify
from ir.tiny.parse import document_of, parse
from ir.tiny.playback import playback
from tests.support.damage.odd_values import WORDS, bad_arguments, damage_text, damaged_text, odd_inputs
from tests.support.fuzz.batch import Arrays, compile_batch, merged_inputs, run_batch
from tests.support.fuzz.error_text import error_text
from tests.support.fuzz.idioms.program import written
from tests.support.fuzz.limited import limited
from tests.support.fuzz.mutate import Mutator
from tests.support.fuzz.report import Finding, Report
from tests.support.fuzz.reproduce import load_finding, reduced_finding
from tests.support.fuzz.strategies import random_graph
from tests.support.oracles.agree import disagreement
from tests.support.programs import graphs as models
from tests.support.programs.calls import TWO_LAYERS
from tests.support.stages.path import complaint

RUNS = (0, 1)
COMPILED_SHARE = 0.25
"""Of the valid programs."""

MAX_ELEMENTS = 20_000
MAX_NODES = 200
TRY_SECONDS = 20
CHUNK_SECONDS = 240
REFUSALS = (Kind.RESOURCE_EXCEEDED, Kind.EXCESSIVE_PIECEWISE)
"""What a valid program of small size may be refused with."""


@functools.cache
def _models() -> tuple[dict[str, Any], ...]:
    """Programs as people write them, some over symbols."""
    folder = Path(eqsat.__file__).parent / "programs"
    written = [document_of(path.read_text()) for path in sorted(folder.glob("*.json"))]
    sizes = {"M": 4, "N": 6, "K": 8, "D": 4, "B": 1, "H": 6, "W": 5, "Cout": 4, "Cin": 2, "Cin_total": 4, "Rcout": 2}
    sizes |= {"G": 2, "Kh": 3, "Kw": 3, "Sh": 1, "Sw": 1, "Dh": 1, "Dw": 1, "pt": 1, "pb": 1, "pl": 1, "pr": 1}
    sizes |= {"Oy": 6, "Ox": 5}
    bound = [{**document, "dims": {**sizes, **document.get("dims", {})}} for document in written if "uops" in document]
    built = (models.gemm_bias_relu(), models.conv_bn_relu(5), models.attention(3, 4, 1))
    return (*written, *bound, *(graph.to_json() for graph in built), parse(f"dims batch=3\n{TWO_LAYERS}").to_json())


def rng_of(seed: int, index: int) -> np.random.Generator:
    return np.random.default_rng((seed, index))


def source_of(seed: int, index: int) -> Any:
    """The program of a try: a document, or damaged JSON or Tiny text."""
    rng = rng_of(seed, index)
    kind = rng.random()
    if kind < 0.8:
        base = random_graph(rng, int(rng.integers(1, 14))).to_json()
    elif kind < 0.9:
        base = written(seed, index, emulated=True).graph.to_json()
    else:
        base = _models()[int(rng.integers(len(_models())))]
    document = Mutator(rng).mutated(base)
    if rng.random() < 0.08:
        return damaged_text(document, rng)
    if rng.random() < 0.04 and "uops" in base:
        return damage_text(str(parse(base)), rng, WORDS)
    return document


def loaded(source: Any, seed: int, index: int) -> tuple[Graph | None, str]:
    """The graph, or None and the kind of error."""
    strict = bool(rng_of(seed, index).integers(8) == 0)
    try:
        graph, notes = load(source, strict=strict)
    except EqsatError as error:
        json.dumps(error.to_json())
        message = str(error)
        return None, str(error.kind) if message else "silent"
    assert all(map(str, notes))
    verify(graph)
    again, notes = load(json.dumps(graph.to_json()))
    assert again == graph, "the JSON form reads back as another graph"
    assert not notes, "the JSON form of a bound graph needs repair"
    again, _ = load(str(graph))
    assert json.dumps(again.to_json()) == json.dumps(graph.to_json()), "the text reads back as another graph"
    return graph, ""


def is_small(graph: Graph) -> bool:
    """Whether it can be run in a test."""
    sizes = [type_.size for type_ in graph.types.values()]
    sizes += [math.prod(max(1, size) for size in type_.shape) for type_ in graph.types.values()]
    return len(graph.nodes) <= MAX_NODES and max(sizes) <= MAX_ELEMENTS


def reads_arbitrary_bits(graph: Graph) -> bool:
    """Whether a BITCAST reads floats that other uops make: the bits of a NaN among them are those of the machine."""
    return any(
        node.uop == "BITCAST" and graph.types[ref].dtype.is_float and graph[ref].uop not in ("INPUT", "BITCAST")
        for node in graph.nodes
        for ref in node.refs
    )


def run_chunk(seed: int, tries: Sequence[int], at: Callable[[int | None], object] = lambda index: None) -> Report:
    """These tries, in this process; `at` is called with the number of the try that runs; None: all together."""
    began = time.process_time()
    report = Report()
    chosen: dict[int, Graph] = {}
    large: dict[int, Graph] = {}
    for index in tries:
        at(index)
        report.tries += 1
        source: Any = None
        try:
            with limited(TRY_SECONDS):
                source = source_of(seed, index)
                graph, kind = loaded(source, seed, index)
        except Exception as error:
            report.findings.append(load_finding(seed, index, source, error))
            continue
        if graph is None:
            report.errors[kind] = report.errors.get(kind, 0) + 1
            continue
        report.valid += 1
        if not is_small(graph):
            large[index] = graph
        elif rng_of(seed, index).random() < COMPILED_SHARE and not reads_arbitrary_bits(graph):
            chosen[index] = graph
    at(None)
    report.add(_compiled_report(seed, chosen))
    report.add(_large_report(seed, large))
    report.seconds = time.process_time() - began
    return report


def inputs_of(graph: Graph, seed: int, index: int, run: int) -> Arrays:
    """The arguments of a run; those that are bound as constants are the same in every run."""
    types = {name: graph.types[node.id] for name, node in graph.inputs.items()}
    first = odd_inputs(types, np.random.default_rng((seed, index, 0)))
    if not run:
        return first
    later = odd_inputs(types, np.random.default_rng((seed, index, run)))
    return later | {name: first[name] for name in _bound(graph, seed, index)}


def _bound(graph: Graph, seed: int, index: int) -> list[str]:
    """The inputs that are given as constants: none of most graphs, some of every fourth."""
    rng = rng_of(seed, index)
    return [name for name in graph.inputs if rng.random() < 0.5] if index % 4 == 0 else []


def _compiled_report(seed: int, chosen: Mapping[int, Graph]) -> Report:
    """Compile these as one program, run it twice, compare."""
    report = Report()
    playable = {index: graph for index, graph in chosen.items() if _plays(seed, index, graph, report)}
    for part, program, constants in _programs(seed, playable, report):
        graphs, is_exact = list(part.values()), _options(seed, min(part))["exactness"] == "exact"
        for run in RUNS:
            inputs = [inputs_of(graph, seed, index, run) for index, graph in part.items()]
            results = run_batch(program, graphs, inputs, constants)
            for index, graph, given, got in zip(part, graphs, inputs, results, strict=True):
                verdicts = disagreement(graph, given, got, exact=is_exact)
                report.elements += sum(verdict.size for verdict in verdicts)
                report.judged += sum(verdict.judged for verdict in verdicts)
                if any(verdict.wrong for verdict in verdicts):
                    wrong = complaint(graph, given, got)
                    report.findings.append(
                        reduced_finding(seed, index, graph, inputs_of(graph, seed, index, run), "in a batch", wrong)
                    )
        report.compiled += len(part)
        if graphs:
            report.findings += _miscalled(seed, min(part), program, merged_inputs(inputs), constants)
    return report


def _plays(seed: int, index: int, graph: Graph, report: Report) -> bool:
    """Whether graph playback runs; a finding where it does not."""
    try:
        with limited(TRY_SECONDS):
            for run in RUNS:
                playback(graph, inputs_of(graph, seed, index, run))
                playback(graph, inputs_of(graph, seed, index, run), wide=True)
    except Exception as error:
        report.findings.append(
            reduced_finding(seed, index, graph, inputs_of(graph, seed, index, 0), "graph playback", error_text(error))
        )
        return False
    return True


def _programs(
    seed: int, graphs: dict[int, Graph], report: Report
) -> Iterator[tuple[dict[int, Graph], Program, dict[str, np.ndarray]]]:
    """These graphs as one program with its constants, or as smaller ones without those that do not compile."""
    if not graphs:
        return
    constants = {
        f"g{k}.{name}": inputs_of(graph, seed, index, 0)[name]
        for k, (index, graph) in enumerate(graphs.items())
        for name in _bound(graph, seed, index)
    }
    try:
        with limited(CHUNK_SECONDS // 2):
            program = compile_batch(list(graphs.values()), constants, **_options(seed, min(graphs)))
    except Exception as error:
        if len(graphs) == 1:
            ((index, graph),) = graphs.items()
            if not (isinstance(error, EqsatError) and error.kind in REFUSALS):
                report.findings.append(
                    reduced_finding(
                        seed, index, graph, inputs_of(graph, seed, index, 0), "compilation", error_text(error)
                    )
                )
            return
        items = list(graphs.items())
        for half in (items[: len(items) // 2], items[len(items) // 2 :]):
            yield from _programs(seed, dict(half), report)
    else:
        yield graphs, program, constants


def _options(seed: int, index: int) -> dict[str, Any]:
    """What else a caller may choose."""
    rng = rng_of(seed, index)
    return {
        "exactness": str(rng.choice(["rounding", "rounding", "reassociate", "exact"])),
        "extractor": str(rng.choice(["pareto", "pareto", "greedy", "tree"])),
        "threads": int(rng.integers(1, 4)),
    }


def _miscalled(
    seed: int, index: int, program: Program, given: Arrays, constants: Mapping[str, np.ndarray]
) -> list[Finding]:
    """Calls with one bad argument must be refused as EqsatErrors."""
    rng = rng_of(seed, index)
    right = {name: array for name, array in given.items() if name not in constants}
    findings = []
    for name in list(right)[:: max(1, len(right) // 8)]:
        for bad in bad_arguments(right[name]):
            try:
                program(**{**right, name: bad})
            except EqsatError:
                continue
            except Exception as error:
                said = f"a call with {type(bad).__name__} {bad!r:.60} for {right[name].dtype}{right[name].shape}"
                findings.append(Finding(index, "call", f"{said}: {error_text(error)}"))
            else:
                findings.append(Finding(index, "call", f"{bad!r:.60} was taken for {right[name].dtype}"))
    if right:
        gone = str(rng.choice(list(right)))
        try:
            program(**{name: array for name, array in right.items() if name != gone})
            findings.append(Finding(index, "call", f"a call without {gone} was taken"))
        except EqsatError:
            pass
    return findings


def _large_report(seed: int, graphs: Mapping[int, Graph]) -> Report:
    """Programs too large to run are optimized and become C text all the same, or are refused."""
    from eqsat.clock import Clock
    from eqsat.find_target import find_target
    from eqsat.model import read_model
    from eqsat.options import Options
    from eqsat.pipeline import optimize

    report = Report()
    for index, graph in list(graphs.items())[:8]:
        try:
            with limited(TRY_SECONDS), contextlib.suppress(EqsatError):
                optimize(read_model(graph, {}).bind({}, False), find_target("cpu"), Options(), Clock(None))
                report.large += 1
        except Exception as error:
            report.findings.append(load_finding(seed, index, graph.to_json(), error, "a large program"))
    return report
