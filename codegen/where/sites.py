"""Where every value of a region is computed: the scopes of `ir.poly_core`, and the sites in them.

From each output backwards: an elementwise value is computed where it is read, at the composition of the maps on
the way; an accumulator is computed in the outer scope, and what it accumulates in a scope of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ir.axis_map import AxisMap, compose
from ir.poly_core import Site
from ir.region import Let, Operand, Region

ACCUMULATORS = frozenset({"contraction", "reduce", "scan"})


@dataclass(frozen=True)
class Read:
    """Input number `input` of value `value` reads `source` at `map`, in the axes of `scope`; -1 is a yield, where
    `value` is the output and `source` the value yielded."""

    value: str
    input: int
    source: str
    scope: str
    map: AxisMap


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


def scope_axes(sizes: tuple[int, ...], reduced: int) -> tuple[str, ...]:
    """i0, i1, … and, for the last `reduced` axes, r0, r1, …"""
    kept = len(sizes) - reduced
    return tuple(f"i{axis}" if axis < kept else f"r{axis - kept}" for axis in range(len(sizes)))


def find_sites(region: Region) -> Sites:
    """Every scope, site and read of the region, in body order, the yields first."""
    outer = outer_scope(region)
    pending: dict[str, dict[tuple[str, AxisMap], None]] = {}
    yields = [Read(each.buffer, -1, each.value, outer, each.map) for each in region.yields]
    for read in yields:
        pending.setdefault(read.source, {})[outer, read.map] = None
    met: list[tuple[Let, list[Read]]] = []
    for let in reversed(region.body):  # in SSA order all readers come later
        if let.name in pending:
            reads = _reads(let, pending[let.name])
            met.append((let, reads))
            for read in reads:
                pending.setdefault(read.source, {})[read.scope, read.map] = None
    met.reverse()
    scopes = {let.name: let.op.domain for let, _ in met if let.op.kind in ACCUMULATORS}
    return Sites(
        scopes={outer: region.outputs[0].memref.shape, **scopes},
        sites=tuple(Site(let.name, scope, at) for let, _ in met for scope, at in pending[let.name]),
        reads=(*yields, *(read for _, reads in met for read in reads)),
    )


def _reads(let: Let, places: Iterable[tuple[str, AxisMap]]) -> list[Read]:
    """What a value reads: once in its own scope if it accumulates, else at each of its places."""
    operands = [(position, each) for position, each in enumerate(let.op.inputs) if isinstance(each, Operand)]
    if let.op.kind in ACCUMULATORS:
        return [Read(let.name, position, each.value, let.name, each.map) for position, each in operands]
    return [
        Read(let.name, position, each.value, scope, compose(each.map, at))
        for scope, at in places
        for position, each in operands
    ]
