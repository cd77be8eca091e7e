"""The analyses of one region, as the optimizer and the dumps see them."""

from __future__ import annotations

from typing import Protocol

from ir.poly.core import PolyCore
from ir.poly.indexbook import IndexBook
from ir.poly.report import PolyReport
from ir.poly.view import PolyView


class Facts(Protocol):
    """`book` says where values live, `view` what the blocks are, `core` what follows for plans and code: legality is
    decided on it, and planning starts from it. `report` is what follows for people."""

    @property
    def book(self) -> IndexBook: ...
    @property
    def view(self) -> PolyView: ...
    @property
    def core(self) -> PolyCore: ...
    @property
    def report(self) -> PolyReport: ...
