"""Blocks of Poly-View as isl sets and maps, and as simplified isl texts (seed 000 §5.2: always simplified)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ir.index.expr import axis_names
from ir.index.isl_text import access, box, points, tuple_name
from ir.poly.block import Access, PolyBlock

if TYPE_CHECKING:
    import islpy


def domain(block: PolyBlock) -> islpy.Set:
    """The points of a block."""
    import islpy

    conditions = " and ".join(box(block.sizes, block.axes)) or "1 = 1"
    return islpy.Set(f"{{ [{', '.join(block.axes)}] : {conditions} }}")


def own_write(block: PolyBlock) -> islpy.Map:
    """The map from a point to the element of the block's value that is written there."""
    import islpy

    return islpy.Map(f"{{ [{', '.join(block.axes)}] -> {tuple_name(block.name)}[{', '.join(block.own_axes)}] }}")


def relation(block: PolyBlock, of: Access) -> islpy.Map:
    """The map from a point to the elements that the access reads, or writes of an output (the access' map inverted)."""
    import islpy

    if of.mode == "read":
        return islpy.Map(access("", of.tensor, of.map, block.axes))
    out = axis_names(len(of.map.sizes))
    written = islpy.Map(access(of.tensor, block.name, of.map, out)).reverse()
    plain = islpy.Map(f"{{ {points(of.tensor, len(out))} -> {points(of.tensor, len(out))} }}")
    return own_write(block).apply_range(written).apply_range(plain)  # `plain` removes the names of the range's axes


def domain_text(block: PolyBlock) -> str:
    """The domain in isl's notation."""
    return str(simplify(domain(block)))


def access_texts(block: PolyBlock) -> list[tuple[str, str]]:
    """(tensor, map) in isl's notation: the reads, the write of the block's own value, the writes of outputs."""
    within = domain(block)
    reads, writes = (
        [(of.tensor, str(simplify(relation(block, of), within))) for of in block.accesses if of.mode == mode]
        for mode in ("read", "write")
    )
    return [*reads, (block.name, str(own_write(block))), *writes]


def simplify(piece: Any, within: islpy.Set | None = None) -> Any:
    """An isl set or map without conditions that the domain implies: coalesce, gist, remove_redundancies."""
    piece = piece.coalesce()
    if within is not None:
        piece = piece.gist_domain(within)
    return piece.remove_redundancies().coalesce()
