"""Tiny graphs for tests: a builder, small programs, and models of realistic size."""

from __future__ import annotations

import math
from typing import Any

from ir.dtype import TensorType
from ir.tiny.graph import Graph, Imm, Node, type_node
from ir.uop.args import Arg

Operand = str | float | int


class Tiny:
    """Writes a graph uop by uop; each method returns the new node's id."""

    def __init__(self, dtype: str = "fp32") -> None:
        self.dtype = dtype
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}

    def op(self, uop: str, *src: Operand, **arg: Any) -> str:
        operands = tuple(operand if isinstance(operand, str) else Imm(operand) for operand in src)
        node, type_ = type_node(Node(f"n{len(self.nodes)}", uop, operands, Arg(arg)), self.types)
        self.nodes.append(node)
        self.types[node.id] = type_
        return node.id

    def graph(self, *outputs: str) -> Graph:
        return Graph.build(self.nodes, outputs or None)

    def shape(self, x: str) -> tuple[int, ...]:
        return self.types[x].shape

    def input(self, name: str, *shape: int, dtype: str | None = None) -> str:
        return self.op("INPUT", tensor_id=name, dtype=dtype or self.dtype, shape=shape)

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("RESHAPE", x, result_shape=shape)

    def expand(self, x: str, *shape: int) -> str:
        return self.op("EXPAND", x, result_shape=shape)

    def permute(self, x: str, *perm: int) -> str:
        return self.op("PERMUTE", x, perm=perm)

    def reduce(self, op: str, x: str, *axes: int, dtype: str = "fp32", **arg: Any) -> str:
        return self.op("REDUCE", x, op=op, axes=axes, dtype=dtype, **arg)

    def cast(self, x: str, to: str) -> str:
        return self.op("CAST", x, to=to) if self.types[x].dtype.name != to else x

    def spread(self, x: str, axis: int, size: int) -> str:
        """A new axis of `size` at `axis`, repeated along it."""
        shape = self.shape(x)
        one = self.reshape(x, *shape[:axis], 1, *shape[axis:])
        return self.expand(one, *shape[:axis], size, *shape[axis:])

    def along(self, x: str, axis: int, shape: tuple[int, ...]) -> str:
        """A vector along one axis of `shape`, repeated along the others."""
        one = self.reshape(x, *(size if k == axis else 1 for k, size in enumerate(shape)))
        return self.expand(one, *shape)

    def matmul(self, a: str, b: str) -> str:
        """[…, M, K] × [K, N] or […, K, N], the product as seed 001 writes it, accumulated in fp32."""
        *batch, m, k = self.shape(a)
        n = self.shape(b)[-1]
        last = len(self.shape(b)) - 1
        bt = self.permute(b, *range(last - 1), last, last - 1)
        if len(self.shape(b)) == 2 and batch:
            bt = self.expand(self.reshape(bt, *[1] * len(batch), n, k), *batch, n, k)
        axis = len(batch)
        product = self.op("MUL", self.spread(a, axis + 1, n), self.spread(bt, axis, m))
        return self.cast(self.reduce("SUM", product, axis + 2), self.dtype)

    def linear(self, x: str, name: str, features: int) -> str:
        y = self.matmul(x, self.input(f"{name}.w", self.shape(x)[-1], features))
        shape = self.shape(y)
        return self.op("ADD", y, self.along(self.input(f"{name}.b", features), len(shape) - 1, shape))

    def softmax(self, x: str) -> str:
        axis = len(self.shape(x)) - 1
        size = self.shape(x)[-1]
        shifted = self.op("SUB", x, self.spread(self.cast(self.reduce("MAX", x, axis), self.dtype), axis, size))
        powers = self.op("EXP", shifted)
        total = self.spread(self.cast(self.reduce("SUM", powers, axis), self.dtype), axis, size)
        return self.op("FDIV", powers, total)

    def layer_norm(self, x: str, name: str) -> str:
        shape = self.shape(x)
        axis, size = len(shape) - 1, shape[-1]
        mean = self.op("MUL", self.reduce("SUM", x, axis), 1 / size)
        centred = self.op("SUB", x, self.spread(mean, axis, size))
        variance = self.op("MUL", self.reduce("SUM", self.op("MUL", centred, centred), axis), 1 / size)
        scale = self.op("RSQRT", self.op("ADD", variance, 1e-5))
        normal = self.op("MUL", centred, self.spread(scale, axis, size))
        scaled = self.op("MUL", normal, self.along(self.input(f"{name}.g", size), axis, shape))
        return self.op("ADD", scaled, self.along(self.input(f"{name}.b", size), axis, shape))

    def conv(self, x: str, name: str, out: int, kernel: int, stride: int = 1) -> str:
        """2-D, same padding, no bias: PAD → POOL → EXPAND → MUL → REDUCE."""
        pad = kernel // 2
        if pad:
            x = self.op("PAD", x, pad=((0, 0), (0, 0), (pad, pad), (pad, pad)), value=0)
        windows = self.op("POOL", x, kernel=(kernel, kernel), stride=(stride, stride))
        channels = self.shape(windows)[1]
        moved = self.permute(self.spread(windows, 1, out), 0, 1, 3, 4, 2, 5, 6)
        weight = self.input(f"{name}.w", out, channels, kernel, kernel)
        weight = self.reshape(weight, 1, out, 1, 1, channels, kernel, kernel)
        product = self.op("MUL", moved, self.expand(weight, *self.shape(moved)))
        return self.cast(self.reduce("SUM", product, 4, 5, 6), self.dtype)

    def scale_shift(self, x: str, name: str) -> str:
        """Batch norm at inference: x·scale + shift per channel."""
        shape = self.shape(x)
        scale = self.along(self.input(f"{name}.s", shape[1]), 1, shape)
        shift = self.along(self.input(f"{name}.t", shape[1]), 1, shape)
        return self.op("ADD", self.op("MUL", x, scale), shift)

    def attention(self, x: str, name: str, heads: int) -> str:
        length, width = self.shape(x)
        size = width // heads
        q, k, v = (
            self.permute(self.reshape(self.linear(x, f"{name}.{part}", width), length, heads, size), 1, 0, 2)
            for part in "qkv"
        )
        scores = self.op("MUL", self.matmul(q, self.permute(k, 0, 2, 1)), 1 / math.sqrt(size))
        mixed = self.matmul(self.softmax(scores), v)
        joined = self.reshape(self.permute(mixed, 1, 0, 2), length, width)
        return self.linear(joined, f"{name}.o", width)


