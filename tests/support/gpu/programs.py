"""Programs for a GPU, small enough for the emulator: odd sizes, tails, every dtype, empty and single arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eqsat import tensor as t
from eqsat.demo import seed_program
from tests.support.programs import graphs

Sized = tuple[Any, Mapping[str, int]]

_CONV = {"N": 1, "G": 2, "Cin_total": 8, "Cin": 4, "Cout": 16, "Rcout": 8, "H": 9, "W": 8, "Oy": 5, "Ox": 4}
_WINDOW = {"Kh": 3, "Kw": 3, "Sh": 2, "Sw": 2, "Dh": 1, "Dw": 1, "pt": 1, "pb": 1, "pl": 1, "pr": 1}


def dense(m: int, n: int, k: int, dtype: str) -> t.Tensor:
    """relu(A · B + bias)."""
    a, b, bias = t.input("a", (m, k), dtype), t.input("b", (k, n), dtype), t.input("bias", (n,), dtype)
    return (a @ b + bias).relu()


def softmax(rows: int, columns: int) -> t.Tensor:
    x = t.input("x", (rows, columns))
    e = (x - x.max(1, keepdims=True)).exp()
    return e / e.sum(1, keepdims=True)


def pointwise() -> list[t.Tensor]:
    """Several outputs, one of them an input, and every kind of number."""
    x, h, i = t.input("x", (33, 7)), t.input("h", (7,), "bf16"), t.input("i", (33, 7), "i32")
    y = (x * 2.0 + h.cast("fp32")).tanh().relu()
    return [y, x, i + 3, y > 0.25, h, (i + 1).cast("fp16")]


def folded() -> t.Tensor:
    """A constant that folds, and one that kernels read."""
    w = t.constant(np.linspace(-1, 1, 40, dtype=np.float32).reshape(8, 5), name="w")
    return (t.input("x", (6, 8)) @ (w * 2)).exp()


PROGRAMS: Mapping[str, Callable[[], Sized]] = {
    "pointwise": lambda: (pointwise(), {}),
    "single": lambda: (t.input("x", (1,)).exp() + 1, {}),
    "empty": lambda: (t.input("x", (0, 5)).sum(0) + 1, {}),
    "nothing": lambda: (t.input("x", (0, 5)) + 1, {}),
    "softmax": lambda: (softmax(7, 130), {}),
    "folded": lambda: (folded(), {}),
    "gemm": lambda: (seed_program("gemm"), {"M": 65, "K": 40, "N": 72}),
    "dense bf16": lambda: (dense(33, 71, 37, "bf16"), {}),
    "dense fp32": lambda: (dense(17, 9, 33, "fp32"), {}),
    "row times matrix": lambda: (dense(1, 72, 40, "fp16"), {}),
    "conv2d": lambda: (seed_program("conv2d"), _CONV | _WINDOW),
    "conv, norm, relu": lambda: (graphs.conv_bn_relu(), {}),
    "attention": lambda: (seed_program("attention"), {"B": 1, "H": 2, "M": 17, "D": 16, "N": 17}),
    "encoder": lambda: (graphs.encoder(1, length=9, width=16, heads=2), {}),
}
