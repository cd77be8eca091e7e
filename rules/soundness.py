"""The soundness checker: a rule's two sides are evaluated on random instances and compared.

Facts that only steer the search (what is worth fusing) are taken to hold, so a rule must be sound without them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ir.diagnostics import Kind, fail
from ir.dtype import dtype
from ir.rule import Condition, Equal, Exactness, Rule
from ir.term import App, Fact, Prim, Term, substitute, subterms
from ir.term_playback import evaluate
from ir.uop import SERIES, UOPS
from rules.instances import Instance, Unfit

Array = NDArray[Any]


def check(rule: Rule, rng: np.random.Generator, instances: int = 50, attempts: int = 20_000) -> int:
    """Compare both sides of `rule` on random instances where its conditions hold; the number of those.

    At least `instances` are wanted, and sought in `attempts` attempts. Exact rules are also tried on NaN,
    infinities and zeros of both signs. Other rules are compared in fp64 without rounding, where small dyadic
    inputs leave only the error of the fp64 sums, and as their dtypes round, within 64 units of the last place of
    the narrowest.

    Raises:
        EqsatError: UnsoundRule, with the instance.
    """
    applied = 0
    for attempt in range(attempts):
        try:
            instance = Instance(rule.lhs, rng, specials=rule.exactness is Exactness.EXACT and attempt % 2 == 0)
        except Unfit:
            continue
        rhs = rewritten(rule, instance)
        if rhs is None:
            continue
        _compare(rule, instance, rhs)
        applied += 1
        if applied == instances:
            break
    return applied


def rewritten(rule: Rule, instance: Instance) -> Term | None:
    """The right side for an instance of the left; None where a condition does not hold."""
    for condition in rule.when:
        if not _holds(condition, instance):
            return None
    return _computed(substitute(rule.rhs, instance.binding), instance)


def _holds(condition: Condition, instance: Instance) -> bool:
    match condition:
        case Equal():
            left, right = (_computed(substitute(each, instance.binding), instance) for each in
                           (condition.left, condition.right))  # fmt: skip
            return left is not None and left == right
        case Fact() if not condition.analysis.valued:
            return True
        case _:
            return _computed(substitute(condition, instance.binding), instance) is not None


def _computed(term: Term, instance: Instance) -> Term | None:
    """The term with its primitives and facts computed; None where one answers nothing."""
    match term:
        case App() | Prim():
            args = [_computed(arg, instance) for arg in term.args]
            ready = [arg for arg in args if arg is not None]
            if len(ready) < len(args):
                return None
            if isinstance(term, App):
                return App(term.ctor, tuple(ready))
            return term.fn.fn(*map(str, ready)) or None
        case Fact():
            return dtype(evaluate(term.term, instance.inputs).dtype).name
        case _:
            return term


def _compare(rule: Rule, instance: Instance, rhs: Term) -> None:
    modes = (False,) if rule.exactness is Exactness.EXACT else (False, True)
    for wide in modes:
        left = evaluate(instance.term, instance.inputs, wide=wide)
        right = evaluate(rhs, instance.inputs, wide=wide)
        if not agree(left, right, _tolerance(rule, instance.term, wide)):
            fail(
                Kind.UNSOUND_RULE,
                "rules",
                "the two sides differ",
                at=rule.name,
                lhs=str(instance.term),
                rhs=str(rhs),
                left=str(left)[:400],
                right=str(right)[:400],
                inputs={name: str(array)[:200] for name, array in instance.inputs.items()},
            )


def agree(left: Array, right: Array, tolerance: float) -> bool:
    """Same shape, dtype and NaN; numbers that differ by `tolerance` times the largest of them (or 16) at most."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not dtype(left.dtype).is_float:
        return bool(np.array_equal(left, right))
    a, b = left.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = max(16.0, float(np.abs(a[finite]).max(initial=0)), float(np.abs(b[finite]).max(initial=0)))
    return bool(np.all(np.abs(a[finite] - b[finite]) <= tolerance * scale))


def _tolerance(rule: Rule, term: Term, wide: bool) -> float:
    """0 for exact rules, but for NumPy's own inexactness: its elementary functions depend on an array's layout."""
    terms = list(subterms(term))
    names = {"fp64"} if wide else {str(each).partition("[")[0] for each in terms}
    spacing = max((_EPSILON[name] for name in names if name in _EPSILON), default=0.0)
    if rule.exactness is Exactness.EXACT:
        return 2 * spacing if any(map(_is_elementary, terms)) else 0.0
    return 64 * spacing


def _is_elementary(term: Term) -> bool:
    op = UOPS.get(str(term).upper()) if isinstance(term, str) else None
    return op is not None and op.flops >= SERIES


_EPSILON = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-23, "fp64": 2.0**-52}
"""The relative spacing of the floats."""
