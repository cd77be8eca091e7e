"""Random programs over axes of the sizes S and T, written as a user writes them with lazy tensors."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import numpy as np

from eqsat import nn, tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError
from ir.tiny.bind import load
from ir.tiny.graph import Graph

BATCH, CHANNELS = 2, 4
Step = Callable[[Tensor, Tensor], Tensor]
"""Makes a tensor [BATCH, …, …] of two such tensors."""


def _around(x: Tensor, low: int, high: int) -> Tensor:
    return x.pad([(0, 0), (low, high), (0, 0)])


def _causal(x: Tensor, other: Tensor) -> Tensor:
    scores = x @ x.swapaxes(-1, -2)
    row, column = (tensor.iota(scores.shape, axis, "i64") for axis in (1, 2))
    return nn.softmax(tensor.where(column <= row, scores, -np.inf)) @ x


def _positions(x: Tensor) -> Tensor:
    return tensor.arange(x.shape[1]).cast("fp32").reshape(1, x.shape[1], 1)


STEPS: Mapping[str, Step] = {
    "softmax of channels": lambda x, y: nn.softmax(x),
    "softmax of positions": lambda x, y: nn.softmax(x.swapaxes(1, 2)).swapaxes(1, 2),
    "log softmax of positions": lambda x, y: nn.log_softmax(x.swapaxes(1, 2)).swapaxes(1, 2),
    "attention": lambda x, y: nn.softmax((x @ y.swapaxes(-1, -2)) * 0.5) @ y,
    "causal attention": _causal,
    "products of positions": lambda x, y: x @ y.swapaxes(-1, -2),
    "sum of products": lambda x, y: (x.swapaxes(-1, -2) @ x).sum(1, keepdims=True) + x,
    "concatenation": lambda x, y: tensor.concatenate([x, y], 1),
    "a last element more": lambda x, y: tensor.concatenate([x, x[:, -1:], y], 1),
    "rolled": lambda x, y: tensor.concatenate([x[:, -1:], x[:, :-1]], 1),
    "flipped": lambda x, y: x.flip(1),
    "the last": lambda x, y: x[:, -1:],
    "all but the last": lambda x, y: x[:, :-1],
    "as many as the other": lambda x, y: x[:, : y.shape[1]],
    "from the other's end": lambda x, y: x[:, y.shape[1] :],
    "from the second": lambda x, y: x[:, 1:],
    "every second": lambda x, y: x[:, ::2],
    "running sum": lambda x, y: x.cumsum(1),
    "running sum from the end": lambda x, y: x.flip(1).cumsum(1).flip(1),
    "centred": lambda x, y: x - x.mean(1, keepdims=True),
    "normalized": lambda x, y: x / ((x * x).mean(1, keepdims=True) + 1e-3).sqrt(),
    "layer norm": lambda x, y: nn.layer_norm(x, (x.shape[-1],)),
    "padded": lambda x, y: _around(x, 1, 2),
    "padded by its size": lambda x, y: _around(x, x.shape[1], 0),
    "sum beside ones": lambda x, y: x[:, :1].pad([(0, 0), (0, y.shape[1]), (0, 0)], value=1).sum(1, keepdims=True) + x,
    "batch merged": lambda x, y: (x.reshape(-1, x.shape[2]) * 2).reshape(x.shape),
    "in another order": lambda x, y: x.reshape(1, -1, BATCH),
    "times the sum": lambda x, y: x.sum(1, keepdims=True) * x,
    "below the maximum": lambda x, y: x.max(1, keepdims=True) - x,
    "above the minimum": lambda x, y: x - x.min(1, keepdims=True),
    "product of positions": lambda x, y: (x * 0.5).prod(1, keepdims=True) + x,
    "place of the maximum": lambda x, y: x.argmax(1).cast("fp32").unsqueeze(1) + x,
    "sorted": lambda x, y: x.gather(1, (-x).argsort(1)),
    "gathered": lambda x, y: x.gather(1, tensor.iota((x.shape[0], 3, x.shape[2]), 1, "i64") * 5),
    "infinite where negative": lambda x, y: tensor.where(x > 0, x, -np.inf),
    "one more": lambda x, y: x.relu() + 1,
    "its size": lambda x, y: x * float(x.shape[1]) + x.shape[1],
    "positions": lambda x, y: x + _positions(x),
    "count of NaN": lambda x, y: (
        (nn.softmax(x.swapaxes(1, 2)) != nn.softmax(x.swapaxes(1, 2))).cast("fp32").sum(2).unsqueeze(1) + x
    ),
}


def sized_program(seed: int, sizes: Mapping[str, int]) -> tuple[Graph, tuple[str, ...]]:
    """A random program at these sizes of S and T, and the names of its steps."""
    choose = random.Random(seed)
    x, y = (tensor.input(name, (BATCH, sizes[size], CHANNELS)) for name, size in (("x", "S"), ("y", "T")))
    seen = tensor.input("seen", (BATCH, sizes["S"]), "i64")
    made = [x, y, x @ tensor.input("w", (CHANNELS, CHANNELS)), seen.cast("fp32").unsqueeze(-1) * x]
    names = []
    for _ in range(choose.randint(2, 6)):
        name = choose.choice([*STEPS])
        one, other = choose.choice(made), choose.choice(made)
        try:
            made.append(STEPS[name](one, other))
        except EqsatError:  # the shapes do not fit together
            continue
        names.append(name)
    document, _ = tensor_to_tiny({"last": made[-1], "middle": made[len(made) // 2]})
    return load(document)[0], tuple(names)
