"""Where every value of a region is computed: the scopes of `ir.poly_core`, and the sites in them.

From each output backwards: an elementwise value is computed where it is read, at the composition of the maps on
the way; an accumulator is computed in the outer scope, and what it accumulates in a scope of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ir.axis_map import AxisMap, compose
from ir.poly_core import Site
from ir.region import Op, Operand, Region

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


@dataclass
class Sites:
    """The scopes with the sizes of their axes, the sites and reads in the order in which they are met, each once."""

    scopes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    sites: dict[Site, None] = field(default_factory=dict)
    reads: dict[Read, None] = field(default_factory=dict)

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
    """Every scope, site and read of the region, in body order."""
    ops = {let.name: let.op for let in region.body}
    outer = outer_scope(region)
    found = Sites({outer: region.outputs[0].memref.shape})
    for each in region.yields:
        found.reads[Read(each.buffer, -1, each.value, outer, each.map)] = None
        _visit(found, ops, each.value, outer, each.map)
    return found


def _visit(found: Sites, ops: dict[str, Op], value: str, scope: str, at: AxisMap) -> None:
    op = ops.get(value)
    site = Site(value, scope, at)
    if op is None or site in found.sites:
        return
    accumulates = op.kind in ACCUMULATORS
    if accumulates and value in found.scopes:
        found.sites[site] = None
        return
    if accumulates:
        found.scopes[value] = op.domain
    for position, operand in enumerate(op.inputs):
        if isinstance(operand, Operand):
            inside = value if accumulates else scope
            there = operand.map if accumulates else compose(operand.map, at)
            found.reads[Read(value, position, operand.value, inside, there)] = None
            _visit(found, ops, operand.value, inside, there)
    found.sites[site] = None
