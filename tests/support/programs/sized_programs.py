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


def _in_heads(x: Tensor, other: Tensor) -> Tensor:
    """Attention of two heads, whose axis is merged with the batch."""
    query, key = (
        one.reshape(BATCH, -1, 2, CHANNELS // 2).permute(0, 2, 1, 3).reshape(BATCH * 2, -1, CHANNELS // 2)
        for one in (x, other)
    )
    seen = nn.softmax(query @ key.swapaxes(1, 2)) @ key
    return seen.reshape(BATCH, 2, -1, CHANNELS // 2).permute(0, 2, 1, 3).reshape(BATCH, -1, CHANNELS)


def _weights(x: Tensor) -> Tensor:
    return nn.softmax(x.swapaxes(1, 2)).swapaxes(1, 2)


def _integers(x: Tensor, element: str, least: int = -3) -> Tensor:
    return tensor.where(tensor.isnan(x), 0.0, x).clip(least, 3).cast(element)


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
    "attention in heads": _in_heads,
    "weights but the first": lambda x, y: _weights(x)[:, 1:],
    "weights backwards": lambda x, y: _weights(x).flip(1),
    "weights of both axes": lambda x, y: (
        nn.softmax((x @ y.swapaxes(1, 2)).reshape(BATCH, -1)).reshape(BATCH, x.shape[1], -1) @ y
    ),
    "sum of integers": lambda x, y: _integers(x, "i8").sum(1, keepdims=True).cast("fp32") + x,
    "least of integers": lambda x, y: (_integers(x, "u8", 0) + 1).min(1, keepdims=True).cast("fp32") + x,
    "product of integers": lambda x, y: _integers(x, "i8").prod(1, keepdims=True).cast("fp32") + x,
    "mean of halves": lambda x, y: x.cast("fp16").mean(1, keepdims=True).cast("fp32") + x,
    "written at even places": lambda x, y: x.scatter(1, tensor.iota(y.shape, 1, "i64") * 2, y),
    "gathered by bytes": lambda x, y: x.gather(1, tensor.iota(y.shape, 1, "u8") * 3),
    "windows": lambda x, y: x.swapaxes(1, 2).unfold(2, 2, 1).sum(-1).swapaxes(1, 2),
    "averages": lambda x, y: nn.avg_pool1d(x.swapaxes(1, 2), 3, 1, 1).swapaxes(1, 2),
    "lower triangle": lambda x, y: tensor.tril(x @ x.swapaxes(1, 2)) @ x,
    "padded to 30": lambda x, y: x.pad([(0, 0), (30 - x.shape[1], 0), (0, 0)], value=2.0),
    "all of two axes": lambda x, y: x.max((1, 2), keepdims=True) - x,
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
