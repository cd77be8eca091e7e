"""Parts that kernels of both machines share: variables with ranges, conditions on index expressions, constants and
named registers. The dialects (`ir.kernel.cpu`, `ir.kernel.gpu`) add values and statements."""

from __future__ import annotations

import msgspec

from ir.index.expr import AxisExpr


def _tag(name: str) -> str:
    """The name of a node in JSON, the same in both dialects: `let`, `for`, …"""
    return name.removeprefix("Cpu").lower()


class KernelNode(msgspec.Struct, frozen=True, tag_field="node", tag=_tag):
    """A part of a kernel."""


class Variable(msgspec.Struct, frozen=True):
    """An integer of the kernel with its range: `low` and `high` are inclusive."""

    name: str
    low: int
    high: int


class Within(msgspec.Struct, frozen=True):
    """low ≤ expr < high."""

    expr: AxisExpr
    low: int
    high: int


class Const(KernelNode, frozen=True):
    """The same number in every lane; "inf", "-inf" and "nan" are strings."""

    number: bool | int | float | str
    dtype: str


class Reg(KernelNode, frozen=True):
    """The register `name`, set by a `Let` or `Assign`."""

    name: str
    dtype: str


class Comment(KernelNode, frozen=True):
    text: str


class Bind(KernelNode, frozen=True):
    """Sets a variable until the end of the block: to max(min(expr, *most), *least)."""

    variable: int
    expr: AxisExpr
    most: tuple[AxisExpr, ...] = ()
    least: tuple[AxisExpr, ...] = ()


def register_type(dtype: str) -> str:
    """The dtype of a register that holds values of `dtype`: fp32 for fp16 and bf16."""
    return "fp32" if dtype in ("fp16", "bf16") else dtype
