"""Styles of random instances: the sizes of axes and the special numbers of each attempt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ir.dtype import DType, TensorType
from ir.term.rule import Exactness

Array = NDArray[Any]

LEAST = 5e-324
"""Stands for the least denormal of the float dtype of its array."""

SPECIALS: Mapping[Exactness, tuple[float, ...]] = MappingProxyType(
    {
        Exactness.EXACT: (math.nan, math.inf, -math.inf, -0.0, 0.0, LEAST),
        Exactness.REASSOCIATE: (math.nan, math.inf, -math.inf, -0.0, 0.0),
        Exactness.ROUNDING: (math.nan, math.inf, -math.inf, -0.0, 0.0),
        Exactness.RANGE: (math.nan, -0.0, 0.0),
    }
)
"""The special floats on which a rule of each level is compared. Above EXACT kernels may flush denormals. At RANGE a
rule may overflow, so that a difference at an infinity is no mistake."""

LARGE = (1000.0, -1000.0)
"""Numbers whose exponentials overflow fp64, but whose products do not: below RANGE a finite value stays finite."""


class Extents(NamedTuple):
    """The sizes that axes may have, and the sizes that reduced axes may have."""

    axes: Sequence[int]
    reduced: Sequence[int]


ORDINARY = Extents((1, 1, 2, 3, 3, 5), (1, 1, 2, 3))
FEW = Extents((0, 1, 2, 2), (0, 1, 2))
"""Some axes are empty. Other styles have no empty axis, since values without elements are never wrong."""
PLAIN = Extents((2, 3, 4), (2, 3))
"""For examples that people read: no axis is empty or has one element."""
LONG = Extents((1, 2, 3), (2, 7, 24))
"""Long sums, which show how wide they are accumulated."""

SOME, MANY = 0.2, 0.6
"""Shares of special values. A special value spoils the sums that it is in, so that SOME leaves ordinary values beside
it. With MANY, from a choice of three, several special values meet in one sum."""


class Style(NamedTuple):
    """extents: the sizes of axes. specials: the special values, in a `share` of the places of the inputs; if there are
    any, integers reach the ends of their dtypes where the value of the pattern is an integer. fine: floats have all
    their digits, so that every rounding shows; else they are small dyadic numbers, exact in every float dtype."""

    extents: Extents = ORDINARY
    specials: Sequence[float] = ()
    share: float = SOME
    fine: bool = False

    @staticmethod
    def of(level: Exactness, attempt: int) -> Style:
        """The style of an attempt on a rule of this level. Every second attempt has special values; every second
        attempt, or every attempt on an exact rule, has floats with all digits."""
        specials, exact = SPECIALS[level], level is Exactness.EXACT
        chosen = list(combinations(specials, 3))
        few = Style(ORDINARY, specials, SOME, exact)
        many = Style(ORDINARY, chosen[attempt // 8 % len(chosen)], MANY, fine=True)
        overflows = not exact and level is not Exactness.RANGE
        return (
            Style(ORDINARY, LARGE, MANY) if overflows else few,
            Style(LONG, fine=True),
            many,
            Style(FEW, fine=exact),
            few if overflows else many,
            Style(LONG, fine=True),
            many._replace(extents=FEW),
            Style(ORDINARY, fine=exact),
        )[attempt % 8]

    def array(self, rng: np.random.Generator, type_: TensorType, wraps: bool) -> Array:
        """Random numbers of this type; `wraps`: integers may reach the ends of their dtype."""
        element = type_.dtype
        array = rng.integers(-8, 9, type_.shape)
        if element.is_bool:
            return np.asarray(array > 0)
        floats = rng.standard_normal(type_.shape) if self.fine and element.is_float else array / 4
        values = np.asarray(array if element.is_int else floats).astype(element.numpy)
        if wraps if element.is_int else self.specials:
            options = (element.lowest, element.highest) if element.is_int else self.specials
            odd = np.asarray([_round_number(number, element) for number in options], element.numpy)
            if element.is_float:
                values = np.where(values == 0, -values, values)  # too few −0 would meet another one
            places = rng.random(type_.shape) < self.share
            values = np.where(places, rng.choice(odd, type_.shape), values)
        return np.asarray(values, element.numpy)


def _round_number(value: float, element: DType) -> Any:
    """The number, rounded to `element`; LEAST becomes the least denormal of `element`."""
    if element.is_float and value == LEAST:
        return ml_dtypes.finfo(element.numpy).smallest_subnormal
    return element.numpy.type(value)
