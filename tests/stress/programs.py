"""Programs for the sanitizers: random graphs, and what people write with `eqsat.nn` over odd sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from eqsat import nn, tensor
from eqsat.model import read_model
from eqsat.tensor import Tensor
from ir.tiny.graph import Graph
from tests.support.damage.odd_values import odd_inputs
from tests.support.fuzz.batch import merged, merged_inputs
from tests.support.fuzz.strategies import random_graph

RANDOM, WRITTEN = 12, 4
"""Programs of each kind in a batch: random ones, and written ones."""
SIZES = (1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33, 47, 64, 65)
_DTYPES = ("fp32", "fp32", "fp32", "fp16", "bf16", "fp64")
_LEVELS = ("rounding", "rounding", "reassociate", "exact")


class Batch(NamedTuple):
    """Several programs as one graph; `level` of exactness, and the seed of a random `cover` or None."""

    graph: Graph
    constants: Mapping[str, np.ndarray]
    inputs: Mapping[str, np.ndarray]
    level: str
    cover: int | None
    names: Sequence[str]


class _Some:
    """Sizes, dtypes and inputs by chance."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.dtype = str(rng.choice(_DTYPES))
        self._inputs = 0

    def size(self, most: int = 65) -> int:
        return int(self.rng.choice([size for size in SIZES if size <= most]))

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def input(self, *shape: int, dtype: str | None = None) -> Tensor:
        self._inputs += 1
        return tensor.input(f"i{self._inputs}", shape, dtype or self.dtype)


def _linear(some: _Some) -> Tensor:
    m, n, k = some.size(), some.size(), some.size()
    return nn.gelu(some.input(m, k) @ some.input(k, n) + some.input(n))


def _products(some: _Some) -> Tensor:
    m, n, k = some.size(33), some.size(33), some.size(33)
    left, right = some.input(3, k, m), some.input(3, n, k)
    return left.permute(0, 2, 1)[:, :: some.number(1, 3)] @ right.permute(0, 2, 1)


def _softmax(some: _Some) -> Tensor:
    return nn.softmax(some.input(some.size(), some.size()), axis=some.number(0, 1))


def _norm(some: _Some) -> Tensor:
    n = some.size()
    return nn.layer_norm(some.input(some.size(17), some.size(17), n), some.input(n), some.input(n))


def _conv(some: _Some) -> Tensor:
    size, channels, out = some.number(5, 19), some.number(1, 9), some.number(1, 20)
    kernel, stride = some.number(1, 4), some.number(1, 3)
    x, w = some.input(some.number(1, 2), channels, size, size + 2), some.input(out, channels, kernel, kernel)
    return nn.conv2d(x, w, stride=stride, padding=some.number(0, kernel - 1)).relu()


def _pooled(some: _Some) -> Tensor:
    pool: Callable[..., Tensor] = nn.max_pool2d if some.number(0, 1) else nn.avg_pool2d
    kernel = some.number(1, 3)
    x = some.input(1, some.number(1, 5), some.number(6, 21), some.number(6, 21))
    return pool(x, kernel, stride=some.number(1, 3), padding=some.number(0, kernel // 2))


def _attention(some: _Some) -> Tensor:
    m, n, d, heads = some.size(33), some.size(47), some.size(33), some.number(1, 3)
    q, k, v = some.input(heads, m, d), some.input(heads, n, d), some.input(heads, n, d)
    return nn.attention(q, k, v, causal=bool(some.number(0, 1)))


def _scans(some: _Some) -> Tensor:
    x = some.input(some.size(17), some.size(33), some.size(17))
    return x.cumsum(some.number(0, 2)).max(axis=some.number(0, 2)) + 1


def _gathers(some: _Some) -> Tensor:
    rows, width = some.size(), some.size()
    index = some.input(some.size(), dtype=("i32", "i64")[some.number(0, 1)])
    return (some.input(rows, width).take(index, 0) * 2).sum(some.number(0, 1))


def _casts(some: _Some) -> Tensor:
    to = ("i8", "u8", "i16", "i32", "i64", "bool", "fp16", "bf16", "fp64")[some.number(0, 8)]
    return (some.input(some.size(), some.size(17)) * 3e3).cast(to)[:: some.number(1, 2), ::-1]


def _integers(some: _Some) -> Tensor:
    kind = ("i8", "u8", "i16", "i32", "i64")[some.number(0, 4)]
    x, y = some.input(some.size(), some.size(17), dtype=kind), some.input(some.size(17), dtype=kind)
    x = x[:, : y.shape[0]] if x.shape[1] >= y.shape[0] else x[:, :1]
    return x * y + (x // 3) % 5 - (y < 2)


def _seams(some: _Some) -> Tensor:
    m, n = some.size(33), some.size(33)
    x = some.input(m, n)
    joined = tensor.concatenate([x, x.flip(0), x.pad([(1, 2), (0, 0)], 1.5)[: some.number(1, m)]], 0)
    return joined.cumsum(0) * some.input(n)


WRITERS = (
    _linear, _products, _softmax, _norm, _conv, _pooled, _attention, _scans, _gathers, _casts, _integers, _seams,
)  # fmt: skip


def batch(seed: int, number: int) -> Batch:
    """Batch `number` of those of `seed`: the same on every machine."""
    rng = np.random.default_rng((seed, number))
    graphs = [random_graph(rng, int(rng.integers(1, 15))) for _ in range(RANDOM)]
    names = [f"random {place}" for place in range(RANDOM)]
    for _ in range(WRITTEN):
        writer = WRITERS[int(rng.integers(len(WRITERS)))]
        graphs.append(read_model(writer(_Some(rng))).bind({}, False).graph)
        names.append(writer.__name__.strip("_"))
    return of_graphs(graphs, names, rng, number)


def of_graphs(graphs: Sequence[Graph], names: Sequence[str], rng: np.random.Generator, number: int) -> Batch:
    """These graphs as one batch, every third of their inputs a constant; every second batch is a random cover."""
    inputs = merged_inputs(
        [odd_inputs({name: g.types[node.id] for name, node in g.inputs.items()}, rng) for g in graphs]
    )
    constants = {name: array for name, array in inputs.items() if rng.random() < 0.3}
    free = {name: array for name, array in inputs.items() if name not in constants}
    level = str(rng.choice(_LEVELS))
    return Batch(merged(graphs), constants, free, level, number if number % 2 else None, names)


def batches(seed: int, count: int) -> Iterator[Batch]:
    """The first batches that hold `count` programs."""
    for number in range(-(-count // (RANDOM + WRITTEN))):
        yield batch(seed, number)
