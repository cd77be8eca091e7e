"""Where every value of a region is computed: the scopes of `ir.poly.core`, and the sites in them.

The walk goes from the outputs backwards. An elementwise value is computed where it is read, at the composition of the
maps on the way. An accumulator is computed in the outer scope, and its terms are computed in a scope of their own. An
accumulator may read another one at the same point for all its terms: the sum of a softmax reads the maximum of its row.
The inner accumulator is then finished at the site of the outer one, before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ir.index.map import AxisMap, compose, project, support
from ir.poly.core import Site
from ir.poly.indexbook import IndexBook
from ir.region.region import Definition, Op, Region, Yield

ACCUMULATORS = frozenset({"contraction", "reduce", "stream", "scan", "scatter"})


@dataclass(frozen=True)
class Read:
    """Access number `input` of `value` in the IndexBook reads `source` at `map`, over the axes of `scope`. For a yield
    `input` is −1, `value` is the output and `source` is the value that is written. `data`: the axes along which the
    index of a gather moves the read."""

    value: str
    input: int
    source: str
    scope: str
    map: AxisMap
    data: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Sites:
    """The scopes with the sizes of their axes (outer first), the sites, and the reads."""

    scopes: dict[str, tuple[int, ...]]
    sites: tuple[Site, ...]
    reads: tuple[Read, ...]

    def of(self, value: str) -> list[Site]:
        """Every site of one value."""
        return [site for site in self.sites if site.value == value]


def outer_scope(region: Region) -> str:
    """The name of the scope of the outputs."""
    return region.outputs[0].name


def _from_outside(end: Yield) -> AxisMap:
    """The points of the outer scope → the coordinates of the value that is yielded there."""
    return end.map if end.at is None else compose(end.map, end.at)


def find_sites(region: Region, book: IndexBook) -> Sites:
    """Every scope, site and read of the region, in body order, the yields first."""
    outer = outer_scope(region)
    pending: dict[str, dict[tuple[str, AxisMap], None]] = {}
    yields = [Read(end.buffer, -1, end.value, outer, _from_outside(end)) for end in region.yields]
    for read in yields:
        pending.setdefault(read.source, {})[outer, read.map] = None
    accumulators = {let.name: let.op for let in region.body if let.op.kind in ACCUMULATORS}
    met: list[tuple[Definition, list[Read]]] = []
    for let in reversed(region.body):  # in SSA order all readers come later
        if let.name in pending:
            reads = _reads(let, book, pending[let.name])
            met.append((let, reads))
            for read in reads:
                places = pending.setdefault(read.source, {})
                inside = accumulators.get(read.scope) if read.source in accumulators else None
                finished = None if inside is None else _before_terms(read.map, inside)
                if finished is None:
                    places[read.scope, read.map] = None
                else:
                    places.update({(scope, compose(finished, at)): None for scope, at in pending[read.scope]})
    met.reverse()
    scopes = [outer, *(let.name for let, _ in met if let.op.kind in ACCUMULATORS)]
    return Sites(
        scopes={name: book.values[name].domain for name in scopes},
        sites=tuple(Site(let.name, scope, at) for let, _ in met for scope, at in pending[let.name]),
        reads=(*yields, *(read for _, reads in met for read in reads)),
    )


def _before_terms(view: AxisMap, accumulator: Op) -> AxisMap | None:
    """The map, over the accumulator's own axes, by which the accumulator reads a value that its terms read at `view`;
    None if the terms read the value at several points."""
    own = range(len(accumulator.shape))
    if accumulator.axis is not None and accumulator.axis in support(view):
        return None
    return project(view, own)


def _reads(let: Definition, book: IndexBook, places: Iterable[tuple[str, AxisMap]]) -> list[Read]:
    """The reads of a value: in its own scope if it is an accumulator, else at each of its places."""
    accesses = list(enumerate(book.reads(let.name)))
    if let.op.kind in ACCUMULATORS:
        return [Read(let.name, position, access.value_id, let.name, access.map) for position, access in accesses]
    index = accesses[1][1].map if let.op.kind == "gather" and len(accesses) > 1 else None
    return [
        Read(
            *(let.name, position, access.value_id, scope, compose(access.map, at)),
            data=support(compose(index, at)) if index is not None and position == 0 else frozenset(),
        )
        for scope, at in places
        for position, access in accesses
    ]
