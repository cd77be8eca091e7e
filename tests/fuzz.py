"""The fuzzer: `python -m tests.fuzz --tries 20000 --seed 0`.

Every try is a valid program, mutated. It must end in an EqsatError or be a valid program; valid programs that fit a
test machine are compiled, many in one library, and must compute what playback computes (`tests.agree`). Any other
exception, a crash, a hang, a wrong result is a finding. It is reduced, its first guilty stage is named, and a file that
reproduces it is written. Tries run in worker processes: one that dies or hangs is cornered by halving.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import json
import math
import multiprocessing
import pprint
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import eqsat
from ir.diagnostics import EqsatError, Kind
from ir.dtype import dtype
from ir.tiny import Graph, verify
from ir.tiny_bind import load
from ir.tiny_playback import playback
from tests import graphs as models
from tests.agree import disagreement
from tests.batch import compiled_results
from tests.mutate import Mutator, damaged_text, odd_inputs
from tests.path import complaint, first_guilty_stage
from tests.shrink import shrunk
from tests.strategies import random_graph

CHUNK = 500
COMPILED_SHARE = 0.4
"""Of the valid programs."""

MAX_ELEMENTS = 20_000
MAX_NODES = 200
TRY_SECONDS = 20
CHUNK_SECONDS = 240
REFUSALS = (Kind.RESOURCE_EXCEEDED, Kind.EXCESSIVE_PIECEWISE)
"""What a valid program of small size may be refused with."""

HERE = Path(tempfile.gettempdir()) / "eqsat-fuzz"


@dataclass(frozen=True)
class Finding:
    """What should not have happened, at which try, in which stage; `path` is the reproducer."""

    index: int
    stage: str
    message: str
    path: str = ""

    def __str__(self) -> str:
        return f"try {self.index}, {self.stage}: {self.message}\n    {self.path}"


@dataclass
class Report:
    """Counts: tries, valid programs, programs compiled and run, elements compared and those well-conditioned."""

    tries: int = 0
    valid: int = 0
    compiled: int = 0
    large: int = 0
    elements: int = 0
    judged: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Report) -> None:
        for name in ("tries", "valid", "compiled", "large", "elements", "judged"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, count in other.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + count
        self.findings += other.findings

    def __str__(self) -> str:
        judged = self.judged / self.elements if self.elements else 0.0
        errors = ", ".join(f"{kind} {count}" for kind, count in sorted(self.errors.items(), key=lambda each: -each[1]))
        return (
            f"{self.tries} tries: {self.valid} valid ({self.valid / max(1, self.tries):.0%}), {self.compiled} compiled "
            f"and run, {self.large} large ones optimized; {judged:.1%} of {self.elements} elements well-conditioned; "
            f"errors: {errors or 'none'}; {len(self.findings)} findings"
        )


class Hang(Exception):
    """A try took longer than it may."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raises Hang after so many seconds."""

    def stop(*_: object) -> None:
        raise Hang(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@functools.cache
def _models() -> tuple[dict[str, Any], ...]:
    """Programs as people write them, some over symbols."""
    from ir.tiny_parse import document_of

    folder = Path(eqsat.__file__).parent / "programs"
    written = [document_of(path.read_text()) for path in sorted(folder.glob("*.json"))]
    sizes = {"M": 4, "N": 6, "K": 8, "B": 1, "H": 6, "W": 5, "Cout": 4, "Cin": 2, "Cin_total": 4, "Kh": 3, "Kw": 3, "G": 2}
    bound = [{**each, "dims": {**sizes, **each.get("dims", {})}} for each in written if "uops" in each]
    built = (models.gemm_bias_relu(), models.conv_bn_relu(5), models.attention(3, 4, 1))
    return (*written, *bound, *(each.to_json() for each in built))


def rng_of(seed: int, index: int) -> np.random.Generator:
    return np.random.default_rng((seed, index))


def source_of(seed: int, index: int) -> Any:
    """The program of a try: a document, or damaged text."""
    rng = rng_of(seed, index)
    if rng.random() < 0.9:
        base = random_graph(rng, int(rng.integers(1, 14))).to_json()
    else:
        base = _models()[int(rng.integers(len(_models())))]
    document = Mutator(rng).mutated(base)
    return damaged_text(document, rng) if rng.random() < 0.08 else document


def loaded(source: Any, seed: int, index: int) -> tuple[Graph | None, str]:
    """The graph, or None and the kind of error."""
    strict = bool(rng_of(seed, index).integers(8) == 0)
    try:
        graph, notes = load(source, strict=strict)
    except EqsatError as error:
        json.dumps(error.to_json())
        assert str(error)
        return None, str(error.kind)
    assert all(map(str, notes))
    verify(graph)
    again, notes = load(json.dumps(graph.to_json()))
    assert again == graph, "the JSON form reads back as another graph"
    assert not notes, "the JSON form of a bound graph needs repair"
    assert str(graph)
    return graph, ""


def is_small(graph: Graph) -> bool:
    """Whether it can be run in a test."""
    sizes = [type_.size for type_ in graph.types.values()]
    sizes += [math.prod(max(1, size) for size in type_.shape) for type_ in graph.types.values()]
    return len(graph.nodes) <= MAX_NODES and max(sizes) <= MAX_ELEMENTS


def run_chunk(seed: int, start: int, stop: int) -> Report:
    """The tries of a range, in this process."""
    report = Report()
    chosen: dict[int, Graph] = {}
    large: dict[int, Graph] = {}
    for index in range(start, stop):
        report.tries += 1
        source: Any = None
        try:
            with limited(TRY_SECONDS):
                source = source_of(seed, index)
                graph, kind = loaded(source, seed, index)
        except Exception as error:
            report.findings.append(_load_finding(seed, index, source, error))
            continue
        if graph is None:
            report.errors[kind] = report.errors.get(kind, 0) + 1
            continue
        report.valid += 1
        if not is_small(graph):
            large[index] = graph
        elif rng_of(seed, index).random() < COMPILED_SHARE:
            chosen[index] = graph
    report.add(_compiled_report(seed, chosen))
    report.add(_large_report(seed, large))
    return report


def inputs_of(graph: Graph, seed: int, index: int, run: int) -> dict[str, np.ndarray]:
    types = {name: graph.types[node.id] for name, node in graph.inputs.items()}
    return odd_inputs(types, np.random.default_rng((seed, index, run)))


def _compiled_report(seed: int, chosen: Mapping[int, Graph]) -> Report:
    """Compile these as one program, run it twice, compare."""
    report = Report()
    runs = (0, 1)
    playable: dict[int, Graph] = {}
    for index, graph in chosen.items():
        try:
            with limited(TRY_SECONDS):
                for run in runs:
                    playback(graph, inputs_of(graph, seed, index, run))
                    playback(graph, inputs_of(graph, seed, index, run), wide=True)
            playable[index] = graph
        except Exception as error:
            report.findings.append(_finding(seed, index, graph, 0, "graph playback", _told(error)))
    for part in _that_compile(seed, playable, report):
        indices, parts = list(part), list(part.values())
        inputs = [[inputs_of(graph, seed, index, run) for index, graph in part.items()] for run in runs]
        results = compiled_results(parts, inputs)
        for run, answers in enumerate(results):
            for index, graph, given, got in zip(indices, parts, inputs[run], answers, strict=True):
                verdicts = disagreement(graph, given, got)
                report.elements += sum(each.size for each in verdicts)
                report.judged += sum(each.judged for each in verdicts)
                if any(each.wrong for each in verdicts):
                    wrong = complaint(graph, given, got)
                    report.findings.append(_finding(seed, index, graph, run, "in a batch", wrong))
        report.compiled += len(part)
    return report


def _that_compile(seed: int, graphs: dict[int, Graph], report: Report) -> Iterator[dict[int, Graph]]:
    """These graphs in one part, or in smaller ones without those that do not compile."""
    if not graphs:
        return
    try:
        with limited(CHUNK_SECONDS // 2):
            compiled_results(list(graphs.values()), [])
    except Exception as error:
        if len(graphs) == 1:
            ((index, graph),) = graphs.items()
            if not (isinstance(error, EqsatError) and error.kind in REFUSALS):
                report.findings.append(_finding(seed, index, graph, 0, "compilation", _told(error)))
            return
        items = list(graphs.items())
        for half in (items[: len(items) // 2], items[len(items) // 2 :]):
            yield from _that_compile(seed, dict(half), report)
    else:
        yield graphs


def _large_report(seed: int, graphs: Mapping[int, Graph]) -> Report:
    """Programs too large to run are optimized and become C text all the same, or are refused."""
    from eqsat.clock import Clock
    from eqsat.model import read_model
    from eqsat.options import Options
    from eqsat.pipeline import find_target, optimize

    report = Report()
    for index, graph in list(graphs.items())[:8]:
        try:
            with limited(TRY_SECONDS), contextlib.suppress(EqsatError):
                optimize(read_model(graph, {}).bind({}, False), find_target("cpu"), Options(), Clock(None))
                report.large += 1
        except Exception as error:
            report.findings.append(_load_finding(seed, index, graph.to_json(), error, "a large program"))
    return report


def _told(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:300]} ({Path(place.filename).name}:{place.lineno})"


def _finding(seed: int, index: int, graph: Graph, run: int, stage: str, message: str) -> Finding:
    """Reduced, with the first guilty stage, and a file."""
    given: dict[str, np.ndarray] = inputs_of(graph, seed, index, run)
    first, said = first_guilty_stage(graph, given)
    if first:
        kind = first.rstrip(" 0123456789")
        with limited(CHUNK_SECONDS // 3), contextlib.suppress(Hang):
            graph, given = shrunk(graph, given, lambda *case: _same(first_guilty_stage(*case), (kind, said)))
        stage, message = first_guilty_stage(graph, given)
    text = _REPRODUCER.format(
        seed=seed, index=index, stage=stage, message=message, program=pprint.pformat(graph.to_json(), width=110),
        inputs=pprint.pformat({name: (str(dtype(a.dtype)), a.shape, a.tobytes().hex()) for name, a in given.items()}, width=110),
    )  # fmt: skip
    return Finding(index, stage, message, _written(seed, index, text))


def _same(found: tuple[str, str], wanted: tuple[str, str]) -> bool:
    """The same stage; and of exceptions the same class."""
    stage, said = found[0].rstrip(" 0123456789"), found[1].split(":")[0]
    return stage == wanted[0] and (said == wanted[1].split(":")[0] or said.startswith("output"))


def _load_finding(seed: int, index: int, source: Any, error: Exception, stage: str = "load") -> Finding:
    text = f"from ir.tiny_bind import load\n\n# seed {seed}, try {index}: {_told(error)!r}\nload(\n{pprint.pformat(source, width=110)}\n)\n"
    return Finding(index, stage, _told(error), _written(seed, index, text))


def _written(seed: int, index: int, text: str) -> str:
    HERE.mkdir(parents=True, exist_ok=True)
    path = HERE / f"seed{seed}_try{index}.py"
    path.write_text(text)
    return str(path)


_REPRODUCER = '''"""Seed {seed}, try {index}. First guilty stage: {stage}.

{message}
"""

from tests.fuzz import reproduce

PROGRAM = {program}
INPUTS = {inputs}

if __name__ == "__main__":
    reproduce(PROGRAM, INPUTS)
'''


def reproduce(program: Mapping[str, Any], inputs: Mapping[str, tuple[str, tuple[int, ...], str]]) -> None:
    """Run a reproducer: prints the program, its inputs and the first guilty stage."""
    graph, _ = load(program)
    given = {
        name: np.frombuffer(bytes.fromhex(data), dtype(element).numpy).reshape(shape)
        for name, (element, shape, data) in inputs.items()
    }
    print(graph, *(f"{name} = {array!r}" for name, array in given.items()), sep="\n")
    with np.errstate(all="ignore"):
        print("wide playback:", *playback(graph, given, wide=True), sep="\n")
    print("first guilty stage:", *first_guilty_stage(graph, given) or ("none",))


def fuzz(tries: int, seed: int, start: int = 0, jobs: int = 2, say: Any = None) -> Report:
    """So many tries from `start` on, in worker processes."""
    report = Report()
    waiting = [(low, min(low + CHUNK, start + tries)) for low in range(start, start + tries, CHUNK)]
    while waiting:
        done, broken = _round(seed, waiting, jobs, report, say)
        waiting = [each for each in waiting if each not in done]
        if broken:
            for each in waiting:
                report.add(_cornered(seed, *each))
            waiting = []
    return report


def _round(
    seed: int, ranges: Sequence[tuple[int, int]], jobs: int, report: Report, say: Any
) -> tuple[set[tuple[int, int]], bool]:
    """Run ranges until all are done or a worker dies or hangs."""
    done: set[tuple[int, int]] = set()
    pool = _pool(jobs)
    futures = {each: pool.submit(run_chunk, seed, *each) for each in ranges}
    try:
        for each, future in futures.items():
            found = future.result(timeout=CHUNK_SECONDS * 2)
            report.add(found)
            done.add(each)
            if say:
                say(f"{each[1]}: {report}" + "".join(f"\n  {finding}" for finding in found.findings))
    except (BrokenProcessPool, TimeoutError):
        return done, True
    finally:
        _stop(pool)
    return done, False


def _cornered(seed: int, low: int, high: int) -> Report:
    """A range, by itself; halved where it kills its worker, down to the guilty try."""
    pool = _pool(1)
    try:
        return pool.submit(run_chunk, seed, low, high).result(timeout=CHUNK_SECONDS)
    except (BrokenProcessPool, TimeoutError) as error:
        if high - low == 1:
            source = source_of(seed, low)
            said = RuntimeError("the process died" if isinstance(error, BrokenProcessPool) else "the process hangs")
            return Report(tries=1, findings=[_load_finding(seed, low, source, said, "crash")])
    finally:
        _stop(pool)
    middle = (low + high) // 2
    report = _cornered(seed, low, middle)
    report.add(_cornered(seed, middle, high))
    return report


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=faulthandler.enable)


def _stop(pool: ProcessPoolExecutor) -> None:
    for worker in list((pool._processes or {}).values()):
        worker.kill()
    pool.shutdown(wait=True, cancel_futures=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    began = time.perf_counter()
    report = fuzz(options.tries, options.seed, options.start, options.jobs, lambda line: print(line, flush=True))
    print(f"{time.perf_counter() - began:.0f} s; {report}")
    for finding in report.findings:
        print(finding)
    return bool(report.findings)


if __name__ == "__main__":
    sys.exit(main())
