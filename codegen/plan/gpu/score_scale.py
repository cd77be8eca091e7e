"""A constant factor of all scores, which weights take in with their exponent.

s = S·c, s' = s where seen, else -∞      exp(s' - max s') = 2^(S'·a - max S'·a), a = c·log₂e
S' = S where seen, else -∞
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from codegen.plan.stream_view import StreamView
from ir.region.region import Number, Op, Operand, behind

_INFINITIES = ("inf", "-inf")


class ScoreScale(NamedTuple):
    """`value`: the value of the region that is the scores' product times `factor`."""

    value: str
    factor: float


@lru_cache(maxsize=64)
def score_scale(view: StreamView) -> ScoreScale | None:
    """The factor of the scores' product in all scores, in (0, 1], so that a product that is finite after it is finite
    before it. None where there is none, or where a score is more than that: a sum with a bias, say."""
    ops = {let.name: let.op for let in view.region.body}
    product, name = view.scores, view.roles.score
    if product is None or product.op.dtype != view.kind:
        return None
    chain = [name]
    while (below := _hidden_or_shown(ops.get(name))) is not None:
        name = below
        chain.append(name)
    op = ops.get(name)
    if op is None or (op.fn, op.dtype) != ("mul", view.kind) or op.kind != "ewise":
        return None
    scaled, factor = _operands(op)
    if scaled != product.name or factor is None or not 0 < factor <= 1:
        return None
    inside = {product.name, *chain}
    read_elsewhere = any(
        not inside.isdisjoint(let.op.reads) and let.name not in inside and let.name not in view.roles.members
        for let in view.region.body
    )
    conditions = [condition for link in chain for condition in _conditions(ops[link])]
    asks_scores = any(not inside.isdisjoint((condition, *behind(ops, condition))) for condition in conditions)
    written = any(result.value in inside for result in view.region.yields)
    return None if read_elsewhere or asks_scores or written else ScoreScale(name, factor)


def _hidden_or_shown(op: Op | None) -> str | None:
    """The value that an op shows where a condition holds; elsewhere it gives an infinity."""
    if op is None or (op.kind, op.fn) != ("ewise", "where"):
        return None
    shown, hidden = op.inputs[1:]
    if isinstance(shown, Operand) and isinstance(hidden, Number) and str(hidden.number) in _INFINITIES:
        return shown.value
    return None


def _operands(op: Op) -> tuple[str, float | None]:
    """The value that an op multiplies, and the number by which."""
    values = [operand.value for operand in op.inputs if isinstance(operand, Operand)]
    numbers = [float(operand.number) for operand in op.inputs if isinstance(operand, Number)]
    return (values[0], numbers[0]) if len(values) == len(numbers) == 1 else ("", None)


def _conditions(op: Op) -> list[str]:
    """The conditions of an op."""
    return [op.inputs[0].value] if op.fn == "where" and isinstance(op.inputs[0], Operand) else []
