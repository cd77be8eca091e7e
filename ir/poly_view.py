"""Poly-View (seed 000 §5): the affine part of a region as isl sets and maps, contractions as patterns.

For analysis only: nothing is executed from it. Every text is isl's own, simplified against the domain it lives in.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

BlockKind = Literal["contraction_pattern", "reduce", "scan", "ewise"]


class Access(msgspec.Struct, frozen=True):
    """One read or write as an isl map `{ [point] -> Tensor[coordinates] }`, with the padding as its domain."""

    tensor: str
    map: str
    mode: Literal["read", "write"]


class Pattern(msgspec.Struct, frozen=True):
    """What a contraction is.

    The `_idx` are axis names, operand by operand in the operand's order; an operand's coordinate that is a window
    over several axes is named by its output axis. `affine_offsets` gives those windows, by that axis:
    {"i2": "2*i2 + r1 - 1"}. `groups` counts the blocks of a grouped convolution.
    """

    pattern: Literal["matmul", "conv"]
    lhs_idx: tuple[str, ...]
    rhs_idx: tuple[str, ...]
    out_idx: tuple[str, ...]
    reduce_idx: tuple[str, ...]
    affine_offsets: dict[str, str] = {}
    batch_idx: tuple[str, ...] = ()
    groups: int = 1


class Block(msgspec.Struct, frozen=True):
    """One statement: `domain` (reduced axes last) and accesses as isl text."""

    name: str
    kind: BlockKind
    domain: str
    accesses: tuple[Access, ...]
    attrs: Pattern | None = None


class Edge(msgspec.Struct, frozen=True):
    """`src` writes what `dst` reads."""

    src: str
    dst: str
    value: str


class PolyView(msgspec.Struct, frozen=True):
    """The blocks of one region and the flow between them; `non_scop` names the values left out, because an index
    of theirs is data."""

    region: str
    blocks: tuple[Block, ...]
    edges: tuple[Edge, ...]
    non_scop: tuple[str, ...] = ()

    def block(self, name: str) -> Block:
        """The block of this name, which must be one of the view's."""
        return next(block for block in self.blocks if block.name == name)

    def to_dump(self) -> dict[str, Any]:
        """The fields of seed 000 §5.2's dump; a region with non-SCoP values names them."""
        view: dict[str, Any] = {
            "blocks": [_block(block) for block in self.blocks],
            "edges": [msgspec.to_builtins(edge) for edge in self.edges],
        }
        if self.non_scop:
            view["non_scop"] = list(self.non_scop)
        return {"poly_view": view}

    def __str__(self) -> str:
        lines = [f"poly_view {self.region}"]
        for block in self.blocks:
            pattern = f" ({block.attrs.pattern})" if block.attrs else ""
            lines.append(f"  {block.name}: {block.kind}{pattern} over {block.domain}")
            lines += [f"    {access.mode:5} {access.map}" for access in block.accesses]
        lines += [f"  {edge.src} -> {edge.dst}: {edge.value}" for edge in self.edges]
        lines += [f"  {name}: non-SCoP" for name in self.non_scop]
        return "\n".join(lines)


def _block(block: Block) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": block.name,
        "kind": block.kind,
        "domain": {"set": block.domain},
        "accesses": [{"tensor": access.tensor, "map": access.map} for access in block.accesses],
    }
    if block.attrs is not None:
        found["attrs"] = _pattern(block.attrs)
    return found


def _pattern(pattern: Pattern) -> dict[str, Any]:
    found: dict[str, Any] = {
        "pattern": pattern.pattern,
        "lhs_idx": list(pattern.lhs_idx),
        "rhs_idx": list(pattern.rhs_idx),
        "out_idx": list(pattern.out_idx),
        "reduce_idx": list(pattern.reduce_idx),
        "affine_offsets": dict(pattern.affine_offsets),
    }
    if pattern.groups > 1:
        found["groups"] = pattern.groups
    return found
