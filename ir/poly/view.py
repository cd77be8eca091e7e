"""Poly-View (seed 000 §5): the affine part of a region as blocks of access functions (`ir.poly.block`).

Poly Core reads blocks, so that no price waits for isl. The dump, the printed form and `codegen.poly.contraction_check`
convert blocks to isl sets and maps, always simplified (`ir.poly.view_isl`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ir.poly.block import Pattern, PolyBlock
from ir.poly.view_isl import access_texts, domain_text


class Edge(msgspec.Struct, frozen=True):
    """`src` writes what `dst` reads."""

    src: str
    dst: str
    value: str


class PolyView(msgspec.Struct, frozen=True):
    """The blocks of a region in body order. `non_scop` names the values without a block, since data is one of their
    indices."""

    region: str
    blocks: tuple[PolyBlock, ...]
    non_scop: tuple[str, ...] = ()

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The flow between blocks."""
        names = {block.name for block in self.blocks}
        edges = (
            Edge(read.tensor, block.name, read.tensor)
            for block in self.blocks
            for read in block.reads
            if read.tensor in names
        )
        return tuple(dict.fromkeys(edges))

    def block(self, name: str) -> PolyBlock:
        """The block of this name, which the view must have."""
        return next(block for block in self.blocks if block.name == name)

    def pattern(self, contraction: str) -> Pattern:
        """The pattern of the contraction of this name."""
        pattern = self.block(contraction).attrs
        assert pattern is not None, f"{contraction} is no contraction"
        return pattern

    def to_dump(self) -> dict[str, Any]:
        """The fields of seed 000 §5.2's dump, and the names of non-SCoP values if there are any."""
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
            lines.append(f"  {block.name}: {block.kind}{pattern} over {domain_text(block)}")
            lines += [f"    {text}" for _, text in access_texts(block)]
        lines += [f"  {edge.src} -> {edge.dst}: {edge.value}" for edge in self.edges]
        lines += [f"  {name}: non-SCoP" for name in self.non_scop]
        return "\n".join(lines)


def _block(block: PolyBlock) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": block.name,
        "kind": block.kind,
        "domain": {"set": domain_text(block)},
        "accesses": [{"tensor": tensor, "map": text} for tensor, text in access_texts(block)],
    }
    if block.attrs is not None:
        record["attrs"] = _pattern(block.attrs)
    return record


def _pattern(pattern: Pattern) -> dict[str, Any]:
    record: dict[str, Any] = {
        "pattern": pattern.pattern,
        "lhs_idx": list(pattern.lhs_idx),
        "rhs_idx": list(pattern.rhs_idx),
        "out_idx": list(pattern.out_idx),
        "reduce_idx": list(pattern.reduce_idx),
        "affine_offsets": pattern.offset_texts,
    }
    if pattern.groups > 1:
        record["groups"] = pattern.groups
    return record
