"""The soundness checker: the two sides of a rule are evaluated on random instances and compared.

Both sides must be well-typed and of one type. They must agree as their dtypes round, in fp64, and, where every op has
an exact value, in fractions. Facts that only steer the search (which fusions are worth having) are taken to hold, so
that a rule must be sound without them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ir.diagnostics import EqsatError
from ir.dtype import TensorType, dtype
from ir.index.map import parse_map
from ir.term.language import App, Fact, Imm, Input, Prim, Term, Var, substitute, subterms
from ir.term.playback import evaluate
from ir.term.rule import Condition, Equal, Exactness, Exists, Rule, steers
from ir.term.text import parse_number
from ir.term.types import IllTyped, term_type
from ir.uop.table import ELEMENTARY
from rules.analyses import Byte, Finite, Short
from rules.counterexample import Difference, refuse, smallest
from rules.instances import ELEMENTS, Instance
from rules.primitives import SHORT, one_of
from rules.random_maps import Unfit
from rules.rational import NotRational, exact_value, random_fractions
from rules.styles import LARGE, Style

Array = NDArray[Any]

_RANGES = {Byte: (-128, 255), Short: (-SHORT, SHORT)}
"""The integers of which an analysis speaks."""
TERMS = 16.0
"""The size of the terms that sums of ordinary numbers may have cancelled."""


def check(
    rule: Rule,
    rng: np.random.Generator,
    instances: int = 50,
    attempts: int = 20_000,
    seconds: float | None = None,
) -> int:
    """Compare both sides of `rule` on random instances where its conditions hold; returns the number of instances.

    The checker seeks `instances` instances in `attempts` attempts, for `seconds` of wall clock at most. Half of the
    attempts have the special values of the rule's level among their inputs (`rules.styles.SPECIALS`). Rules above EXACT
    are compared twice: in fp64 without rounding, where small dyadic inputs leave only the error of the fp64 sums, and
    as their dtypes round, within 64 units of the last place of the narrowest dtype.

    Raises:
        EqsatError: UnsoundRule, with a small counterexample.
    """
    applied = 0
    deadline = None if seconds is None else time.monotonic() + seconds
    for instance, rhs in applications(rule, rng, attempts, deadline):
        mismatch = difference(rule, instance, rhs)
        if mismatch is not None:
            rivals = (
                (rival, difference(rule, rival, other)) for rival, other in applications(rule, rng, 2_000, deadline)
            )
            refuse(rule, *smallest(rule, (instance, mismatch), rivals, difference))
        applied += 1
        if applied == instances:
            break
    return applied


def applications(
    rule: Rule, rng: np.random.Generator, attempts: int, deadline: float | None = None
) -> Iterator[tuple[Instance, Term]]:
    """Instances of the left side to which the rule applies, with their right sides, until `deadline` (of
    `time.monotonic`)."""
    for instance in draw_instances(Draw.of(rule), rng, attempts, deadline):
        rhs = rewrite(rule, instance)
        if rhs is not None:
            yield instance, rhs


class Draw(NamedTuple):
    """The parts of a rule on which its random instances depend: rules that differ elsewhere have the same instances.

    patterns: the left side first. elements: the dtypes that its value may have. choices and alike: as `Instance` takes
    them.
    """

    patterns: tuple[App, ...]
    exactness: Exactness
    elements: tuple[str, ...]
    choices: tuple[tuple[str, frozenset[str]], ...]
    alike: tuple[tuple[str, str], ...]

    @staticmethod
    def of(rule: Rule) -> Draw:
        """The draw of a rule."""
        choices = _choices(rule)
        limits = tuple((name, frozenset(words)) for name, words in choices.items())
        return Draw(rule.patterns, rule.exactness, _elements(rule, choices), limits, tuple(_alike(rule).items()))


def draw_instances(
    draw: Draw, rng: np.random.Generator, attempts: int, deadline: float | None = None, style: Style | None = None
) -> Iterator[Instance]:
    """Well-typed instances, whether or not the conditions hold, each attempt in its own style, or all in `style`."""
    pattern, *others = draw.patterns
    choices, alike = dict(draw.choices), dict(draw.alike)
    for attempt in range(attempts):
        if deadline is not None and time.monotonic() > deadline:
            return
        try:
            style_of_attempt = style or Style.of(draw.exactness, attempt)
            instance = Instance(pattern, rng, style_of_attempt, draw.elements, others, choices, alike)
            for term in (instance.term, *instance.others):
                term_type(term)
        except (Unfit, IllTyped):
            continue
        yield instance


def _choices(rule: Rule) -> dict[str, set[str]]:
    """The words that variables may stand for, where conditions list them."""
    firings: dict[str, set[str]] = {}
    for condition in rule.when:
        match condition:
            case Prim(fn=fn, arguments={"text": Var(name), "words": str() as words}) if fn is one_of:
                firings[name] = firings.get(name, set(words.split())) & set(words.split())
    return firings


def _alike(rule: Rule) -> dict[str, str]:
    """The buffers that, by a condition, have the dtype of another buffer, or of the value (written "")."""
    counts = {}
    for condition in rule.when:
        match condition:
            case Equal(left=Fact(term=Var(name)), right=Fact(term=Var(other))):
                counts[name] = other
            case Equal(left=Fact(term=Var(name)), right=Var()):
                counts[name] = ""
    return counts


def _elements(rule: Rule, choices: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The dtypes that the value of the left side may have."""
    named = rule.lhs.fields.get("dtype")
    allowed = choices.get(named.name) if isinstance(named, Var) else None
    return tuple(element for element in ELEMENTS if allowed is None or element in allowed)


