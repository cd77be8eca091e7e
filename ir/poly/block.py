"""The blocks of Poly-View (seed 000 §5): the reads and writes of a region's values, and contractions as patterns.

A block is one statement over a box of points. Its accesses are index maps over that box; they say which elements of
memory and of values are read and written.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ir.index.expr import AxisExpr
from ir.index.map import AxisMap

BlockKind = Literal["contraction_pattern", "reduce", "stream", "scan", "scatter", "ewise"]


class Access(msgspec.Struct, frozen=True):
    """In mode "read", `map` takes the block's point to the element of `tensor` that is read; its guards are padding. In
    mode "write", `map` takes the index of the output `tensor` to the coordinates of the value stored there."""

    tensor: str
    map: AxisMap
    mode: Literal["read", "write"]


class Pattern(msgspec.Struct, frozen=True):
    """The axes of a contraction by role.

    The `_idx` are axis names in the order of the operand or output. A coordinate that is a window over several axes
    has the name of its output axis, and `affine_offsets` has the window by that axis: 2*i2 + r1 - 1 for "i2".
    `groups` is the number of blocks of a grouped convolution. Both operands depend on `batch_idx`; only the lhs or
    neither depends on `m_idx`, only the rhs on `n_idx`.
    """

    pattern: Literal["matmul", "conv"]
    lhs_idx: tuple[str, ...]
    rhs_idx: tuple[str, ...]
    out_idx: tuple[str, ...]
    reduce_idx: tuple[str, ...]
    affine_offsets: dict[str, AxisExpr] = {}
    batch_idx: tuple[str, ...] = ()
    m_idx: tuple[str, ...] = ()
    n_idx: tuple[str, ...] = ()
    groups: int = 1

    @property
    def offset_texts(self) -> dict[str, str]:
        """The `affine_offsets` as texts: {"i2": "2*i2 + r1 - 1"}."""
        names = self.out_idx + self.reduce_idx
        return {index: offset.text(names) for index, offset in self.affine_offsets.items()}

    @property
    def roles(self) -> tuple[tuple[str, ...], ...]:
        """The output's axes: batch, m and n."""
        return self.batch_idx, self.m_idx, self.n_idx


class PolyBlock(msgspec.Struct, frozen=True):
    """One statement over the box of `sizes`: the axes of its value, `i0, i1, …`, then the reduced axes, `r0, r1, …`. It
    writes every element of its value once; `accesses` are its reads, and its writes to outputs."""

    name: str
    kind: BlockKind
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    accesses: tuple[Access, ...]
    attrs: Pattern | None = None

    @property
    def own_axes(self) -> tuple[str, ...]:
        """The axes of the block's value."""
        return tuple(axis for axis in self.axes if axis.startswith("i"))

    @property
    def reduced_axes(self) -> tuple[str, ...]:
        """The axes that are reduced."""
        return self.axes[len(self.own_axes) :]

    @property
    def reads(self) -> tuple[Access, ...]:
        """The reads, in the order of the operands."""
        return tuple(access for access in self.accesses if access.mode == "read")
