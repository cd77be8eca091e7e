"""Poly-View (seed 000 §5): the affine part of a region as isl sets and maps, contractions as patterns."""

from __future__ import annotations

from typing import Literal

import msgspec


class Access(msgspec.Struct, frozen=True):
    """One read or write as an isl map `{ [point] -> Tensor[coordinates] }`, with the padding as its domain."""

    tensor: str
    map: str
    mode: Literal["read", "write"]


class Pattern(msgspec.Struct, frozen=True):
    """What a contraction is. The `_idx` are axis names; `affine_offsets` are the conv windows, by operand axis."""

    pattern: Literal["matmul", "conv"]
    lhs_idx: tuple[str, ...]
    rhs_idx: tuple[str, ...]
    out_idx: tuple[str, ...]
    reduce_idx: tuple[str, ...]
    batch_idx: tuple[str, ...] = ()
    affine_offsets: dict[str, str] = {}


class Block(msgspec.Struct, frozen=True):
    """One statement: `domain` and accesses as isl text, simplified."""

    name: str
    kind: Literal["contraction_pattern", "reduce", "scan", "ewise"]
    domain: str
    accesses: tuple[Access, ...]
    attrs: Pattern | None = None


class Edge(msgspec.Struct, frozen=True):
    """`src` writes what `dst` reads."""

    src: str
    dst: str
    value: str


class PolyView(msgspec.Struct, frozen=True):
    """The blocks of one region and the flow between them; `non_scop` names the values left out."""

    region: str
    blocks: tuple[Block, ...]
    edges: tuple[Edge, ...]
    non_scop: tuple[str, ...] = ()
