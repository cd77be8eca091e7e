"""Blocks of Poly-View as isl sets and maps, and as isl's simplified texts (seed 000 §5.2: always simplified)."""

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
    """Point → the element of the block's value that it writes."""
    import islpy

    return islpy.Map(f"{{ [{', '.join(block.axes)}] -> {tuple_name(block.name)}[{', '.join(block.own_axes)}] }}")


def relation(block: PolyBlock, each: Access) -> islpy.Map:
    """Point → the elements that are read, or of an output written: the access' map, turned round."""
    import islpy

    if each.mode == "read":
        return islpy.Map(access("", each.tensor, each.map, block.axes))
    out = axis_names(len(each.map.sizes))
    written = islpy.Map(access(each.tensor, block.name, each.map, out)).reverse()
    plain = islpy.Map(f"{{ {points(each.tensor, len(out))} -> {points(each.tensor, len(out))} }}")
    return own_write(block).apply_range(written).apply_range(plain)  # the last leaves the range's axes unnamed


def domain_text(block: PolyBlock) -> str:
    """The domain in isl's notation."""
    return str(simplified(domain(block)))


def access_texts(block: PolyBlock) -> list[tuple[str, str]]:
    """(tensor, map) in isl's notation: what is read, the block's own value, the outputs."""
    within = domain(block)
    reads, writes = (
        [(each.tensor, str(simplified(relation(block, each), within))) for each in block.accesses if each.mode == mode]
        for mode in ("read", "write")
    )
    return [*reads, (block.name, str(own_write(block))), *writes]


def simplified(piece: Any, within: islpy.Set | None = None) -> Any:
    """An isl set or map without what the domain says already: coalesce, gist, remove_redundancies."""
    piece = piece.coalesce()
    if within is not None:
        piece = piece.gist_domain(within)
    return piece.remove_redundancies().coalesce()
