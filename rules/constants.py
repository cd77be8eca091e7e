"""Functions on constants that rules call while they match: folding, identities, exact reciprocals.

Numbers are texts as `ir.term.text.number_text` writes them. An op on constants is computed by its meaning in the uop
table. The answer "" says that the rule does not apply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import ml_dtypes

from ir.dtype import DType, TensorType, dtype
from ir.term.language import Primitive
from ir.term.text import number_text, parse_number, parse_sizes, scalar
from ir.uop.table import BITCASTS, FUNCTIONS
from rules.primitives import yes

_CACHE = 1 << 14
LARGEST_RATIO = 8
"""The largest ratio of a folded sum to its last term: the term then loses three bits of its mantissa at most."""

NUMBERS = {
    "log2_e": math.log2(math.e),
    "ln_2": math.log(2),
}
"""The numbers that rules name."""


@Primitive
def fold_unary(op: str, result: str, element: str, number: str) -> str:
    """The number that a unary op gives for a number of dtype `element`."""
    return _fold(op, result, ((element, number),))


@Primitive
def fold_binary(op: str, result: str, element: str, left: str, right: str) -> str:
    """The number that a binary op gives for two numbers of dtype `element`."""
    return _fold(op, result, ((element, left), (element, right)))


@Primitive
def regroup(op: str, element: str, left: str, right: str) -> str:
    """The constant left ∘ right of (x ∘ left) ∘ right, where it has the whole precision of `element`.

    The constant must be a normal number, and a sum must keep the digits of `right`: (x − 2) + 1e-5 is 1e-5 where x =
    2."""
    text = _fold(op, element, ((element, left), (element, right)))
    result = parse_number(text)
    keeps = op != "add" or _keeps_digits(parse_number(left), parse_number(right), result)
    return text if keeps and _is_normal(result, dtype(element)) else ""


def _keeps_digits(left: float, right: float, result: float) -> bool:
    """Whether a rounded sum is exact, or its rounding error is small beside `right`."""
    if not math.isfinite(result) or abs(right) * LARGEST_RATIO >= abs(result):
        return True
    return Fraction(left) + Fraction(right) == Fraction(result)


@Primitive
def negative(element: str, number: str) -> str:
    """−number; integers wrap."""
    return _fold("neg", element, ((element, number),))


@Primitive
def exact_reciprocal(element: str, number: str) -> str:
    """1 / number, where number is a power of two: a product with it is the quotient, bit for bit."""
    value = float(parse_number(number))
    is_power = math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5
    return number_text(1 / value, dtype(element)) if is_power and _is_normal(1 / value, dtype(element)) else ""


@Primitive
def reciprocal(element: str, number: str) -> str:
    """1 / number, rounded, where the result is a normal number of dtype `element`."""
    value = float(parse_number(number))
    if not value or not _is_normal(1 / value, dtype(element)):
        return ""
    return number_text(1 / value, dtype(element))


@Primitive
def times(number: str, sizes: str, element: str) -> str:
    """The sum of `number` over a box of these sizes."""
    type_, count = dtype(element), math.prod(parse_sizes(sizes))
    total = parse_number(number) * count if count else 0
    if type_.is_int:
        total = (int(total) - int(type_.lowest)) % (1 << type_.bits) + int(type_.lowest)
    return number_text(total, type_)


@Primitive
def power_of_two_mask(number: str) -> str:
    """number − 1, for a positive power of two."""
    value = int(parse_number(number))
    return str(value - 1) if value > 0 and value & (value - 1) == 0 else ""


@Primitive
def product_of_divisors(element: str, left: str, right: str) -> str:
    """left·right, for positive integers whose product is a number of dtype `element`."""
    a, b = int(parse_number(left)), int(parse_number(right))
    return str(a * b) if min(a, b) > 0 and a * b <= dtype(element).highest else ""


@Primitive
def is_number(element: str, number: str, name: str) -> str:
    """`number` is the number of that name in `NUMBERS`, rounded to `element`."""
    return yes(number == number_text(NUMBERS[name], dtype(element)))


@Primitive
def is_lowest(element: str, number: str) -> str:
    """`number` is the least of its dtype: the identity of a maximum."""
    return yes(number == number_text(dtype(element).lowest, dtype(element)))


@Primitive
def is_highest(element: str, number: str) -> str:
    """`number` is the greatest of its dtype: the identity of a minimum."""
    return yes(number == number_text(dtype(element).highest, dtype(element)))


@Primitive
def all_ones(element: str, number: str) -> str:
    """`number` has every bit set: the identity of a conjunction."""
    ones = dtype(element)
    return yes(not ones.is_float and number == number_text(True if ones.is_bool else ~0, ones))


@Primitive
def positive(number: str) -> str:
    """`number` is finite and above zero."""
    return yes(0 < parse_number(number) < math.inf)


@Primitive
def finite(number: str) -> str:
    """`number` is finite."""
    return yes(math.isfinite(parse_number(number)))


@Primitive
def is_scale(number: str) -> str:
    """`number` is finite and not 0: a sum that overflows is still infinite after a product with it, and no NaN."""
    value = parse_number(number)
    return yes(math.isfinite(value) and value != 0)


@Primitive
def below_zero(number: str) -> str:
    """`number` is finite and below zero."""
    return yes(-math.inf < parse_number(number) < 0)


@Primitive
def is_float(element: str) -> str:
    """`element` is a dtype of floats."""
    return yes(dtype(element).is_float)


@Primitive
def is_discrete(element: str) -> str:
    """`element` is bool or a dtype of integers: x = x always holds, and sums do not round."""
    return yes(not dtype(element).is_float)


@Primitive
def of_equals(op: str, element: str) -> str:
    """The number that `op` gives for any two equal operands; NaN is not equal to itself."""
    known = {"cmplt": "false", "cmpgt": "false"}
    if not dtype(element).is_float:
        zero = "false" if dtype(element).is_bool else "0"
        known |= {"cmple": "true", "cmpge": "true", "cmpeq": "true", "cmpne": "false", "sub": zero, "xor": zero}
    return known.get(op, "")


@Primitive
def decided(op: str, element: str, number: str) -> str:
    """The result of a comparison with `number`, where it is the same for every value."""
    lowest, highest = is_lowest.fn(element, number), is_highest.fn(element, number)
    if (op == "cmplt" and lowest) or (op == "cmpgt" and highest):
        return "false"
    whole = not dtype(element).is_float
    return "true" if whole and ((op == "cmpge" and lowest) or (op == "cmple" and highest)) else ""


@Primitive
def mirrored(op: str) -> str:
    """The comparison that holds for exchanged operands."""
    return {"cmplt": "cmpgt", "cmpgt": "cmplt", "cmple": "cmpge", "cmpge": "cmple"}.get(op, "")


@Primitive
def opposite(op: str, element: str) -> str:
    """The comparison that holds where `op` does not. For floats NaN leaves only = and ≠."""
    pairs = {"cmpeq": "cmpne", "cmpne": "cmpeq"}
    if not dtype(element).is_float:
        pairs |= {"cmplt": "cmpge", "cmpge": "cmplt", "cmpgt": "cmple", "cmple": "cmpgt"}
    return pairs.get(op, "")


@Primitive
def associates_exactly(op: str, element: str) -> str:
    """(x ∘ y) ∘ z = x ∘ (y ∘ z), bit for bit."""
    return yes(op in ("max", "min", "and", "or", "xor") or (op in ("add", "mul") and not dtype(element).is_float))


@lru_cache(maxsize=_CACHE)
def _fold(op: str, result: str, operands: Sequence[tuple[str, str]]) -> str:
    out = dtype(result)
    arrays = [scalar(parse_number(number), dtype(element)) for element, number in operands]
    values = FUNCTIONS[op].apply(arrays, {"to": result}, TensorType(out, (), ()))
    if op in BITCASTS and values != values:
        return ""  # the text of a number does not say which NaN it is
    return number_text(values, out)


def _is_normal(value: float, element: DType) -> bool:
    limits = ml_dtypes.finfo(element.numpy)
    return float(limits.smallest_normal) <= abs(value) <= float(limits.max)
