"""Poly-View (seed 000 §5): the affine part of a region as blocks of access functions (`ir.poly.block`).

Poly Core reads blocks, so that no price waits for isl; the dump, the printed form and
`codegen.poly.contraction_check` take them as isl sets and maps, always simplified (`ir.poly.view_isl`).
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
    """The blocks of one region in body order; `non_scop` names the values left out, because an index of theirs is
    data."""

    region: str
    blocks: tuple[PolyBlock, ...]
    non_scop: tuple[str, ...] = ()

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The flow between blocks."""
        names = {block.name for block in self.blocks}
        found = (
            Edge(read.tensor, block.name, read.tensor)
            for block in self.blocks
            for read in block.reads
            if read.tensor in names
        )
        return tuple(dict.fromkeys(found))

    def block(self, name: str) -> PolyBlock:
        """The block of this name, which must be one of the view's."""
        return next(block for block in self.blocks if block.name == name)

    def pattern(self, contraction: str) -> Pattern:
        """What the contraction of this name is."""
        found = self.block(contraction).attrs
        assert found is not None, f"{contraction} is no contraction"
        return found

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
            lines.append(f"  {block.name}: {block.kind}{pattern} over {domain_text(block)}")
            lines += [f"    {text}" for _, text in access_texts(block)]
        lines += [f"  {edge.src} -> {edge.dst}: {edge.value}" for edge in self.edges]
        lines += [f"  {name}: non-SCoP" for name in self.non_scop]
        return "\n".join(lines)


def _block(block: PolyBlock) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": block.name,
        "kind": block.kind,
        "domain": {"set": domain_text(block)},
        "accesses": [{"tensor": tensor, "map": text} for tensor, text in access_texts(block)],
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
