"""Programs deeper than Python's stack: compiled, explained, dumped, stored, and run against playback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import eqsat
from eqsat import Program, optimize_and_compile, tensor
from eqsat.runtime.dump import STAGES
from eqsat.tensor import Tensor


def chain(uops: int) -> Tensor:
    """y = y * 0.5 + x, again and again."""
    x = y = tensor.input("x", (7, 5))
    for _ in range(uops // 2):
        y = y * 0.5 + x
    return y


def integers(uops: int) -> Tensor:
    x = y = tensor.input("x", (7, 5), "i32")
    for _ in range(uops // 2):
        y = y // 3 + x
    return y


def functions(uops: int) -> Tensor:
    y = tensor.input("x", (7, 5))
    steps: list[Callable[[Tensor], Tensor]] = [Tensor.tanh, Tensor.sin, Tensor.exp, Tensor.cos, Tensor.sigmoid]
    for n in range(uops):
        y = steps[n % len(steps)](y)
    return y


def movements(uops: int) -> Tensor:
    y = tensor.input("x", (6, 4))
    steps: list[Callable[[Tensor], Tensor]] = [
        lambda y: y.permute(1, 0),
        lambda y: y.flip(0),
        lambda y: y.reshape(*y.shape[::-1]),
    ]
    for n in range(uops):
        y = steps[n % len(steps)](y)
    return y


def flips(uops: int) -> Tensor:
    """Every value is read at two places of the one before."""
    x = y = tensor.input("x", (6, 4))
    for _ in range(uops // 3):
        y = y.flip(0) * 0.5 + x
    return y


def diamonds(count: int, x: Tensor | None = None) -> Tensor:
    x = tensor.input("x", (7, 5)) if x is None else x
    for _ in range(count):
        x = x.exp() * 0.1 + x.sin()
    return x


def dense_skip(count: int) -> Tensor:
    """Each value is tanh of the sum of the last six."""
    values = [tensor.input("x", (7, 5))]
    for _ in range(count):
        total = values[-1]
        for value in values[-6:-1]:
            total = total + value
        values.append(total.tanh())
    return values[-1]


def epilogue(uops: int) -> Tensor:
    a, b, bias = tensor.input("a", (9, 13)), tensor.input("b", (13, 11)), tensor.input("bias", (11,))
    y = a @ b
    for _ in range(uops // 2):
        y = y * 0.5 + bias
    return y


def reduced(uops: int) -> Tensor:
    return chain(uops).sum(1)


def operand(count: int) -> Tensor:
    """A contraction of a value that is reached by 2^count ways."""
    return diamonds(count, tensor.input("a", (9, 13))) @ tensor.input("b", (13, 11))


def copies(uops: int) -> Tensor:
    """Movements whose result is accumulated, so that each is a copy on the way to a kernel."""
    return movements(uops).cumsum(0)


def compiled(program: Tensor) -> Program:
    return optimize_and_compile(program, cache=False, threads=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "size", "kernels"),
    [
        pytest.param(chain, 1000, 1, marks=pytest.mark.exhaustive),
        (integers, 400, 1),
        (functions, 400, 1),
        (movements, 1000, 1),
        (copies, 300, 1),
        (flips, 300, 1),
        pytest.param(diamonds, 60, None, marks=pytest.mark.exhaustive),
        (dense_skip, 100, 1),
        (epilogue, 300, 1),
        (reduced, 300, 1),
        (operand, 40, 1),
        pytest.param(chain, 3000, 1, marks=pytest.mark.exhaustive),
        pytest.param(integers, 3000, 1, marks=pytest.mark.exhaustive),
        pytest.param(functions, 3000, 1, marks=pytest.mark.exhaustive),
        pytest.param(movements, 3000, 0, marks=pytest.mark.exhaustive),
        pytest.param(copies, 3000, 1, marks=pytest.mark.exhaustive),
        (diamonds, 350, None),
        pytest.param(dense_skip, 400, None, marks=pytest.mark.exhaustive),
        pytest.param(epilogue, 3000, 1, marks=pytest.mark.exhaustive),
        (reduced, 1100, 1),
        pytest.param(reduced, 3000, 1, marks=pytest.mark.exhaustive),
        pytest.param(operand, 200, None, marks=pytest.mark.exhaustive),
    ],
)
def test_a_deep_program_agrees_with_playback(build: Callable[[int], Tensor], size: int, kernels: int | None) -> None:
    program = compiled(build(size))
    program.verify()
    assert kernels is None or program.stats.kernels_after == kernels


@pytest.fixture(scope="module")
def deep() -> Program:
    return compiled(chain(1000))


@pytest.mark.slow
def test_a_deep_program_is_explained(deep: Program) -> None:
    assert "1,000 kernels before and 1 after" in deep.explain()


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "frontend"])
def test_every_stage_of_a_deep_program_is_dumped(deep: Program, stage: str) -> None:
    assert deep.dump(stage, as_json=True)


def test_a_deep_program_is_stored(deep: Program, tmp_path: Path) -> None:
    path = tmp_path / "deep.eqsat"
    deep.save(path)
    inputs = deep.random_inputs()
    np.testing.assert_array_equal(eqsat.load(path)(**inputs), deep(**inputs))


@pytest.mark.slow
def test_functions_are_called_where_a_kernel_has_many() -> None:
    """Inlining hundreds of them would take the C compiler minutes."""
    few, many = compiled(functions(10)), compiled(functions(40))
    assert "eq_far_" not in str(few.source())
    assert "eq_far_tanh_f32(" in str(many.source())
