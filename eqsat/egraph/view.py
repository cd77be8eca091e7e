"""A saturated e-graph as plain data: what extraction, explanation and the dumps read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ir.term import Sort


class ENode(NamedTuple):
    """A constructor over classes (int), texts (str) and integers; `ir.term.CTORS[ctor].args` tells which."""

    ctor: str
    args: tuple[int | str, ...]


@dataclass(frozen=True)
class EGraphView:
    """classes: class → its nodes, in a deterministic order; sorts: class → sort;
    tiny: Tiny node → its Buf class; rules: node → the rule that built it (absent: it was loaded).

    PView, EView and PMax nodes record how a class was derived and are no part of a kernel; classes may be cyclic
    (a buffer that loads itself)."""

    classes: Mapping[int, tuple[ENode, ...]]
    sorts: Mapping[int, Sort]
    tiny: Mapping[str, int]
    rules: Mapping[ENode, str]
