"""The dependences between the statements of a region, as isl maps between their points.

A region is in SSA form, so every dependence is true: a value is read after it is computed. Anti and output
dependences can only come through memory, where a buffer is written that something else reads or writes.
"""

from __future__ import annotations

from ir.index.isl_text import points, relation
from ir.index.map import AxisMap
from ir.poly.core import PolyCore
from ir.poly.report import Dependence
from ir.region.region import Operand, Region


def dependences(region: Region, core: PolyCore) -> tuple[Dependence, ...]:
    """Every dependence between two values, or between a value and an output, in body order."""
    used = {site.value for site in core.sites}
    reads = [
        (let.name, operand.value, operand.map)
        for let in region.body
        if let.name in used
        for operand in let.op.inputs
        if isinstance(operand, Operand)
    ]
    reads += [(end.buffer, end.value, end.map) for end in region.yields]
    flow = [_true(reader, source, at) for reader, source, at in reads if source in used]
    return (*dict.fromkeys(flow), *_through_memory(region, reads))


def _true(reader: str, source: str, at: AxisMap) -> Dependence:
    return Dependence("true", source, reader, relation(source, reader, at))


def _through_memory(region: Region, reads: list[tuple[str, str, AxisMap]]) -> list[Dependence]:
    dependences = []
    written: dict[str, str] = {}
    for end in region.yields:
        everything = f"{{ {points(end.value, len(end.map.exprs))} -> {points(end.buffer, len(end.map.sizes))} }}"
        for reader, source, _ in reads:
            if source == end.buffer:
                dependences.append(Dependence("anti", reader, end.buffer, everything))
        if end.buffer in written:
            dependences.append(Dependence("output", written[end.buffer], end.buffer, everything))
        written[end.buffer] = end.value
    return dependences
