"""Region → IndexBook → Poly-View → Poly Core, for one region; nothing is kept between calls."""

from __future__ import annotations

from codegen.poly.contraction_check import check_contractions
from codegen.poly.indexbook_to_poly_view import poly_view
from codegen.poly.poly_view_to_poly_core import poly_core
from codegen.poly.region_to_indexbook import index_book
from ir.poly.analysis import RegionAnalysis
from ir.poly.core import PolyCore
from ir.poly.indexbook import IndexBook
from ir.poly.indexbook_verify import verify
from ir.poly.view import PolyView
from ir.region.region import Region


def analyse(region: Region) -> RegionAnalysis:
    """The analyses of a region, as a price needs them: unchecked."""
    book = index_book(region)
    view = poly_view(region, book)
    return RegionAnalysis(book, view, poly_core(region, book, view))


def check(book: IndexBook, view: PolyView, core: PolyCore) -> None:
    """Check what code generation takes for granted of a region that is lowered.

    Raises:
        EqsatError: what `ir.poly.indexbook_verify` and `codegen.poly.contraction_check` find.
    """
    verify(book)
    check_contractions(view, core)


def checked_core(region: Region) -> PolyCore:
    """Poly Core of a region that is lowered. Raises EqsatError as `check` does."""
    analysis = analyse(region)
    check(analysis.book, analysis.view, analysis.core)
    return analysis.core