def gemm_bias_relu(m: int = 4, n: int = 6, k: int = 8, dtype: str = "fp32") -> Graph:
    t = Tiny(dtype)
    return t.graph(t.op("RELU", t.linear(t.input("x", m, k), "fc", n)))


def conv_bn_relu(size: int = 9, dtype: str = "fp32") -> Graph:
    t = Tiny(dtype)
    y = t.conv(t.input("x", 2, 3, size, size), "conv", 4, 3, stride=2)
    return t.graph(t.op("RELU", t.scale_shift(y, "bn")))


def attention(length: int = 5, width: int = 8, heads: int = 2) -> Graph:
    t = Tiny()
    return t.graph(t.attention(t.input("x", length, width), "attn", heads))


def encoder(layers: int = 12, length: int = 128, width: int = 768, heads: int = 12) -> Graph:
    """A pre-norm transformer encoder, about 150 uops a layer."""
    t = Tiny()
    x = t.input("x", length, width)
    for layer in range(layers):
        name = f"l{layer}"
        x = t.op("ADD", x, t.attention(t.layer_norm(x, f"{name}.n1"), f"{name}.attn", heads))
        hidden = t.linear(t.layer_norm(x, f"{name}.n2"), f"{name}.up", 4 * width)
        half = t.op("MUL", hidden, 0.5)
        gate = t.op("ADD", t.op("ERF", t.op("MUL", hidden, math.sqrt(0.5))), 1.0)
        x = t.op("ADD", x, t.linear(t.op("MUL", half, gate), f"{name}.down", width))
    return t.graph(x)


def resnet50(size: int = 224, batch: int = 1) -> Graph:
    """ResNet-50 with batch norm as scale and shift."""
    t = Tiny()
    x = t.op("RELU", t.scale_shift(t.conv(t.input("x", batch, 3, size, size), "stem", 64, 7, 2), "stem"))
    padded = t.op("PAD", x, pad=((0, 0), (0, 0), (1, 1), (1, 1)), value=float("-inf"))
    x = t.reduce("MAX", t.op("POOL", padded, kernel=(3, 3), stride=(2, 2)), 4, 5)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            name = f"s{stage}b{block}"
            stride = 2 if stage and not block else 1
            y = t.op("RELU", t.scale_shift(t.conv(x, f"{name}.1", width, 1), f"{name}.1"))
            y = t.op("RELU", t.scale_shift(t.conv(y, f"{name}.2", width, 3, stride), f"{name}.2"))
            y = t.scale_shift(t.conv(y, f"{name}.3", 4 * width, 1), f"{name}.3")
            if not block:
                x = t.scale_shift(t.conv(x, f"{name}.p", 4 * width, 1, stride), f"{name}.p")
            x = t.op("RELU", t.op("ADD", x, y))
    pooled = t.op("MUL", t.reduce("SUM", x, 2, 3), 1 / (t.shape(x)[2] * t.shape(x)[3]))
    return t.graph(t.softmax(t.linear(pooled, "fc", 1000)))
