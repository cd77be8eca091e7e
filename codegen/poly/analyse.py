"""All that is known of a region beyond the region itself: IndexBook, Poly-View, Poly Core, and on demand the report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from codegen.poly.contraction_check import check_contractions
from codegen.poly.indexbook_to_poly_view import poly_view
from codegen.poly.poly_core_to_report import poly_report
from codegen.poly.poly_view_to_poly_core import poly_core
from codegen.poly.region_to_indexbook import index_book
from ir.poly.core import PolyCore
from ir.poly.indexbook import IndexBook
from ir.poly.indexbook_verify import verify
from ir.poly.report import PolyReport
from ir.poly.view import PolyView
from ir.region.region import Region


@dataclass(frozen=True)
class RegionFacts:
    """The analyses of one region. `book` says where values live, `view` what its blocks are, `core` what follows for
    plans and code."""

    region: Region
    book: IndexBook
    view: PolyView
    core: PolyCore

    @cached_property
    def checked(self) -> PolyCore:
        """`core`, after what code generation takes for granted has been verified, which no price needs to wait for.

        Raises:
            EqsatError: what `ir.poly.indexbook_verify` and `codegen.poly.contraction_check` find.
        """
        verify(self.book)
        check_contractions(self.view, self.core)
        return self.core

    @cached_property
    def report(self) -> PolyReport:
        """What follows for people, and for pipelined plans."""
        return poly_report(self.region, self.core)


@lru_cache(maxsize=4096)
def region_facts(region: Region) -> RegionFacts:
    """The facts of a region; equal regions share them."""
    book = index_book(region)
    view = poly_view(region, book)
    return RegionFacts(region, book, view, poly_core(region, book, view))
