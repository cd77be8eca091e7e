"""`verify`: right programs pass, wrong ones are named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

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
    monkeypatch.setattr("eqsat.runtime.verify.playback", lambda graph, arrays, **_: (np.zeros(3),))
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
        name: TensorType.of(name, (50,)) for name in ("fp16", "bf16", "fp32", "fp64", "i8", "u8", "i64", "u64", "bool")
    }
    one, other = random_inputs(signature, 4), random_inputs(signature, 4)
    for name, type_ in signature.items():
        assert one[name].dtype == type_.dtype.numpy
        assert one[name].tobytes() == other[name].tobytes()
        assert len(np.unique(one[name].astype(np.float64))) > 1
    assert random_inputs(signature, 5)["fp32"].tobytes() != one["fp32"].tobytes()


LEAST = np.array([1e-30, 1e-39, 1.0, 1e-41, 0.0, -1e-40], np.float32)
FLUSHED: dict[str, tuple[Callable[[t.Tensor], t.Tensor], np.ndarray]] = {
    "a product with infinity": (lambda x: x * np.float32(np.inf), LEAST),
    "a logarithm": (lambda x: x.log(), np.abs(LEAST)),
    "a comparison": (lambda x: x > 0, LEAST),
    "a sum that is scaled": (lambda x: x.sum() * 1e38 * 10.0, np.full(6, 1e-40, np.float32)),
    "fp64": (lambda x: x.cast("fp64") * 1e-308 * 1e-8 * 1e308, np.ones(6, np.float32)),
    "bf16": (lambda x: x.cast("bf16") * 1e38, LEAST),
}


@pytest.mark.parametrize("name", FLUSHED)
@pytest.mark.parametrize("exactness", ["exact", "rounding"])
def test_flushed_denormals_are_no_wrong_result(name: str, exactness: str) -> None:
    build, values = FLUSHED[name]
    program = optimize_and_compile(build(t.input("x", (6,))), target="cpu", threads=1, exactness=exactness)
    program.verify(x=values)


def test_a_reciprocal_that_is_flushed_is_no_wrong_result() -> None:
    quotient = t.input("x", (8, 8)) / t.input("y", (8,))
    program = optimize_and_compile(quotient, target="cpu", threads=1)
    program.verify(x=np.full((8, 8), 2e38, np.float32), y=np.full(8, 3e38, np.float32))


@pytest.mark.parametrize(("exactness", "blamed"), [("exact", True), ("reassociate", False)])
def test_only_a_level_that_flushes_denormals_may(exactness: str, blamed: bool) -> None:
    program = optimize_and_compile(t.input("x", (6,)) * np.float32(np.inf), threads=1, exactness=exactness)
    wrong = dataclasses.replace(program._compiled, executable=Flushing())
    if blamed:
        with pytest.raises(EqsatError, match="differ"):
            verify_compiled(wrong, 1, [LEAST])
    else:
        verify_compiled(wrong, 1, [LEAST])


class Flushing:
    """An executable that takes denormals for 0 before it multiplies by infinity."""

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> None:
        with np.errstate(invalid="ignore"):
            outputs[0][:] = np.where(np.abs(inputs[0]) < 1e-37, 0, inputs[0]) * np.float32(np.inf)

    def profile(self, *_: object) -> np.ndarray:
        raise NotImplementedError


def test_beside_flushed_denormals_a_wrong_element_is_blamed() -> None:
    program = optimize_and_compile(t.input("x", (6,)).log(), target="cpu", threads=1)
    compiled = program._compiled
    wrong = dataclasses.replace(compiled, executable=OffBy(compiled.executable, 0, 0.5))  # type: ignore[arg-type]
    with pytest.raises(EqsatError, match="differ"):
        verify_compiled(wrong, 1, [np.abs(LEAST[[0, 1, 3, 2, 4, 5]])])


@pytest.mark.parametrize(("exactness", "value", "blamed"), [
    ("rounding", 25.0, False), ("rounding", 30.0, True), ("exact", 25.0, True),
])  # fmt: skip
@pytest.mark.parametrize("build", [lambda x: (x * 0.1).round().cast("u8"), lambda x: (x * 0.1 - 2.5 > 0).cast("i32")])
def test_a_number_between_two_whole_numbers_may_become_either(
    build: Callable[[t.Tensor], t.Tensor], exactness: str, value: float, blamed: bool
) -> None:
    """25 times the fp32 number 0.1 is 2.5 in fp32, and a little more in fp64."""
    program = optimize_and_compile(build(t.input("x", (6,))), target="cpu", threads=1, exactness=exactness)
    values = np.array([1, 2, 3, value, 400, 5], np.float32)
    program.verify(values)
    compiled = program._compiled
    change = 1 - 2 * int(program(values)[3] == (1 if value == 30.0 else 3))
    wrong = dataclasses.replace(compiled, executable=OffBy(compiled.executable, 0, change))  # type: ignore[arg-type]
    if blamed:
        with pytest.raises(EqsatError, match="differ"):
            verify_compiled(wrong, 1, [values])
    else:
        verify_compiled(wrong, 1, [values])


def test_an_overflow_of_the_rounding_playback_excuses_nothing_else() -> None:
    program = optimize_and_compile(t.input("x", (4,)).exp() * 2.0, target="cpu", threads=1)
    values = np.array([100.0, 1.0, 2.0, 3.0], np.float32)  # exp(100) overflows fp32, and not fp64
    assert program.verify(x=values)
    compiled = program._compiled
    wrong = dataclasses.replace(compiled, executable=OffBy(compiled.executable, 0, 0.5))  # type: ignore[arg-type]
    with pytest.raises(EqsatError, match="differ"):
        verify_compiled(wrong, 1, [values])


def test_a_long_sum_in_order_is_right() -> None:
    """Term by term, 90,000 terms lose more digits than NumPy's sums in pairs."""
    program = optimize_and_compile(t.input("x", (300, 300)).sum(), exactness="exact", cache=False)
    program.verify()


def test_a_value_that_is_an_output_twice_is_verified() -> None:
    x = t.input("x", (3, 3))
    y = x.exp()
    program = optimize_and_compile((y, x, y))
    assert len(program.verify()) == 2
