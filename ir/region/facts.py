"""The protocol of a region's analyses, for the optimizer and the dumps."""

from __future__ import annotations

from typing import Protocol

from ir.poly.core import PolyCore
from ir.poly.indexbook import IndexBook
from ir.poly.report import PolyReport
from ir.poly.view import PolyView


class Facts(Protocol):
    """The analyses of a region. `book` has the indices of its values, `view` its statements and dependences, `core` the
    facts that plans and code use: legality is decided on it. `report` is for people."""

    @property
    def book(self) -> IndexBook: ...
    @property
    def view(self) -> PolyView: ...
    @property
    def core(self) -> PolyCore: ...
    @property
    def report(self) -> PolyReport: ...
