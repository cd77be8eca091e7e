"""ONNX's own tests of single operators: what a model lowers to, played back, makes the expected outputs.

`python -m bench.onnx_suite` runs the same cases compiled.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from eqsat.frontends.onnx import operators as operators  # fills the table
from eqsat.frontends.onnx.operator_table import OPERATORS, find_operator
from eqsat.model import read_model
from ir.diagnostics import EqsatError, Kind
from ir.tiny.playback import playback

OTHERWISE_TESTED = {("", name) for name in ("GlobalLpPool", "SimplifiedLayerNormalization")}
"""Operators without a case in ONNX's suite; those of other domains have none."""

OF_FRACTIONAL_LENGTHS = {
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
}
"""Cases whose results have 2.4 elements where corners are aligned; torch and onnxruntime, and so we, take 2."""

Key = tuple[str, str]
Case = Any
"""onnx.backend.test.case.test_case.TestCase: name, model, data_sets of (inputs, outputs), rtol, atol."""


@cache
def cases() -> Mapping[Key, Sequence[Case]]:
    """The cases whose operators are all in the table, by their rarest operator."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = [case for case in collect_testcases(None) if case.name not in OF_FRACTIONAL_LENGTHS]
        within = [case for case in named if _is_within_reach(case.model)]
    counts = Counter(operator for case in within for operator in _operators(case))
    actual: dict[Key, list[Case]] = defaultdict(list)
    for case in within:
        if _operators(case):
            actual[min(_operators(case), key=lambda operator: (counts[operator], operator))].append(case)
    return actual


def _operators(case: Case) -> set[Key]:
    return {(node.domain, node.op_type) for node in case.model.graph.node} - {("", "Constant")}


def _is_within_reach(model: Any) -> bool:
    versions = {opset.domain: opset.version for opset in model.opset_import}
    values = [*model.graph.input, *model.graph.output]
    return all(value.type.HasField("tensor_type") for value in values) and all(
        node.op_type == "Constant" or find_operator(node.domain, node.op_type, versions.get(node.domain, 1))
        for node in model.graph.node
    )


def results(case: Case, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The outputs by playback. An input whose value is needed to build the program becomes a constant."""
    given = dict(zip([value.name for value in case.model.graph.input], inputs, strict=False))
    known: dict[str, np.ndarray] = {}
    while True:
        model = read_model(case.model, constants=known)
        free = {name: array for name, array in given.items() if name not in known}
        try:
            bound = model.bind(model.infer({name: array.shape for name, array in free.items()}), False)
        except EqsatError as error:
            needs = [name for name in error.diagnostics[0].details.get("needs", ()) if name in free]
            if not needs:
                raise
            known |= {name: given[name] for name in needs}
            continue
        return playback(bound.graph, {**free, **bound.constants})


def complaint(case: Case) -> str:
    """What is wrong with the results of a case; "" if they are right, or refused as unsupported."""
    for inputs, outputs in case.data_sets:
        try:
            actual = results(case, list(map(_array, inputs)))
        except EqsatError as error:
            return "" if error.kind is Kind.UNSUPPORTED_OP else f"{case.name}: {error}"
        for one, expected in zip(actual, outputs, strict=False):
            wanted = _array(expected)
            if (one.dtype, one.shape) != (wanted.dtype, wanted.shape):
                return f"{case.name}: {one.dtype}{one.shape}, not {wanted.dtype}{wanted.shape}"
            x, y = (array.astype(np.float64) for array in (one, wanted))
            near_zero = max(case.atol, 1e-6 * np.abs(y[np.isfinite(y)]).max(initial=0))  # the reference sums in fp32
            if not np.allclose(x, y, rtol=max(case.rtol, _four_roundings(wanted)), atol=near_zero, equal_nan=True):
                return f"{case.name}: off by up to {np.nanmax(np.abs(x - y))}"
    return ""


def _four_roundings(expected: np.ndarray) -> float:
    """The relative error of four roundings to half precision: ONNX's reference rounds after each step."""
    return {"float16": 2**-9, "bfloat16": 2**-6}.get(expected.dtype.name, 0.0)


def _array(expected: Any) -> np.ndarray:
    """The suite has some arrays as TensorProto."""
    is_proto = type(expected).__name__ == "TensorProto"
    return np.asarray(numpy_helper.to_array(expected) if is_proto else expected)


OPERATOR_IDS = sorted(OPERATORS)


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATOR_IDS, ids=lambda operator: ".".join(filter(None, operator)))
def test_cases_are_right_or_refused(operator: Key) -> None:
    complaints = [text for text in map(complaint, cases().get(operator, ())) if text]
    assert not complaints, "\n".join(complaints)


@pytest.mark.slow
def test_every_operator_has_a_case() -> None:
    seen = {operator for several in cases().values() for case in several for operator in _operators(case)}
    assert {key for key in OPERATORS if not key[0]} - seen == OTHERWISE_TESTED


@pytest.mark.slow
def test_damaged_models_are_right_or_refused() -> None:
    """One or two bytes of a model are changed; whatever protobuf still reads is a program, or refused as no such."""
    rng = random.Random(0)
    known = [case for several in cases().values() for case in several if len(case.data_sets) == 1]
    endings: Counter[str] = Counter()
    while endings.total() < 1500:
        case = rng.choice(known)
        data = bytearray(case.model.SerializeToString())
        for _ in range(rng.randint(1, 2)):
            place = rng.randrange(len(data))
            data[place] = rng.choice([rng.randrange(256), data[place] ^ 1, 0, 255])
        with contextlib.suppress(DecodeError):
            model = onnx.load_model_from_string(bytes(data))
            endings[_ending(SimpleNamespace(model=model), [_array(tensor) for tensor in case.data_sets[0][0]])] += 1
    assert Kind.INTERNAL_ERROR not in endings
    assert endings["valid"] > 100


def _ending(case: Any, inputs: Sequence[np.ndarray]) -> str:
    """ "valid", or the kind of the error."""
    try:
        results(case, inputs)
    except EqsatError as error:
        return error.kind
    return "valid"
