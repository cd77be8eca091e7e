"""Saturation with a canary: if two unequal constants get into one class, some rule is unsound.

Tests saturate through this module, so that every e-graph of the tests is checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes

from eqsat.egraph import saturate as saturation
from eqsat.egraph.enode import ENode
from eqsat.egraph.saturation_stats import SaturationStats
from eqsat.egraph.view import EGraphView
from ir.dtype import dtype
from ir.index.map import AxisMap, identity
from ir.term.rule import Exactness
from tests.support.stages import terms

ROUNDINGS = 16
"""Units in the last place of 1 by which one number may differ from another, where sums are regrouped."""


def saturate(
    program: Any, rules: Any, exactness: Exactness = Exactness.ROUNDING, *args: Any, **keywords: Any
) -> tuple[EGraphView, SaturationStats]:
    """`eqsat.egraph.saturate.saturate`, its e-graph checked."""
    view, stats = saturation.saturate(program, rules, exactness, *args, **keywords)
    sing(view, exactness)
    return view, stats


def saturate_terms(
    program: Any, rules: Any, exactness: Exactness = Exactness.ROUNDING, *args: Any, **keywords: Any
) -> tuple[EGraphView, SaturationStats]:
    """`tests.support.stages.terms.saturate_terms`, its e-graph checked."""
    view, stats = terms.saturate_terms(program, rules, exactness, *args, **keywords)
    sing(view, exactness)
    return view, stats


def sing(view: EGraphView, exactness: Exactness) -> None:
    """Fails where a class holds two numbers, two inputs, or a number and an input as it lies: any values may be given
    for inputs, so they are as unequal as numbers are. What has no elements is all alike. Above the level exact
    floats may be off by some roundings, as sums of numbers are in another order."""
    lone = {number: result for number, nodes in view.classes.items() if (result := _constants(nodes))}
    for number, nodes in view.classes.items():
        result = _constants(nodes)
        for node in nodes:
            if node.ctor in ("Pure", "Store", "Load"):
                (child,) = node.children
                result |= lone.get(child, set()) if node.ctor != "Load" or _is_identity(node.map) else set()
        damage = " and ".join(sorted(map(str, result)))
        alike = len(result) <= 1 or (exactness > Exactness.EXACT and _are_roundings(result))
        assert alike, f"class {number} is {damage}: built by {[view.rules.get(n) for n in nodes]}"


def _are_roundings(groups: set[tuple[Any, ...]]) -> bool:
    """Whether all of these are floats of one dtype that differ by some roundings, of 1 or of themselves."""
    elements = {constants[0] for constants in groups if len(constants) == 2}
    if len(elements) != 1 or any(len(constants) != 2 for constants in groups) or not dtype(*elements).is_float:
        return False
    numbers = [float(text) for _, text in groups]
    unit = float(ml_dtypes.finfo(dtype(*elements).numpy).eps)
    return max(numbers) - min(numbers) <= ROUNDINGS * unit * max(1.0, *map(abs, numbers))


def _constants(nodes: Iterable[ENode]) -> set[tuple[str, ...]]:
    numbers = {_number(node.dtype, node.number) for node in nodes if node.ctor == "Imm" and 0 not in node.sizes}
    inputs = {(node.name,) for node in nodes if node.ctor == "Input" and 0 not in node.type.shape}
    return numbers | inputs


def _number(element: str, text: str) -> tuple[str, str]:
    """0 and −0 are one number: above the level exact, a sum of zeros may have either sign."""
    return element, "0.0" if text == "-0.0" else text


def _is_identity(read: AxisMap) -> bool:
    return read == identity(read.sizes)
