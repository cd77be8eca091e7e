"""Elementary and special functions of the frontends, played back in fp64, beside NumPy's and SciPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special as exact

from eqsat.frontends import angles, bessel, elementary, special
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor, input
from ir.tiny.bind import load
from ir.tiny.playback import playback

EDGES = np.array([0.0, -0.0, 1, 2, -1, -2, 0.5, 1e-8, 30, np.inf, -np.inf, np.nan])
REALS = np.concatenate([np.linspace(-9.37, 9.41, 301), EDGES])
SIZES = np.abs(REALS)
HUGE = np.concatenate([REALS, [1e120, -1e149, 1e151, 1e200, -3e307, 1e-200]])
UNITS = np.concatenate([np.linspace(-1, 1, 301), [1 - 1e-9, -1 + 1e-12, 2, np.nan, 1e-9]])
CHANCES = np.concatenate([np.abs(UNITS), [1e-40, 1e-300]])
ARGUMENTS = np.concatenate([REALS, np.geomspace(1e-300, 600, 150)])

Case = tuple[Callable[..., Tensor], Callable[..., Any], tuple[np.ndarray, ...]]
CASES: dict[str, Case] = {
    "tan": (elementary.tan, np.tan, (REALS,)),
    "log1p": (elementary.log1p, np.log1p, (REALS,)),
    "log10": (elementary.log10, np.log10, (REALS,)),
    "sinh": (elementary.sinh, np.sinh, (REALS,)),
    "cosh": (elementary.cosh, np.cosh, (REALS,)),
    "asinh": (elementary.asinh, np.arcsinh, (HUGE,)),
    "acosh": (elementary.acosh, np.arccosh, (HUGE,)),
    "atanh": (elementary.atanh, np.arctanh, (UNITS,)),
    "asin": (angles.asin, np.arcsin, (UNITS,)),
    "acos": (angles.acos, np.arccos, (UNITS,)),
    "atan": (angles.atan, np.arctan, (REALS,)),
    "atan2": (angles.atan2, np.arctan2, (REALS, np.roll(REALS, 7))),
    "hypot": (elementary.hypot, np.hypot, (HUGE, np.roll(HUGE, 3))),
    "remainder with the sign of the dividend": (
        elementary.remainder_to_zero,
        np.fmod,
        (np.arange(-60.0, 60), np.roll(np.arange(-60.0, 60), 7)),
    ),
    "remainder with the sign of the divisor": (
        elementary.remainder_to_floor,
        np.mod,
        (np.arange(-60.0, 60), np.roll(np.arange(-60.0, 60), 7)),
    ),
    "erfc": (special.erfc, exact.erfc, (REALS,)),
    "erfcx": (special.erfcx, exact.erfcx, (REALS,)),
    "erfinv": (special.erfinv, exact.erfinv, (UNITS,)),
    "ndtri": (special.ndtri, exact.ndtri, (CHANCES,)),
    "log_ndtr": (special.log_ndtr, exact.log_ndtr, (REALS,)),
    "lgamma": (special.lgamma, exact.gammaln, (REALS[-np.inf < REALS],)),
    "digamma": (special.digamma, exact.digamma, (REALS,)),
    "polygamma 1": (lambda x: special.polygamma(1, x), lambda x: exact.polygamma(1, x), (SIZES[SIZES > 0],)),
    "polygamma 4": (lambda x: special.polygamma(4, x), lambda x: exact.polygamma(4, x), (SIZES[SIZES > 0],)),
    "zeta": (special.zeta, exact.zeta, (SIZES[1:-4] + 1.01, SIZES[:-5] + 0.3)),
    "i0": (special.i0, exact.i0, (REALS,)),
    "i0e": (special.i0e, exact.i0e, (REALS,)),
    "i1": (special.i1, exact.i1, (REALS,)),
    "i1e": (special.i1e, exact.i1e, (REALS,)),
    "j0": (bessel.bessel_j0, exact.j0, (ARGUMENTS,)),
    "j1": (bessel.bessel_j1, exact.j1, (ARGUMENTS,)),
    "y0": (bessel.bessel_y0, exact.y0, (ARGUMENTS,)),
    "y1": (bessel.bessel_y1, exact.y1, (ARGUMENTS,)),
    "k0": (bessel.bessel_k0, exact.k0, (ARGUMENTS,)),
    "k0e": (bessel.bessel_k0e, exact.k0e, (ARGUMENTS,)),
    "k1": (bessel.bessel_k1, exact.k1, (ARGUMENTS,)),
    "k1e": (bessel.bessel_k1e, exact.k1e, (ARGUMENTS,)),
    "spherical j0": (bessel.spherical_bessel_j0, lambda x: exact.spherical_jn(0, x), (ARGUMENTS,)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_function_is_right_to_ten_digits(case: Case) -> None:
    function, reference, arrays = case
    arguments = [input(f"x{place}", array.shape, "fp64") for place, array in enumerate(arrays)]
    tiny, constants = tensor_to_tiny([function(*arguments)], arguments)
    graph, _ = load(tiny)
    (actual,) = playback(graph, {**{f"x{place}": array for place, array in enumerate(arrays)}, **constants})
    with np.errstate(all="ignore"):
        expected = reference(*arrays)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", ["atan", "asin", "acos", "atan2"])
def test_angles_of_fp32_are_within_three_ulp(name: str) -> None:
    rng = np.random.default_rng(0)
    wide = np.concatenate([rng.standard_normal(20_000), 10 ** rng.uniform(-30, 38, 20_000), EDGES, UNITS])
    x = (UNITS if name in ("asin", "acos") else wide).astype(np.float32)
    if name in ("asin", "acos"):
        x = np.concatenate([x, rng.uniform(-1, 1, 40_000)]).astype(np.float32)
    arrays = (x, rng.permutation(x) * rng.choice([1, -1], x.size).astype(np.float32)) if name == "atan2" else (x,)
    arguments = [input(f"x{place}", array.shape) for place, array in enumerate(arrays)]
    tiny, constants = tensor_to_tiny([CASES[name][0](*arguments)], arguments)
    graph, _ = load(tiny)
    (actual,) = playback(graph, {**{f"x{place}": array for place, array in enumerate(arrays)}, **constants})
    with np.errstate(all="ignore"):
        exact_ = CASES[name][1](*(array.astype(np.float64) for array in arrays))
        ulp = np.spacing(np.maximum(np.abs(exact_), 2.0**-126).astype(np.float32)).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(exact_))
    assert np.nanmax(np.abs(actual - exact_) / ulp) <= 3
