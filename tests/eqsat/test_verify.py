"""`verify`: right programs pass, wrong ones are named."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.runtime.verify import random_inputs, relative_error, verify_compiled
from ir.diagnostics import EqsatError, Kind
from ir.dtype import TensorType


@pytest.fixture(scope="module")
def program() -> Program:
    x = t.input("x", (6, 7))
    return optimize_and_compile([x.exp(), (x > 0).cast("i32").sum(1)], threads=1)


class OffBy:
    """An executable whose outputs are changed."""

    def __init__(self, inner: object, output: int, change: float) -> None:
        self._inner, self._output, self._change = inner, output, change

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> None:
        self._inner.run(inputs, outputs, threads)  # type: ignore[attr-defined]
        outputs[self._output].flat[3] += self._change


def test_a_right_program_passes(program: Program) -> None:
    errors = program.verify()
    assert set(errors) == set(program.output_names)
    assert all(error < 1e-6 for error in errors.values())
    assert errors[program.output_names[1]] == 0


@pytest.mark.parametrize(("output", "change"), [(0, 0.1), (0, np.nan), (0, np.inf), (1, 1)])
def test_a_wrong_output_is_named(program: Program, output: int, change: float) -> None:
    compiled = program._compiled
    wrong = dataclasses.replace(compiled, executable=OffBy(compiled.executable, output, change))  # type: ignore[arg-type]
    with pytest.raises(EqsatError) as caught:
        verify_compiled(wrong, threads=1)
    assert caught.value.kind is Kind.WRONG_RESULT
    assert set(caught.value.diagnostics[0].details["errors"]) == {program.output_names[output]}


def test_verify_at_compile_time_stops_a_wrong_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.runtime.verify.playback", lambda graph, arrays, wide=False: (np.zeros(3),))
    with pytest.raises(EqsatError) as caught:
        optimize_and_compile(t.input("x", (3,)) + 1, verify=True, threads=1)
    assert caught.value.kind is Kind.WRONG_RESULT


def test_errors_are_relative_to_the_largest_value() -> None:
    expected = np.asarray([100.0, 1.0])
    assert relative_error(expected, expected) == 0
    assert relative_error(np.asarray([100.0, 2.0]), expected) == pytest.approx(0.01)
    assert relative_error(np.asarray([0.5]), np.asarray([0.0])) == 0.5
    assert relative_error(np.zeros((0, 2)), np.zeros((0, 2))) == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_must_match(value: float) -> None:
    special, plain = np.asarray([value, 1.0]), np.asarray([1.0, 1.0])
    assert relative_error(special, special) == 0
    assert relative_error(special, plain) == np.inf
    assert relative_error(plain, special) == np.inf


def test_another_shape_is_wrong() -> None:
    assert relative_error(np.zeros((2, 3)), np.zeros((3, 2))) == np.inf


def test_random_inputs_are_seeded_and_typed() -> None:
    signature = {
        name: TensorType.of(name, (50,)) for name in ("fp16", "bf16", "fp32", "fp64", "i8", "u8", "i64", "bool")
    }
    one, other = random_inputs(signature, 4), random_inputs(signature, 4)
    for name, each in signature.items():
        assert one[name].dtype == each.dtype.numpy
        assert one[name].tobytes() == other[name].tobytes()
        assert len(np.unique(one[name].astype(np.float64))) > 1
    assert random_inputs(signature, 5)["fp32"].tobytes() != one["fp32"].tobytes()
