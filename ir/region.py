"""Region Buffer SSA (seed 000 §6): one region is one kernel.

Only buffers at the edge live in memory; inside are SSA values. Every op has an iteration domain (a box of
sizes, reduced axes last) and reads each operand through an `AxisMap` from that domain to the operand's own
coordinates; broadcast, padding and every other movement live in those maps. A value's coordinates are its
domain without the reduced axes, and it is defined only over the axes that it depends on.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ir.axis_map import AxisMap

OpKind = Literal["contraction", "ewise", "unary", "cast", "copy", "reduce", "scan", "gather", "index"]


class MemRef(msgspec.Struct, frozen=True):
    """Where a buffer lies: `shape` in elements, row-major; `alignment` in bytes."""

    shape: tuple[int, ...]
    dtype: str
    alignment: int = 64
    noalias: bool = True


class Buffer(msgspec.Struct, frozen=True):
    """A tensor at the region's edge. `materialize` says where an output goes; a `constant` input is known when
    the program is built, so that a plan may keep it packed."""

    name: str
    memref: MemRef
    materialize: Literal["gmem", "deferred"] = "gmem"
    constant: bool = False


class Operand(msgspec.Struct, frozen=True, tag="value"):
    """A read of an SSA value or of an input buffer, at `map` of the op's domain point."""

    value: str
    map: AxisMap


class Number(msgspec.Struct, frozen=True, tag="number"):
    """An immediate of the op's operand dtype; "inf", "-inf" and "nan" are written as text."""

    number: bool | int | float | str
    dtype: str


class Op(msgspec.Struct, frozen=True):
    """One op at every point of `domain` (sizes); the last `reduced` axes are accumulated away.

    kind         fn                       inputs
    contraction  "sum"                    lhs, rhs: the sum of lhs·rhs, accumulated in `dtype`
    ewise/unary  lower-case uop           in the uop's order; `dtype` is the result's
    cast, copy   "cast", "copy"           one
    reduce       sum max min prod         one
    scan         sum prod max             one, accumulated along `axis` of the domain
    gather       "gather"                 source buffer, index: source at map(point), coordinate `axis`
                                          replaced by the index's value, clamped
    index        "index"                  none: `index_map`'s only coordinate
    """

    kind: OpKind
    fn: str
    dtype: str
    domain: tuple[int, ...]
    inputs: tuple[Operand | Number, ...] = ()
    reduced: int = 0
    axis: int | None = None
    index_map: AxisMap | None = None


class Let(msgspec.Struct, frozen=True):
    """`name = op`. `uops` are the Tiny nodes it came from, for messages only."""

    name: str
    op: Op


class Yield(msgspec.Struct, frozen=True):
    """The value `value`, over the whole of `buffer`'s shape, written to `buffer` at the same index;
    `map` takes the buffer's index to the value's coordinates."""

    value: str
    buffer: str
    map: AxisMap


class Region(msgspec.Struct, frozen=True):
    """One kernel: inputs and outputs in memory, a body in SSA order, what is yielded where."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: tuple[Let, ...]
    yields: tuple[Yield, ...]
