"""A test case: one program with one set of inputs and settings. It is compiled, run, judged, and can be saved."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqsat.model import BoundModel
from ir.dtype import dtype
from ir.term.rule import Exactness
from ir.tiny.bind import load
from ir.tiny.graph import Graph
from ir.tiny.playback import playback
from ir.uop.table import ELEMENTARY
from tests.support.fuzz.error_text import error_text
from tests.support.fuzz.limited import limited
from tests.support.fuzz.together import Optimizer, Setting
from tests.support.oracles.agree import disagreement, excuse_infinities
from tests.support.oracles.plain_numpy import evaluate
from tests.support.oracles.whole_numbers import exact_values

Arrays = Mapping[str, np.ndarray]
Complaint = tuple[str, str]
"""The stage that failed, and what it said; ("", "") for none."""
NONE: Complaint = ("", "")
EXTREMA = ("MAX", "MIN", "RELU", "CUMMAX")
HANG_SECONDS = 60
"""A program that takes longer to optimize hangs."""


@dataclass(frozen=True)
class Case:
    """inputs: all arrays by name; `constants` are the names of those that are known when the program is built."""

    graph: Graph
    inputs: Arrays
    constants: frozenset[str]
    setting: Setting
    threads: int = 1

    @property
    def model(self) -> BoundModel:
        return BoundModel(self.graph, {name: self.inputs[name] for name in self.graph.inputs if name in self.constants})

    def complaint(self) -> Complaint:
        """What is wrong with the program, by itself."""
        optimizer, stage = optimizer_of(self.setting), "optimize"
        try:
            with limited(HANG_SECONDS):
                program = optimizer.optimized(self.model)
            stage = "compile"
            (run,) = optimizer.compiled([program])
            stage = "run"
            got = run(self.inputs, self.threads)
        except Exception as error:
            return stage, error_text(error)
        wrong = difference(self.graph, self.inputs, got, self.setting)
        return ("result", wrong) if wrong else NONE

    def to_json(self) -> dict[str, Any]:
        setting = self.setting
        return {
            "setting": {name: getattr(setting, name) for name in setting.__dataclass_fields__},
            "threads": self.threads,
            "constants": sorted(self.constants & self.graph.inputs.keys()),
            "inputs": {name: _encoded(np.asarray(self.inputs[name])) for name in self.graph.inputs},
            "program": self.graph.to_json(),
        }


def case_of(document: Mapping[str, Any]) -> Case:
    """What `Case.to_json` wrote."""
    graph, _ = load(document["program"])
    inputs = {name: _decode(array) for name, array in document["inputs"].items()}
    constants, setting = frozenset(document["constants"]), Setting(**document["setting"])
    return Case(graph, inputs, constants, setting, document["threads"])


def read_case(path: Path) -> Case:
    return case_of(json.loads(path.read_text()))


@functools.lru_cache(maxsize=4)
def optimizer_of(setting: Setting) -> Optimizer:
    return Optimizer(setting)


def difference(
    graph: Graph, inputs: Arrays, got: Sequence[np.ndarray], setting: Setting, *, any_whole: bool = True
) -> str:
    """How the outputs differ from what the program means; empty where they do not. `any_whole`: whether to look for
    values that have one answer.

    An output that has one answer must be that, bit for bit; above the level exact, but for what comes of infinities. At
    the level exact so must all that calls no elementary function: term by term in index order, but for the sign of a
    zero where a maximum or minimum may be of either. All else is judged by `tests.support.oracles.agree`, one value
    having one rounding.
    """
    certain = exact_values(graph, inputs) if any_whole else set()
    answers = playback(graph, inputs) if certain.intersection(graph.outputs) else got
    wrong = _unequal_answers(graph, certain, got, answers)
    if any(wrong) and setting.level is not Exactness.EXACT:
        wrong = _unequal_answers(graph, certain, list(excuse_infinities(graph, inputs, answers, got)), answers)
    if setting.level is Exactness.EXACT and not any(node.uop in ELEMENTARY for node in graph.nodes):
        ordered = evaluate(graph, inputs)
        signed = not any(node.arg.get("op", node.uop) in EXTREMA for node in graph.nodes)
        wrong += [_unequal(*triple, signed) for triple in zip(graph.outputs, got, ordered, strict=True)]
    if not set(graph.outputs) <= certain:
        is_exact = setting.level is Exactness.EXACT
        verdicts = zip(graph.outputs, disagreement(graph, inputs, got, once=True, exact=is_exact), strict=True)
        wrong += [f"output {ref}: {verdict.note}" for ref, verdict in verdicts if verdict.wrong]
    return "; ".join(filter(None, wrong))


def _unequal_answers(
    graph: Graph, certain: Set[str], got: Sequence[np.ndarray], answers: Sequence[np.ndarray]
) -> list[str]:
    outputs = zip(graph.outputs, got, answers, strict=True)
    return [_unequal(ref, array, answer, False) for ref, array, answer in outputs if ref in certain]


def _unequal(ref: str, got: np.ndarray, wanted: np.ndarray, signed: bool) -> str:
    """Where two arrays differ; the sign of 0 counts if `signed`, NaN equals NaN."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"output {ref}: {got.dtype}{got.shape}, not {wanted.dtype}{wanted.shape}"
    if got.dtype.kind in "biu":
        off = np.asarray(got != wanted)
    else:
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        off = (a != b) & ~(np.isnan(a) & np.isnan(b))
        if signed:
            off |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    if not off.any():
        return ""
    at = tuple(map(int, np.argwhere(off)[0]))
    count = f"{int(off.sum())} of {off.size} elements"
    return f"output {ref}, bit for bit: {count}, the first at {list(at)}: {got[at]}, not {wanted[at]}"


def _encoded(array: np.ndarray) -> dict[str, Any]:
    packed = base64.b85encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
    return {"dtype": str(dtype(array.dtype)), "shape": list(array.shape), "data": packed}


def _decode(array: Mapping[str, Any]) -> np.ndarray:
    data = zlib.decompress(base64.b85decode(array["data"]))
    return np.frombuffer(data, dtype(array["dtype"]).numpy).reshape(array["shape"])
