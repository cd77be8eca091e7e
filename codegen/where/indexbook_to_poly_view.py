"""IndexBook → Poly-View: domains and accesses as isl sets and maps, simplified (seed 000 §5.2, seed 001 §2).

One block per value, a contraction with its product in one. Axes keep the names of the IndexBook. A gather reads where
data says, so it is no part of the view; what reads its value reads a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from codegen.where.contraction_pattern import pattern_of
from codegen.where.isl_text import access, box, points, tuple_name
from codegen.where.region_to_indexbook import index_book
from ir.indexbook import IndexBook, IndexInfo, product
from ir.indexbook_verify import verify
from ir.poly_view import Access, Block, BlockKind, Edge, PolyView
from ir.region import Let, Region

if TYPE_CHECKING:
    import islpy

_KINDS: dict[str, BlockKind] = {"contraction": "contraction_pattern", "reduce": "reduce", "scan": "scan"}


@lru_cache(maxsize=1024)
def poly_view(region: Region) -> PolyView:
    """The affine part of a region.

    Raises:
        EqsatError: what `ir.indexbook_verify` finds: a view is made of a right IndexBook only (seed 000 §14).
    """
    book = index_book(region)
    verify(book)
    affine = [let for let in region.body if not book.values[let.name].non_scop]
    blocks = tuple(_block(region, book, let) for let in affine)
    names = {block.name for block in blocks}
    edges = dict.fromkeys(
        Edge(read.tensor, block.name, read.tensor)
        for block in blocks
        for read in block.accesses
        if read.mode == "read" and read.tensor in names
    )
    non_scop = tuple(name for name, info in book.values.items() if info.non_scop)
    return PolyView(region.name, blocks, tuple(edges), non_scop)


def simplified(piece: Any, domain: islpy.Set | None = None) -> Any:
    """An isl set or map without what `domain` says already: coalesce, gist, remove_redundancies."""
    piece = piece.coalesce()
    if domain is not None:
        piece = piece.gist_domain(domain)
    return piece.remove_redundancies().coalesce()


def _block(region: Region, book: IndexBook, let: Let) -> Block:
    import islpy

    info = book.values[let.name]
    reads = book.values[product(let.name)].inputs if let.op.kind == "contraction" else info.inputs
    names = info.names
    conditions = " and ".join(box(info.domain, names)) or "1 = 1"
    domain = islpy.Set(f"{{ [{', '.join(names)}] : {conditions} }}")
    accesses = [
        Access(read.value_id, str(simplified(islpy.Map(access("", read.value_id, read.map, names)), domain)), "read")
        for read in reads
    ]
    accesses.append(Access(let.name, _own_write(let.name, info), "write"))
    accesses += [
        Access(each.buffer, _output_write(each.buffer, let.name, book, names, domain), "write")
        for each in region.yields
        if each.value == let.name
    ]
    return Block(
        name=let.name,
        kind=_KINDS.get(let.op.kind, "ewise"),
        domain=str(simplified(domain)),
        accesses=tuple(accesses),
        attrs=pattern_of(let.op) if let.op.kind == "contraction" else None,
    )


def _own_write(name: str, info: IndexInfo) -> str:
    own = ", ".join(axis.name for axis in info.axes)
    return f"{{ [{', '.join(info.names)}] -> {tuple_name(name)}[{own}] }}"


def _output_write(buffer: str, value: str, book: IndexBook, names: Sequence[str], domain: islpy.Set) -> str:
    """Point of the value → the elements of the output that are this value: the yield's map, turned round."""
    import islpy

    (read,) = book.values[buffer].inputs
    out = book.values[buffer].names
    turned = islpy.Map(access(buffer, value, read.map, out)).reverse()
    to_value = islpy.Map(_own_write(value, book.values[value]))
    plain = islpy.Map(f"{{ {points(buffer, len(out))} -> {points(buffer, len(out))} }}")  # leaves its range unnamed
    return str(simplified(to_value.apply_range(turned).apply_range(plain), domain))
