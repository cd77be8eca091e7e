"""What the kernels of every machine are made of: variables with ranges, bounds on index expressions, constants and
named registers. The dialects (`ir.kernel.cpu`, `ir.kernel.gpu`) add values and statements of their own."""

from __future__ import annotations

import msgspec

from ir.index.expr import AxisExpr


def _tag(name: str) -> str:
    """The name of a node in JSON: both dialects have a `let`, a `for` and the like."""
    return name.removeprefix("Cpu").lower()


class KernelNode(msgspec.Struct, frozen=True, tag_field="node", tag=_tag):
    """A part of a kernel."""


class Variable(msgspec.Struct, frozen=True):
    """An integer of the kernel; `low` and `high` are its least and greatest value, inclusive."""

    name: str
    low: int
    high: int


class Within(msgspec.Struct, frozen=True):
    """low ≤ expr < high."""

    expr: AxisExpr
    low: int
    high: int


class Const(KernelNode, frozen=True):
    """The number in every lane; "inf", "-inf", "nan" are text."""

    number: bool | int | float | str
    dtype: str


class Reg(KernelNode, frozen=True):
    """What `Let` or `Assign` put into `name`."""

    name: str
    dtype: str


class Comment(KernelNode, frozen=True):
    text: str


class Bind(KernelNode, frozen=True):
    """Sets a variable, until the end of the block: to `expr`, but to `most` where one of these is less, and to
    `least` where one of these is then greater."""

    variable: int
    expr: AxisExpr
    most: tuple[AxisExpr, ...] = ()
    least: tuple[AxisExpr, ...] = ()


def register_type(dtype: str) -> str:
    """The dtype of the lanes that hold values of `dtype`."""
    return "fp32" if dtype in ("fp16", "bf16") else dtype
