"""Angles of sines, cosines, tangents and points: in fp64 for fp64, and else in fp32, within 3 ulp."""

from __future__ import annotations

import math

from eqsat.frontends.elementary import in_fp32_or_fp64, is_negative, polynomial
from eqsat.tensor import Tensor, where
from ir.dtype import fp32


@in_fp32_or_fp64
def atan(x: Tensor) -> Tensor:
    size = abs(x)
    steep = size > 1
    flat = _small_angle(where(steep, 1 / size, size))
    angle = where(steep, math.pi / 2 - flat, flat)
    return where(x < 0, -angle, angle)


@in_fp32_or_fp64
def atan2(y: Tensor, x: Tensor) -> Tensor:
    """The angle of the point (x, y)."""
    high, wide = abs(y), abs(x)
    least, most = high.minimum(wide), high.maximum(wide)
    slope = where(most == 0, 0.0, where(least == math.inf, 1.0, least / most))
    flat = _small_angle(slope)
    angle = where(high > wide, math.pi / 2 - flat, flat)
    turned = where(is_negative(x), math.pi - angle, angle)
    return where(is_negative(y), -turned, turned)


@in_fp32_or_fp64
def asin(x: Tensor) -> Tensor:
    size = abs(x)
    near_end, angle = _angle_of_sine(size)
    whole = where(near_end, math.pi / 2 - angle, angle)
    return where(x < 0, -whole, whole)


@in_fp32_or_fp64
def acos(x: Tensor) -> Tensor:
    size = abs(x)
    near_end, angle = _angle_of_sine(size)
    from_axis = where(x < 0, -angle, angle)
    return where(near_end, where(x < 0, math.pi - angle, angle), math.pi / 2 - from_axis)


def _small_angle(slope: Tensor) -> Tensor:
    """atan(slope) for slopes from 0 to 1."""
    z = slope * slope
    if slope.dtype == fp32:
        return slope + slope * (z * polynomial(z, _ATAN))
    middle = slope > 0.66
    reduced = where(middle, (slope - 1) / (slope + 1), slope)
    z = reduced * reduced
    angle = reduced * z * (polynomial(z, _NUMERATOR) / polynomial(z, _DENOMINATOR)) + reduced
    return where(middle, math.pi / 4 + angle, angle)


def _angle_of_sine(size: Tensor) -> tuple[Tensor, Tensor]:
    """Whether a sine from 0 to 1 is above 1/2, and then π/2 − asin(size); else asin(size). With x = √((1 − size) / 2),
    π/2 − asin(size) = 2 asin(x)."""
    near_end = size > 0.5
    z = where(near_end, (1 - size) * 0.5, size * size)
    root = where(near_end, z.sqrt(), size)
    if size.dtype == fp32:
        angle = root + root * (z * polynomial(z, _ASIN))
    else:
        angle = 2 * _small_angle(root / (1 + (1 - z).sqrt()))
    return near_end, where(near_end, 2 * angle, angle)


_ATAN = (
    -0.00179362052,
    0.010914601,
    -0.0311778381,
    0.0579575869,
    -0.0840345001,
    0.109521857,
    -0.142642417,
    0.199985483,
    -0.333332991,
)
"""(atan(t) / t − 1) / t² as a polynomial in t² from 0 to 1, by Lawson's algorithm; a share of 2.6e-9 of the angle is
lost."""
_ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
"""(asin(x) / x − 1) / x² as a polynomial in x² from 0 to 1/4: Cephes' asinf.c."""
_NUMERATOR = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
_DENOMINATOR = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506571482613964425e2,
)
"""Coefficients of Cephes' atan.c."""
