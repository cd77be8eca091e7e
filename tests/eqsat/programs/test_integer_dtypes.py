"""Programs on integers of every dtype, on a CPU and on an emulated GPU, against two evaluators: values at the ends of
the dtype, shapes of size 1 and 0."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from eqsat import optimize_and_compile, tensor
from eqsat.model import read_model
from eqsat.tensor import Tensor
from ir.dtype import DTYPES, DType
from ir.tiny.playback import playback
from tests.support.oracles.plain_numpy import evaluate

INTEGERS = [name for name, element in DTYPES.items() if element.is_int]
SHAPES = ((3, 19), (1, 1), (0, 5), (4, 0))
BINARY = ("ADD", "SUB", "MUL", "IDIV", "MOD", "MAX", "MIN", "AND", "OR", "XOR", "SHL", "SHR")
COMPARISONS = ("CMPLT", "CMPLE", "CMPGT", "CMPGE", "CMPEQ", "CMPNE")


def elementwise(x: Tensor, y: Tensor) -> list[Tensor]:
    unary = [Tensor(fn, [x]) for fn in ("NEG", "ABS", "RELU", "NOT")]
    return [*unary, *(Tensor(fn, [x, y]) for fn in (*BINARY, *COMPARISONS))]


def with_numbers(x: Tensor, y: Tensor) -> list[Tensor]:
    highest = int(x.dtype.highest)
    numbers = [x + highest, x * 3 - 1, x >> 1, x << 3, x // 4, x % 8, x % 7, x < highest, 5 - x]
    return [*numbers, tensor.where(y > 0, x, highest), x.pad([(1, 1), (0, 2)], highest)]


def casts(x: Tensor, y: Tensor) -> list[Tensor]:
    there = [x.cast(to) for to in DTYPES if to != x.dtype.name]
    return [*there, *(value.cast(x.dtype) for value in there)]


def reductions(x: Tensor, y: Tensor) -> list[Tensor]:
    own = {"dtype": x.dtype.name}
    folds = [Tensor("REDUCE", [x], {"op": op, "axes": (1,), **own}) for op in ("SUM", "PROD", "MAX", "MIN")]
    scans = [Tensor(uop, [x], {"axis": 1, **own}) for uop in ("CUMSUM", "CUMPROD", "CUMMAX")]
    return [*folds, *scans, x.sum(0), x.cumsum(0), x @ y.T]


def indices(x: Tensor, y: Tensor) -> list[Tensor]:
    table = tensor.constant(np.arange(40, dtype=x.dtype.numpy).reshape(8, 5))
    looked_up = [table.gather(0, y[:, :5]), table[0].gather(0, x.flatten())]
    return [*looked_up, tensor.iota(x.shape, 1, x.dtype) + x, tensor.iota((7,), 0, x.dtype) - 3]


ON_TARGETS = [
    *((name, "cpu") for name in INTEGERS),
    *((name, "sm_80") for name in ("u8", "i64")),
    *(pytest.param(name, "sm_80", marks=pytest.mark.exhaustive) for name in ("i8", "i16", "u16", "i32", "u32", "u64")),
]
"""On a GPU the narrowest and the widest integer; the others in the long run."""
FAMILIES = (elementwise, with_numbers, casts, reductions, indices)
Family = Callable[[Tensor, Tensor], list[Tensor]]


def values(element: DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Random integers, some of which are at the ends of the dtype, small, or near its width."""
    low, high = int(element.lowest), int(element.highest)
    edges = np.array([0, 1, 2, 7, element.bits - 1, element.bits, low, high, high - 1, high // 2 + 1], element.numpy)
    drawn = rng.integers(low, high, shape, element.numpy, endpoint=True)
    return np.where(rng.random(shape) < 0.5, rng.choice(edges, shape), drawn)


def check(name: str, family: Family, shape: tuple[int, int], target: str) -> None:
    x, y = tensor.input("x", shape, name), tensor.input("y", shape, name)
    rng = np.random.default_rng(math.prod(shape))
    given = {"x": values(DTYPES[name], shape, rng), "y": values(DTYPES[name], shape, rng)}
    bound = read_model(family(x, y)).bind({}, strict=False)
    tensors = {**given, **bound.constants}
    inputs = {key: tensors[key] for key in bound.graph.inputs}
    program = optimize_and_compile(family(x, y), target=target, emulate=target != "cpu")
    results = program(**{key: array for key, array in inputs.items() if key in given})
    for other in (playback(bound.graph, inputs), evaluate(bound.graph, inputs)):
        for ref, result, wanted in zip(bound.graph.outputs, results, other, strict=True):
            assert result.dtype == wanted.dtype
            np.testing.assert_array_equal(result, wanted, err_msg=str(bound.graph.types[ref]))


@pytest.mark.parametrize("target", ["cpu", "sm_80"])
def test_small_programs(target: str) -> None:
    check("u64" if target == "cpu" else "u32", indices, (3, 7), target)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), ON_TARGETS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_programs(name: str, family: Family, target: str) -> None:
    check(name, family, SHAPES[0], target)


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["cpu", "sm_80"])
@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_programs_of_few_elements(name: str, family: Family, shape: tuple[int, int], target: str) -> None:
    check(name, family, shape, target)
