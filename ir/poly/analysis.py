"""The analyses of the index sets of one region: the three nouns beside the region, in the order in which they are
made."""

from __future__ import annotations

from typing import NamedTuple

from ir.poly.core import PolyCore
from ir.poly.indexbook import IndexBook
from ir.poly.view import PolyView


class RegionAnalysis(NamedTuple):
    """`book` says where the values lie, `view` which blocks compute them, `core` whether the region is one kernel and
    the facts from which its plans and its code are made."""

    book: IndexBook
    view: PolyView
    core: PolyCore
