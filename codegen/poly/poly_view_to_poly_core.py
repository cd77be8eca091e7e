"""Poly-View → Poly Core: whether a region is one kernel, and the facts from which its plans and its code are made.

Pricing does this for every candidate kernel, so it works on index maps alone: their intervals are exact where the
verdict needs them. isl checks every kernel that is lowered once (`codegen.poly.contraction_check`), and tests compare
the rest with isl.
"""

from __future__ import annotations

from codegen.poly.contraction_roles import roles_of
from codegen.poly.legality import Candidate, reason_against
from codegen.poly.memory_access import memory_accesses
from codegen.poly.value_sites import find_sites
from ir.poly.core import PolyCore, StreamRoles
from ir.poly.indexbook import IndexBook
from ir.poly.view import PolyView
from ir.region.region import Region


def poly_core(region: Region, book: IndexBook, view: PolyView) -> PolyCore:
    """Poly Core of a region that has at least one output. book: has every read, data-dependent reads included."""
    sites = find_sites(region, book)
    candidate = Candidate(region, view, sites)
    refusal, reason = reason_against(candidate)
    streams = candidate.streams if isinstance(candidate.streams, StreamRoles) else None
    contractions = () if streams else (let for let, _ in candidate.accumulators if let.op.kind == "contraction")
    contraction = next(iter(contractions), None)
    carried = {axis for axis in candidate.carried.values() if axis is not None} if not reason else set()
    return PolyCore(
        region=region.name,
        legal=not reason,
        reason=reason,
        refusal=refusal,
        scopes={name: tuple(zip(book.values[name].names, sizes, strict=True)) for name, sizes in sites.scopes.items()},
        sequential_axes=tuple(sorted(carried)),
        finished={name: tuple(sorted(axes)) for name, axes in candidate.finished.items() if axes is not None},
        affine_closed=not view.non_scop and all(block.kind != "scatter" for block in view.blocks),
        sites=sites.sites,
        accesses=memory_accesses(region, sites),
        contraction=contraction.name if contraction else None,
        pattern=view.pattern(contraction.name).pattern if contraction else None,
        roles=roles_of(region, contraction, sites.of(contraction.name)[0].map) if contraction and not reason else None,
        streams=None if reason else streams,
    )
