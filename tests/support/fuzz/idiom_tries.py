"""Runs a range of idiom tries in one process: write and optimize each program, compile all, run, compare."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from codegen.compile.machine import arches_of, machine
from ir.term.rule import Exactness
from ir.tiny.graph import Graph
from tests.support.damage.odd_values import odd_inputs
from tests.support.fuzz.case import HANG_SECONDS, NONE, Arrays, Case, Complaint, difference, optimizer_of
from tests.support.fuzz.error_text import error_text
from tests.support.fuzz.idioms.program import Written, written
from tests.support.fuzz.limited import HangError, limited
from tests.support.fuzz.report import Finding, Report
from tests.support.fuzz.shrink import shrunk
from tests.support.fuzz.together import Optimized, Optimizer, Run, Setting
from tests.support.oracles.agree import disagreement
from tests.support.oracles.plain_numpy import evaluate
from tests.support.oracles.whole_numbers import exact_values

BATCH = 16
"""Programs of one setting and one library."""
OPTIMIZE_SECONDS = 30
"""Of CPU: a program of fewer than 100 uops that takes longer is a finding."""
RUN_SECONDS = 60
REDUCE_SECONDS = 90
RUNS = 5
"""Of each program: what one costs to compile, a run does not; some roundings show in few inputs."""
AGAIN_SHARE, AGAIN_ELEMENTS = 0.3, 300_000
"""Of the programs whose values have no more elements in all, evaluated independently of playback."""
At = Callable[[int | None], object]
"""Told which try is under way; None: those of the range together."""


def setting_of(seed: int, index: int, emulated: bool) -> Setting:
    """The same for all tries of a batch."""
    rng = np.random.default_rng((seed, index // BATCH, 99))
    level = str(rng.choice(["rounding", "rounding", "rounding", "reassociate", "exact", "range"]))
    extractor = str(rng.choice(["pareto", "pareto", "pareto", "greedy", "tree"]))
    if emulated:
        return Setting(str(rng.choice(["sm_80", "sm_90"])), level, extractor)
    known = arches_of(machine())
    return Setting("cpu", level, extractor, str(rng.choice([*known, known[-1]])))


def inputs_of(program: Written, seed: int, index: int, run: int, is_overflowing: bool = False) -> Arrays:
    """The arguments of a run, and the constants: whole numbers in the first run, then any numbers, and in every fourth
    try those that programs stumble over, unless kernels may overflow where the program does not."""
    rng = np.random.default_rng((seed, index, run))
    types = program.model.signature
    if run == 1 and index % 4 == 0 and not is_overflowing:
        return {**odd_inputs(types, rng), **program.model.constants}
    results = {}
    for name, type_ in types.items():
        if type_.dtype.is_float and run:
            drawn: np.ndarray = rng.standard_normal(type_.shape)
        else:
            low = -3 if type_.dtype.is_float or type_.dtype.is_signed else 0
            drawn = rng.integers(0 if type_.dtype.is_bool else low, 2 if type_.dtype.is_bool else 4, type_.shape)
        results[name] = np.asarray(drawn).astype(type_.dtype.numpy)
    return {**results, **program.model.constants}


def run_idioms(seed: int, tries: Sequence[int], folder: Path, at: At, emulated: bool = False) -> Report:
    """These tries; what they find is written to the folder."""
    report = Report()
    for low in range(0, len(tries), BATCH):
        batch = tries[low : low + BATCH]
        groups: dict[Setting, list[int]] = {}
        for index in batch:
            groups.setdefault(setting_of(seed, index, emulated), []).append(index)
        for setting, indices in groups.items():
            began = _seconds()
            _Batch(seed, setting, folder, at, report).run(indices)
            report.seconds += _seconds() - began
    return report


def _seconds() -> float:
    """Of CPU, by this process and by the compilers that it started."""
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


class _Batch:
    """Tries of one setting."""

    def __init__(self, seed: int, setting: Setting, folder: Path, at: At, report: Report) -> None:
        self.seed, self.setting, self.folder, self.at, self.report = seed, setting, folder, at, report
        self.emulated = setting.target != "cpu"
        self.optimizer: Optimizer = optimizer_of(setting)
        self.programs: dict[int, Written] = {}

    def run(self, indices: Sequence[int]) -> None:
        optimized = [program for index in indices if (program := self._optimized(index)) is not None]
        for program, run in self._compiled(optimized):
            index = program.number
            self.at(index)
            self.report.compiled += 1
            for number in range(RUNS):
                if self._is_wrong(index, run, number):
                    break
        self.at(None)

    def _optimized(self, index: int) -> Optimized | None:
        self.at(index)
        self.report.tries += 1
        try:
            with limited(RUN_SECONDS):
                program = self.programs[index] = written(self.seed, index, self.emulated)
        except Exception as error:
            self._found(index, "write", error_text(error))
            return None
        self.report.valid += 1
        self.report.count(*(f"idiom {name}" for name in program.idioms))
        try:
            with limited(HANG_SECONDS):
                result = self.optimizer.optimized(program.model, index)
        except Exception as error:
            self._reduced(index, 0, ("optimize", error_text(error)))
            return None
        self.report.count(*result.saturation.matches)
        uops = len(program.graph.nodes)
        self.report.slowest.append((round(result.seconds, 2), result.saturation.nodes, uops, index))
        if result.seconds > OPTIMIZE_SECONDS:
            self._found(index, "slow", f"{result.seconds:.0f} s of CPU, {uops} uops, {result.saturation.nodes} e-nodes")
        return result

    def _compiled(self, programs: Sequence[Optimized]) -> list[tuple[Optimized, Run]]:
        """Those that compile, with what runs them."""
        if not programs:
            return []
        self.at(programs[0].number if len(programs) == 1 else None)
        try:
            return list(zip(programs, self.optimizer.compiled(programs), strict=True))
        except Exception as error:
            if len(programs) == 1:
                self._reduced(programs[0].number, 0, ("compile", error_text(error)))
                return []
            middle = len(programs) // 2
            return self._compiled(programs[:middle]) + self._compiled(programs[middle:])

    def _is_wrong(self, index: int, run: Run, number: int) -> bool:
        """Whether a run finds anything."""
        program = self.programs[index]
        inputs, threads = self._inputs(index, number), self._threads(index)
        try:
            with limited(RUN_SECONDS):
                got = run(inputs, threads)
                self._count(program.graph, inputs, got, index, number)
                wrong = difference(program.graph, inputs, got, self.setting, any_whole=not number)
                if not wrong and number == 1 and not self.emulated:
                    other = run(inputs, threads % 3 + 1)
                    same = all(a.tobytes() == b.tobytes() for a, b in zip(got, other, strict=True))
                    wrong = "" if same else "another number of threads gives other bits"
        except Exception as error:
            self._reduced(index, number, ("run", error_text(error)))
            return True
        if wrong:
            self._reduced(index, number, ("result", wrong))
        return bool(wrong)

    def _count(self, graph: Graph, inputs: Arrays, got: Sequence[np.ndarray], index: int, number: int) -> None:
        """Elements compared; and the independent evaluation of some programs."""
        self.report.elements += sum(array.size for array in got)
        self.report.judged += sum(array.size for array in got)
        if number:
            return
        certain = exact_values(graph, inputs)
        self.report.exact += sum(array.size for ref, array in zip(graph.outputs, got, strict=True) if ref in certain)
        small = sum(type_.size for type_ in graph.types.values()) <= AGAIN_ELEMENTS
        if small and np.random.default_rng((self.seed, index, 55)).random() < AGAIN_SHARE:
            self.report.again += 1
            verdicts = disagreement(graph, inputs, evaluate(graph, inputs), once=True)
            notes = [f"output {ref}: {v.note}" for ref, v in zip(graph.outputs, verdicts, strict=True) if v.wrong]
            if notes:
                self._found(index, "independent evaluation", "; ".join(notes), self._case(index, number))

    def _inputs(self, index: int, number: int) -> Arrays:
        is_overflowing = self.setting.level is Exactness.RANGE
        return inputs_of(self.programs[index], self.seed, index, number, is_overflowing)

    def _threads(self, index: int) -> int:
        return 1 + index % 3

    def _case(self, index: int, number: int) -> Case:
        program = self.programs[index]
        inputs = self._inputs(index, number)
        return Case(program.graph, inputs, frozenset(program.model.constants), self.setting, self._threads(index))

    def _reduced(self, index: int, number: int, complaint: Complaint) -> None:
        """A finding as small as it gets."""
        case = self._case(index, number)
        alone = case
        try:
            with limited(2 * REDUCE_SECONDS):
                case, complaint = reduced(case, complaint, lambda: self.at(index))
        except HangError:
            case = alone
        self._found(index, *complaint, case)

    def _found(self, index: int, stage: str, message: str, case: Case | None = None) -> None:
        path = write_case(self.folder, case, self.seed, index, stage, message) if case else ""
        self.report.findings.append(Finding(index, stage, message, path))


def reduced(case: Case, complaint: Complaint, at: Callable[[], object]) -> tuple[Case, Complaint]:
    """A smaller case with the same complaint, and that."""

    def of(graph: Graph, inputs: Arrays) -> Case:
        return Case(graph, inputs, case.constants, case.setting, case.threads)

    def fails(graph: Graph, inputs: Arrays) -> bool:
        at()
        return alike(of(graph, inputs).complaint(), complaint)

    if not fails(case.graph, case.inputs):
        return case, (complaint[0], f"{complaint[1]} (not by itself)")
    smaller = of(*shrunk(case.graph, case.inputs, fails, budget=150, seconds=REDUCE_SECONDS))
    result = smaller.complaint()
    return smaller, (complaint if result == NONE else result)


def alike(complaint: Complaint, wanted: Complaint) -> bool:
    """The same stage; and of exceptions the same class, raised at the same place."""
    if complaint[0] != wanted[0]:
        return False
    return complaint[0] == "result" or _kind(complaint[1]) == _kind(wanted[1])


def _kind(message: str) -> tuple[str, str]:
    place = message.rpartition("(")[2] if message.endswith(")") else ""
    return message.split(":")[0], place


def write_case(folder: Path, case: Case, seed: int, index: int, stage: str, message: str) -> str:
    """The file of a finding."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.setting.target}_{seed}_{index}.json"
    record: Mapping[str, object] = {"seed": seed, "index": index, "stage": stage, "message": message}
    path.write_text(json.dumps({**record, **case.to_json()}, indent=1) + "\n")
    return str(path)
