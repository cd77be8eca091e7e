"""Programs that call one graph several times, whose calls are large enough to be optimized by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from eqsat import nn, tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.tiny.bind import load
from ir.tiny.graph import Graph

Body = Callable[..., Sequence[Tensor]]
"""A function of a graph's parameters: the first is the value that goes from call to call."""


def feed_forward(x: Tensor, up: Tensor, down: Tensor, scale: Tensor) -> list[Tensor]:
    """A block of 24 uops that are no movements. Both results are read twice by a further block, or are outputs."""
    hidden = nn.gelu(nn.layer_norm(x, scale, scale) @ up)
    return [x + hidden @ down * 0.5]


def two_results(x: Tensor, up: Tensor, down: Tensor, scale: Tensor) -> list[Tensor]:
    """The block with a second result, and its first operand as the third one."""
    (y,) = feed_forward(x, up, down, scale)
    return [y, y.exp().sum(1), x]


def graph_json(body: Body, *shapes: tuple[int, ...], dtype: str = "fp32") -> dict[str, Any]:
    """A graph with parameters of these shapes."""
    parameters = [tensor.input(f"p{place}", shape, dtype) for place, shape in enumerate(shapes)]
    return tensor_to_tiny(body(*parameters), parameters)[0]


def given(name: str, shape: Sequence[Any], dtype: str = "fp32") -> dict[str, Any]:
    """An input."""
    return {"id": name, "uop": "INPUT", "arg": {"tensor_id": name, "dtype": dtype, "shape": list(shape)}}


def call(graph: str, results: Sequence[str], *operands: str) -> dict[str, Any]:
    ids = results[0] if len(results) == 1 else list(results)
    return {"id": ids, "uop": "CALL", "src": list(operands), "arg": {"graph": graph}}


def blocks(count: int, rows: int = 6, width: int = 8, dtype: str = "fp32") -> dict[str, Any]:
    """`count` blocks after one another, each with weights of its own: layer0, layer1, …."""
    shapes = ((rows, width), (width, 2 * width), (2 * width, width), (width,))
    uops = [given("x", shapes[0], dtype)]
    last = "x"
    for layer in range(count):
        weights = [f"layer{layer}.{name}" for name in ("up", "down", "scale")]
        uops += [given(name, shape, dtype) for name, shape in zip(weights, shapes[1:], strict=True)]
        uops.append(call("block", [f"layer{layer}"], last, *weights))
        last = f"layer{layer}"
    return {"graphs": {"block": graph_json(feed_forward, *shapes, dtype=dtype)}, "uops": uops, "outputs": [last]}


def inlined(source: Any) -> Graph:
    """The program without a trace of its calls, which are optimized together with what is around them."""
    graph, _ = load(source)
    return Graph.build([msgspec.structs.replace(node, calls=()) for node in graph.nodes], graph.outputs)
