"""Poly Core → the report of seed 000 §7, made from the analyses beside this file when somebody asks for it."""

from __future__ import annotations

from codegen.poly.compute_at import compute_at
from codegen.poly.dependences import dependences
from codegen.poly.halo import halo
from codegen.poly.least_memory import bank_conflicts, barriers, min_buffers
from ir.poly.core import PolyCore
from ir.poly.report import PolyReport
from ir.region.region import Region


def poly_report(region: Region, core: PolyCore) -> PolyReport:
    """The report on a region whose Poly Core is `core`."""
    at = compute_at(region, core, halo(region, core))
    return PolyReport(
        core=core,
        dependences=dependences(region, core),
        compute_at=at,
        min_buffer=min_buffers(region, core, at),
        barriers=barriers(region),
        bank_conflicts=bank_conflicts(region, core),
    )
