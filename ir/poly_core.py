"""Poly Core's report (seed 000 §7): what the index sets of a region allow, and what they ask for."""

from __future__ import annotations

from typing import Literal

import msgspec


class Dependence(msgspec.Struct, frozen=True):
    """`dst` must follow `src`: it reads (true), overwrites what was read (anti) or what was written (output)."""

    kind: Literal["true", "anti", "output"]
    src: str
    dst: str
    relation: str


class Halo(msgspec.Struct, frozen=True):
    """What a tile reads beyond its own extent: elements per axis before and after, and bytes in all."""

    bytes: int
    per_axis: dict[str, tuple[int, int]]


class ComputeAt(msgspec.Struct, frozen=True):
    """May the producers stay inside this kernel, and what it costs; `reason` says why not."""

    ok: bool
    halo: Halo
    reason: str = ""


class MinBuffer(msgspec.Struct, frozen=True):
    """The least memory that a value needs between its producer and its consumers; `depth` in stages."""

    value: str
    buffer: Literal["reg", "stack", "smem_ring", "gmem"]
    depth: int = 1


class Roles(msgspec.Struct, frozen=True):
    """A contraction's axes by the operands that depend on them: both (batch, k), lhs only (m), rhs only (n).
    Names are those of the product in the IndexBook; `k` are the reduced ones."""

    batch: tuple[str, ...]
    m: tuple[str, ...]
    n: tuple[str, ...]
    k: tuple[str, ...]


class Stride(msgspec.Struct, frozen=True):
    """How one access to memory moves along one axis: elements per step, or None where it is not affine in it.
    `guarded` tells that the access is padded along this axis, and `interior` the half-open range of the axis in
    which it never is (whatever the other axes are)."""

    axis: str
    step: int | None
    guarded: bool = False
    interior: tuple[int, int] | None = None


class MemoryAccess(msgspec.Struct, frozen=True):
    """One read of a buffer by value `value` (its input number `input`), or the write of an output (`input` -1):
    the strides over the value's axes, reduced axes last."""

    value: str
    input: int
    buffer: str
    strides: tuple[Stride, ...]


class BankConflict(msgspec.Struct, frozen=True):
    """An access whose stride maps neighbours to few banks or cache sets, and the remedy."""

    buffer: str
    axis: str
    advice: str


class PolyCore(msgspec.Struct, frozen=True):
    """The report on one region. Axes are names of the first output's IndexInfo (`i…`), reduced axes `r…`.

    `legal` is the verdict on the region as one kernel; `reason` names what stands in the way.
    """

    region: str
    legal: bool
    reason: str
    parallel_axes: tuple[str, ...]
    reduce_axes: tuple[str, ...]
    tail_axes: tuple[str, ...]
    dependences: tuple[Dependence, ...]
    affine_closed: bool
    compute_at: ComputeAt
    min_buffer: tuple[MinBuffer, ...]
    accesses: tuple[MemoryAccess, ...]
    contraction: str | None = None
    roles: Roles | None = None
    barriers: tuple[str, ...] = ()
    bank_conflicts: tuple[BankConflict, ...] = ()
