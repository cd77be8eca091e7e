"""Programs with streams: softmax attention in common forms, and other means weighted by exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable

from eqsat import nn, tensor
from eqsat.model import read_model
from eqsat.tensor import Tensor, where
from ir.tiny.graph import Graph
from tests.support.programs.graphs import Tiny

Program = Callable[[], Tensor | Graph]
M, N, D, HEADS = 7, 10, 4, 3
"""Queries, keys, the size of a head, heads: small and odd, so that no two axes are confused."""


def graph_of(program: Program) -> Graph:
    """The program as Tiny IR."""
    written = program()
    return written if isinstance(written, Graph) else read_model(written).bind({}, False).graph


def softmax_times(scores: Tensor, values: Tensor) -> Tensor:
    """softmax(scores)·values, uop by uop in the scores' dtype."""
    powers = (scores - scores.max(-1, keepdims=True)).exp()
    return (powers / powers.sum(-1, keepdims=True)) @ values


def queries(
    *lead: int, m: int = M, n: int = N, d: int = D, dv: int = D, dtype: str = "fp32"
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v."""
    return (
        tensor.input("q", (*lead, m, d), dtype),
        tensor.input("k", (*lead, n, d), dtype),
        tensor.input("v", (*lead, n, dv), dtype),
    )


def products(*lead: int, dtype: str = "fp32") -> tuple[Tensor, Tensor]:
    """q·kᵀ and v."""
    q, k, v = queries(*lead, dtype=dtype)
    return q @ k.swapaxes(-1, -2), v


def plain() -> Tensor:
    return softmax_times(*products())


def scaled() -> Tensor:
    scores, v = products()
    return softmax_times(scores * 0.25, v)


def divided() -> Tensor:
    scores, v = products()
    return softmax_times(scores / 4.1, v)


def biased() -> Tensor:
    scores, v = products(2)
    return softmax_times(scores * 0.25 + tensor.input("bias", (M, N)), v)


def causal() -> Tensor:
    return nn.attention(*queries(HEADS), causal=True)


def hidden_by_number() -> Tensor:
    scores, v = products(2)
    keep = tensor.input("keep", (2, 1, N), "bool").expand(2, M, N)
    return softmax_times(where(keep, scores * 0.25, -1e9), v)


def hidden_by_infinity() -> Tensor:
    scores, v = products(2)
    return softmax_times(where(tensor.input("keep", (M, N), "bool").expand(2, M, N), scores, -math.inf), v)


def hidden_by_addition() -> Tensor:
    keep = tensor.input("keep", (2, 1, N))
    return nn.attention(*queries(2), mask=(1 - keep) * -1e4)


def grouped_queries() -> Tensor:
    """Two heads of keys and values; three heads of queries share one of them."""
    q = tensor.input("q", (2, 6, M, D))
    k, v = (
        tensor.input(name, (2, 2, N, D)).reshape(2, 2, 1, N, D).expand(2, 2, 3, N, D).reshape(2, 6, N, D)
        for name in "kv"
    )
    return nn.attention(q, k, v)


def batch_and_heads() -> Tensor:
    return nn.attention(*queries(2, HEADS))


def one_value() -> Tensor:
    return nn.attention(*queries(2, dv=1))


def half() -> Tensor:
    return nn.attention(*queries(2, dtype="fp16"))


def brain() -> Tensor:
    return nn.attention(*queries(2, dtype="bf16"), mask=tensor.input("mask", (M, N), "bf16"))


def half_throughout() -> Tensor:
    scores, v = products(2, dtype="fp16")
    return softmax_times(scores * 0.25, v)


def by_powers_of_two() -> Tensor:
    scores, v = products()
    scaled = scores * (0.25 * math.log2(math.e))
    powers = (scaled - scaled.max(-1, keepdims=True)).exp2()
    return (powers / powers.sum(-1, keepdims=True)) @ v


def divided_at_last() -> Tensor:
    scores, v = products(2)
    powers = (scores - scores.max(-1, keepdims=True)).exp()
    return (powers @ v) / powers.sum(-1, keepdims=True)


def by_reciprocal() -> Tensor:
    scores, v = products(2)
    powers = (scores - scores.max(-1, keepdims=True)).exp()
    return (powers * powers.sum(-1, keepdims=True).recip()) @ v


def as_the_seed_writes_it(dtype: str = "fp32") -> Graph:
    """Seed 000 §3: scores, maximum, exponentials, sum, quotient, weighted sum, each by EXPAND, MUL and REDUCE."""
    t = Tiny(dtype)
    q, k, v = (t.input(name, 2, HEADS, size, D) for name, size in (("Q", M), ("K", N), ("V", N)))
    scores = t.cast(t.reduce("SUM", t.op("MUL", t.spread(q, 3, N), t.spread(k, 2, M)), 4), dtype)
    weighted = t.op("MUL", t.spread(t.softmax(scores), 4, D), t.spread(v, 2, M))
    return t.graph(t.cast(t.reduce("SUM", weighted, 3), dtype))


def as_the_seed_writes_it_in_half() -> Graph:
    return as_the_seed_writes_it("fp16")


def mean_over_the_first_axis() -> Tensor:
    """Σ eˢ·v / Σ eˢ, and no product of matrices."""
    scores, v = tensor.input("s", (N, D)), tensor.input("v", (N, D))
    powers = (scores - scores.max(0, keepdims=True)).exp()
    return (powers * v).sum(0) / powers.sum(0)


def mean_of_quotients() -> Tensor:
    """The same, divided before it is summed, over the axis between."""
    scores, v = tensor.input("s", (2, N, D)), tensor.input("v", (2, N, D))
    powers = (scores - scores.max(1, keepdims=True)).exp()
    return (v * (powers / powers.sum(1, keepdims=True))).sum(1)


def log_sum_exp(scores: Tensor | None = None) -> Tensor:
    scores = tensor.input("s", (M, N)) if scores is None else scores
    greatest = scores.max(-1, keepdims=True)
    return (scores - greatest).exp().sum(-1).log() + greatest.reshape(*scores.shape[:-1])


def log_sum_exp_of_logits() -> Tensor:
    """The normaliser of a classifier's loss: the logits need no memory."""
    x, w = tensor.input("x", (M, D)), tensor.input("w", (D, N))
    return log_sum_exp(x @ w)


ATTENTION: dict[str, Program] = {
    program.__name__: program
    for program in (
        *(plain, scaled, divided, biased, causal, hidden_by_number, hidden_by_infinity, hidden_by_addition),
        *(grouped_queries, batch_and_heads, one_value, half, brain, half_throughout, by_powers_of_two),
        *(divided_at_last, by_reciprocal, as_the_seed_writes_it, as_the_seed_writes_it_in_half),
    )
}
"""Each is one kernel, with a product of matrices inside its scores."""

MEANS: dict[str, Program] = {
    program.__name__: program
    for program in (mean_over_the_first_axis, mean_of_quotients, log_sum_exp, log_sum_exp_of_logits)
}
"""Each is one kernel that streams, and no attention."""
