"""All that the lowerings and the pricer know of a region beyond the region itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from codegen.where.halo import halo
from codegen.where.indexbook_to_poly_view import poly_view
from codegen.where.poly_view_to_poly_core import poly_core
from codegen.where.region_to_indexbook import index_book
from codegen.where.sites import find_sites
from ir.indexbook import IndexBook
from ir.poly_core import Halo, PolyCore
from ir.poly_view import PolyView
from ir.region import Region


@dataclass(frozen=True)
class Facts:
    """The analyses of one region. `book` says where values live, `core` what follows from it; `view`, their isl
    form, is made when it is asked for."""

    region: Region
    book: IndexBook
    core: PolyCore

    @property
    def view(self) -> PolyView:
        return poly_view(self.region)

    def halo(self, tile: Mapping[str, int]) -> Halo:
        """What a tile of `tile[axis]` outputs per outer axis (missing: all) reads beyond its own points."""
        return halo(self.region, find_sites(self.region), self.core.accesses, tile)


@lru_cache(maxsize=4096)
def region_facts(region: Region) -> Facts:
    """The facts of a region; equal regions share them."""
    return Facts(region, index_book(region), poly_core(region))