def rewrite(rule: Rule, instance: Instance) -> Term | None:
    """The right side for an instance of the left; None where a condition does not hold.

    Raises:
        EqsatError: UnsoundRule, where a primitive fails.
    """
    for condition in rule.when:
        if not (steers(condition) or _holds(condition, instance)):
            return None
    return _compute(rule.rhs, instance)


def _holds(condition: Condition, instance: Instance) -> bool:
    match condition:
        case Equal():
            left, right = (_compute(side, instance) for side in (condition.left, condition.right))
            return left is not None and left == right
        case Exists():
            return True
        case Fact(analysis=analysis, term=term) if analysis is Finite:
            values = evaluate(substitute(term, instance.binding), instance.inputs)
            return bool(np.isfinite(values.astype(np.float64)).all())
        case Fact(analysis=analysis, term=term) if analysis in _RANGES:
            values = evaluate(substitute(term, instance.binding), instance.inputs)
            low, high = _RANGES[analysis]
            return dtype(values.dtype).is_int and bool(((low <= values) & (values <= high)).all())
        case _:
            return _compute(condition, instance) is not None


def _compute(term: Term, instance: Instance) -> Term | None:
    """The ground term, with its primitives and facts computed; None where a primitive answers ""."""
    match term:
        case Var(name):
            return instance.binding[name]
        case App() | Prim():
            args = [_compute(arg, instance) for arg in term.args]
            ready = [arg for arg in args if arg is not None]
            if len(ready) < len(args):
                return None
            if isinstance(term, App):
                return App(term.ctor, tuple(ready))
            return term.fn.answer(*map(str, ready)) or None
        case Fact():
            return term_type(substitute(term.term, instance.binding)).dtype.name
        case _:
            return term


def difference(rule: Rule, instance: Instance, rhs: Term) -> Difference | None:
    """The difference between the right side and the instance, if it is more than the level of the rule allows."""
    try:
        left, right = term_type(instance.term), _type_of(rhs, instance)
    except (IllTyped, EqsatError, LookupError, TypeError, ValueError) as error:  # texts that are no maps or types …
        why = error.diagnostics[0].message if isinstance(error, EqsatError) else error
        return Difference(rhs, f"the right side means nothing: {why}")
    if left != right:
        return Difference(rhs, f"the right side is {right}, the left {left}")
    rounded = _rounds_numbers(instance.term, rhs)
    wide = rule.exactness is not Exactness.EXACT and not rounded
    mismatch = _rounded_difference(rule, instance, rhs, wide=True) if wide else None
    if not instance.is_large:
        mismatch = mismatch or _rounded_difference(rule, instance, rhs, wide=False)
    return mismatch or (_exact_difference(instance, rhs) if instance.is_plain and not rounded else None)


def _type_of(rhs: Term, instance: Instance) -> TensorType:
    """The type of a right side. It may read only inputs that the left side, or a term beside it, reads."""
    terms = (part for term in (instance.term, *instance.others) for part in subterms(term))
    given = {part for part in terms if isinstance(part, App) and part.ctor is Input}
    for part in subterms(rhs):
        if isinstance(part, App) and part.ctor is Input and part not in given:
            raise IllTyped(f"there is no {part}")
    return term_type(rhs)


