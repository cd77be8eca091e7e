"""IndexBook → Poly-View: one block per value, a contraction with its product in one (seed 000 §5.2, seed 001 §2).

Axes keep the names of the IndexBook. Data decides where a gather reads, so the gather is no part of the view: a reader
of its value reads a tensor. A scatter is a part of the view as a reduction: an element reads all its updates, and data
decides which of them count.
"""

from __future__ import annotations

from codegen.poly.contraction_pattern import pattern_of
from ir.poly.block import Access, BlockKind, PolyBlock
from ir.poly.indexbook import IndexBook
from ir.poly.view import PolyView
from ir.region.region import Definition, Region

_KINDS: dict[str, BlockKind] = {
    "contraction": "contraction_pattern",
    "reduce": "reduce",
    "stream": "stream",
    "scan": "scan",
    "scatter": "scatter",
}


def poly_view(region: Region, book: IndexBook) -> PolyView:
    """The affine part of a region whose IndexBook is `book`."""
    writes: dict[str, list[Access]] = {}
    for end in region.yields:
        (read,) = book.values[end.buffer].inputs
        writes.setdefault(end.value, []).append(Access(end.buffer, read.map, "write"))
    affine = [let for let in region.body if not book.values[let.name].non_scop]
    return PolyView(
        region.name,
        tuple(_block(book, let, writes.get(let.name, [])) for let in affine),
        tuple(let.name for let in region.body if book.values[let.name].non_scop),
    )


def _block(book: IndexBook, let: Definition, writes: list[Access]) -> PolyBlock:
    info = book.values[let.name]
    reads = tuple(Access(read.value_id, read.map, "read") for read in book.reads(let.name))
    return PolyBlock(
        name=let.name,
        kind=_KINDS.get(let.op.kind, "ewise"),
        axes=info.names,
        sizes=info.domain,
        accesses=(*reads, *writes),
        attrs=pattern_of(let.op, info.names) if let.op.kind == "contraction" else None,
    )
