"""Poly-View → Poly Core: the report on one region, assembled from the analyses beside this file.

Pricing runs this on every candidate kernel, so it works on AxisMaps alone: their intervals are exact where the
verdict needs them. Relations are written as isl maps but isl computes none of them here; the tests hold them, and
the verdict's claims, against isl (`codegen.where.isl_check`).
"""

from __future__ import annotations

from codegen.where.buffers import bank_conflicts, barriers, min_buffers
from codegen.where.compute_at import compute_at
from codegen.where.dependences import dependences
from codegen.where.halo import halo
from codegen.where.legality import reason_against, scanned_axis
from codegen.where.memory_access import memory_accesses
from codegen.where.roles import roles_of
from codegen.where.sites import Sites, find_sites, outer_scope, scope_axes
from codegen.where.tails import possible_tails
from ir.poly_core import PolyCore
from ir.region import Region


def poly_core(region: Region) -> PolyCore:
    """The report on a region that has at least one output."""
    found = find_sites(region)
    accesses = memory_accesses(region, found)
    reason = reason_against(region, found)
    at = compute_at(region, found, halo(region, found, accesses))
    scopes = _scopes(region, found)
    outer = scopes[outer_scope(region)]
    sequential = _sequential_axes(region, found) if not reason else ()
    reduced = dict.fromkeys(item for axes in scopes.values() for item in axes if item[0].startswith("r"))
    contraction = next((let for let in region.body if let.op.kind == "contraction" and found.of(let.name)), None)
    return PolyCore(
        region=region.name,
        legal=not reason,
        reason=reason,
        scopes=scopes,
        parallel_axes=tuple(name for name, _ in outer if name not in sequential),
        sequential_axes=sequential,
        reduce_axes=tuple(dict.fromkeys(name for name, _ in reduced)),
        tail_axes=tuple(dict.fromkeys(possible_tails((*outer, *reduced)))),
        dependences=dependences(region, found),
        affine_closed=all(let.op.kind != "gather" for let in region.body),
        sites=found.sites,
        compute_at=at,
        min_buffer=min_buffers(region, found, at),
        accesses=accesses,
        contraction=contraction.name if contraction else None,
        roles=roles_of(region, contraction, found.of(contraction.name)[0].map) if contraction and not reason else None,
        barriers=barriers(region),
        bank_conflicts=bank_conflicts(region, accesses),
    )


def _scopes(region: Region, found: Sites) -> dict[str, tuple[tuple[str, int], ...]]:
    reduced = {let.name: let.op.reduced for let in region.body}
    return {
        name: tuple(zip(scope_axes(sizes, reduced.get(name, 0)), sizes, strict=True))
        for name, sizes in found.scopes.items()
    }


def _sequential_axes(region: Region, found: Sites) -> tuple[str, ...]:
    """The outer axes along which a scan carries its value."""
    carried = {scanned_axis(let, site) for let in region.body if let.op.kind == "scan" for site in found.of(let.name)}
    return tuple(f"i{axis}" for axis in sorted(axis for axis in carried if axis is not None))