def _rounded_difference(rule: Rule, instance: Instance, rhs: Term, wide: bool) -> Difference | None:
    a = evaluate(instance.term, instance.inputs, wide=wide)
    b = evaluate(rhs, instance.inputs, wide=wide)
    if not wide and rule.exactness >= Exactness.ROUNDING:
        a = _spare_overflow(instance, a, b)
    tolerance = _tolerance(rule, instance.term, wide and not _rounds_numbers(instance.term, rhs))
    terms = LARGE[0] ** 3 if instance.is_large else TERMS
    if agree(a, b, tolerance, terms, _signs_count(rule, instance.term, rhs), rule.exactness):
        return None
    return Difference(rhs, "computed in fp64" if wide else "computed as dtypes round", left=a, right=b)


def _spare_overflow(instance: Instance, left: Array, right: Array) -> Array:
    """The values of the left side; where it overflows only because its dtypes are narrow, and the right side does not,
    the values of the right."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return left
    vanished = np.isfinite(right.astype(np.float64)) & ~np.isfinite(left.astype(np.float64))
    if vanished.any():
        vanished &= np.isfinite(evaluate(instance.term, instance.inputs, wide=True).astype(np.float64))
    return np.where(vanished, right, left)


def _rounds_numbers(left: Term, right: Term) -> bool:
    """Whether a side may have a computed number that was rounded: the numbers of the sides differ, and one of them is
    no short dyadic number."""
    before, after = _numbers(left), _numbers(right)
    numbers = (float(parse_number(text)) for text in (*before, *after) if before != after)
    return any(
        math.isfinite(number) and not (abs(number) <= _SHORT and (number * 4).is_integer()) for number in numbers
    )


def _numbers(side: Term) -> tuple[str, ...]:
    """The constants and the fills of the maps, each once, in order of appearance."""
    below = list(subterms(side))
    constants = [str(part.field("value")) for part in below if isinstance(part, App) and part.ctor is Imm]
    maps = [part for part in below if isinstance(part, str) and " if " in part]
    fills = [str(guard.fill) for text in maps for guard in parse_map(text).guards]
    return tuple(dict.fromkeys(constants + fills))


def _exact_difference(instance: Instance, rhs: Term) -> Difference | None:
    """The difference between the sides in exact arithmetic, if any. The random fractions are seeded by the term, so
    that the verdict repeats."""
    inputs = random_fractions(instance.inputs, np.random.default_rng(len(str(rhs))))
    try:
        a, b = exact_value(instance.term, inputs), exact_value(rhs, inputs)
    except NotRational:
        return None
    return None if np.array_equal(a, b) else Difference(rhs, "in exact arithmetic", left=a, right=b, inputs=inputs)


def agree(
    left: Array,
    right: Array,
    tolerance: float,
    terms: float = TERMS,
    signed: bool = False,
    level: Exactness = Exactness.EXACT,
) -> bool:
    """Whether two arrays have one shape, one dtype, the same NaN, and numbers that differ little.

    Numbers may differ by `tolerance` times the largest of them, or times `terms`, the size of the terms that sums may
    have cancelled. signed: signs of zeros count. Above EXACT, NaN and the infinities may stand for each other: ∞ − ∞
    may come before or after a product.
    """
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not dtype(left.dtype).is_float:
        return bool(np.array_equal(left, right))
    a, b = left.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if level is Exactness.EXACT:
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return False
    elif not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    if signed and not np.array_equal(np.signbit(a[finite]), np.signbit(b[finite])):
        return False
    scale = max(terms, float(np.abs(a[finite]).max(initial=0)), float(np.abs(b[finite]).max(initial=0)))
    return bool(np.all(np.abs(a[finite] - b[finite]) <= tolerance * scale))


def _signs_count(rule: Rule, left: Term, right: Term) -> bool:
    """Whether signs of zeros count: at EXACT, unless a side has a maximum or minimum, since the greater of 0 and −0 may
    be either."""
    if rule.exactness is not Exactness.EXACT:
        return False
    return not any(part in ("max", "min") for side in (left, right) for part in subterms(side))


def _tolerance(rule: Rule, term: Term, wide: bool) -> float:
    """The relative tolerance. For exact rules it is 0, unless there are elementary functions: in NumPy their last bits
    depend on the layout of an array."""
    terms = list(subterms(term))
    names = {"fp64"} if wide else {str(part).partition("[")[0] for part in terms}
    spacing = max((_EPSILON[name] for name in names if name in _EPSILON), default=0.0)
    if rule.exactness is Exactness.EXACT:
        return 2 * spacing if any(map(_is_elementary, terms)) else 0.0
    return 64 * spacing


def _is_elementary(term: Term) -> bool:
    return isinstance(term, str) and term.upper() in ELEMENTARY


_SHORT = 2.0**6
"""Every float dtype holds every multiple of ¼ up to this number."""

_EPSILON = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-23, "fp64": 2.0**-52}
"""The relative spacing of the floats."""
