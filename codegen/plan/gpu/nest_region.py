"""The region that the GPU's template of nests takes: reductions stand in place of streams."""

from __future__ import annotations

from codegen.plan.stream_sums import without_streams
from codegen.poly.analyse import analyse
from ir.poly.core import PolyCore
from ir.region.region import Region


def nest_region(region: Region, core: PolyCore) -> tuple[Region, PolyCore]:
    """The region without its streams, and the Poly Core of that; the region as it stands where it has no stream."""
    if not any(let.op.kind == "stream" for let in region.body):
        return region, core
    plain = without_streams(region)
    return plain, analyse(plain).core
