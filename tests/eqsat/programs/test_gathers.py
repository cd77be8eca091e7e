"""Gathers of views and of computed tensors: one kernel where no accumulator stands in the way, on a CPU and on an
emulated GPU, with indices inside and outside of the axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.find_target import find_target
from eqsat.model import read_model
from eqsat.tensor import Tensor
from ir.dtype import DTYPES
from ir.tiny.playback import playback
from tests.support.oracles.plain_numpy import evaluate

ROWS, WIDTH = 50, 24


class Program(NamedTuple):
    """A program, the most kernels that it may take, and the dtype of its index."""

    make: Callable[[Tensor, Tensor], Tensor]
    kernels: int = 1
    dtype: str = "i64"


def along(x: Tensor, axis: int, index: Tensor) -> Tensor:
    """Rows or columns of x at an index of rank 1, which is clamped and not counted from the end."""
    rank = x.ndim
    shape = [1] * rank
    shape[axis] = index.size
    sizes = list(x.shape)
    sizes[axis] = index.size
    return x.gather(axis, index.reshape(*shape).expand(*sizes))


def elements(x: Tensor, index: Tensor) -> Tensor:
    """x[i, index[i, j]]: the index differs between neighbours in memory."""
    return x.gather(1, index.reshape(1, index.size).expand(ROWS, index.size) + tensor.iota((ROWS, 1), 0))


WEIGHTS = np.random.default_rng(1).integers(-4, 5, (WIDTH, 40)).astype(np.float32)
PROGRAMS = {
    "of a transpose": Program(lambda x, i: along(x.T, 1, i)),
    "of every second row": Program(lambda x, i: along(x[::2], 0, i)),
    "of the rows from the third": Program(lambda x, i: along(x[3:], 0, i), dtype="i32"),
    "of a flip": Program(lambda x, i: along(x.flip(0), 0, i)),
    "of rows between padding": Program(lambda x, i: along(x.pad([(2, 3), (0, 0)], 7.0), 0, i)),
    "of padded rows": Program(lambda x, i: along(x.pad([(0, 0), (1, 2)], -1.0), 0, i)),
    "of a reshape": Program(lambda x, i: along(x.reshape(5, 10 * WIDTH), 1, i)),
    "of a turned reshape, which takes a division": Program(
        lambda x, i: along(x.reshape(5, 10, WIDTH).permute(1, 0, 2).reshape(50, WIDTH), 0, i), 2
    ),
    "of a broadcast": Program(lambda x, i: along(x[0].reshape(1, WIDTH).expand(9, WIDTH), 0, i)),
    "of ops": Program(lambda x, i: along((x * 2 + 1).relu() * x[0], 0, i)),
    "of padded ops": Program(lambda x, i: along((x * 2).pad([(1, 1), (1, 1)]).relu(), 0, i)),
    "of a concatenation": Program(lambda x, i: along(tensor.concatenate([x[:3] * 2, x]), 0, i)),
    "of a gather of the same axis": Program(lambda x, i: along(along(x, 0, i), 0, i[::-1])),
    "of a gather of the other axis": Program(lambda x, i: along(along(x, 0, i), 1, i), 2),
    "of a padded gather": Program(lambda x, i: along(along(x, 0, i).pad([(1, 2), (0, 0)], 3.0), 0, i), 2),
    "of a gather of single elements": Program(lambda x, i: along(elements(x, i), 1, i)),
    "of a sum": Program(lambda x, i: along(x.sum(1), 0, i), 2),
    "of a product": Program(lambda x, i: along((x @ WEIGHTS) * 2, 0, i), 2),
    "of single elements": Program(elements),
    "of single elements of ops": Program(lambda x, i: elements(x * x + 1, i)),
    "of single padded elements": Program(lambda x, i: elements(x.pad([(0, 0), (3, 4)], 2.0), i)),
    "of single elements of a reshape": Program(
        lambda x, i: elements(x.reshape(ROWS, 4, 6).permute(0, 2, 1).reshape(ROWS, WIDTH), i),
        kernels=3 if find_target("cpu").arch == "avx2" else 2,  # registers copy rows; single elements would divide
    ),
    "of single elements, by u64": Program(lambda x, i: x.gather(1, (i * i).reshape(1, i.size)), dtype="u64"),
    "padded": Program(lambda x, i: along(x, 0, i).pad([(1, 2), (3, 0)], 5.0) * 2),
    "as rows of a norm": Program(lambda x, i: nn.layer_norm(along(x, 0, i), x[0], x[1])),
    "as rows of a product": Program(lambda x, i: along(x, 0, i) @ WEIGHTS),
    "as columns of a product": Program(lambda x, i: x @ along(tensor.constant(WEIGHTS), 1, i)),
    "of ops as rows of a product": Program(lambda x, i: along(x * x[0], 0, i) @ WEIGHTS),
    "as the matrices of a product": Program(
        lambda x, i: x[:7].reshape(7, 1, WIDTH) @ along(x.reshape(5, 10, WIDTH)[:, :6].permute(0, 2, 1), 0, i)
    ),
}
MARKS = (pytest.mark.slow, pytest.mark.exhaustive)
FEW = ("of rows between padding", "of single elements of a reshape")


def check(name: str, target: str) -> None:
    """Compare a program with two evaluators, and count its kernels."""
    program = PROGRAMS[name]
    x, i = tensor.input("x", (ROWS, WIDTH)), tensor.input("i", (7,), program.dtype)
    rng = np.random.default_rng(len(name))
    index = rng.integers(0 if program.dtype == "u64" else -3, 60, 7).astype(DTYPES[program.dtype].numpy)
    given = {"x": rng.integers(-4, 5, x.shape).astype(np.float32), "i": index}
    result = program.make(x, i)
    bound = read_model(result).bind({}, strict=False)
    inputs = {key: {**given, **bound.constants}[key] for key in bound.graph.inputs}
    compiled = optimize_and_compile(result, target=target, emulate=target != "cpu")
    actual = compiled(**given)
    for (wanted,) in (playback(bound.graph, inputs), evaluate(bound.graph, inputs)):
        assert actual.dtype == wanted.dtype
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)
    if target == "cpu":
        assert len(compiled.kernels) <= program.kernels


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_gathers_on_a_cpu(name: str) -> None:
    check(name, "cpu")


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=MARKS[place % 2]) for place, name in enumerate(PROGRAMS)]
)
def test_gathers_on_a_gpu(name: str) -> None:
    check(name, "sm_80")


@pytest.mark.slow
def test_an_axis_of_one_element_and_an_empty_index() -> None:
    x, i = tensor.input("x", (1, 3)), tensor.input("i", (0,), "i64")
    y = along((x + 1).pad([(0, 0), (1, 0)]), 0, i)
    result = optimize_and_compile(y, target="cpu")(x=np.zeros((1, 3), np.float32), i=np.zeros(0, np.int64))
    assert result.shape == (0, 4)
    one = optimize_and_compile(along(x * 2, 0, tensor.input("j", (2,), "i64")), target="cpu")
    np.testing.assert_array_equal(one(x=np.ones((1, 3), np.float32), j=np.array([-5, 9])), np.full((2, 3), 2.0))


def test_the_source_is_stored_where_its_elements_are_read_many_times() -> None:
    x, i = tensor.input("x", (50, 64)), tensor.input("i", (20_000,), "i64")
    program = optimize_and_compile(along(x.exp(), 0, i), target="cpu")
    assert [kernel.reads for kernel in program.kernels][-1] != ("i", "x")
    assert len(program.kernels) == 2


@pytest.mark.parametrize("shape", [(2, 32, 16, 16), (2, 4, 4, 8), (1, 8, 4, 4)])
def test_a_lookup_beside_another_part_reads_by_an_index_of_the_inner_loops(shape: tuple[int, ...]) -> None:
    """The lookup is guarded by the channel, an outer loop, and its index depends on the loops inside: a resized image
    joined with another one."""
    rng = np.random.default_rng(0)
    n, channels, height, width = shape
    large = (2 * height, 2 * width)
    x, y = tensor.input("x", shape), tensor.input("y", (n, channels // 2, *large))

    def look_up() -> Tensor:
        index = tensor.constant(rng.integers(0, height * width, large))
        return x.reshape(n, channels, height * width).take(index.reshape(-1), 2).reshape(n, channels, *large)

    one, other = look_up(), look_up()
    mixed = (other - one) * tensor.constant(rng.standard_normal(large[1], np.float32)) + one
    optimize_and_compile(tensor.concatenate([mixed, y], 1), cache=False).verify()
