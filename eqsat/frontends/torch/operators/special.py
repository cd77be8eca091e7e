"""Special functions, element by element."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.frontends import bessel, special
from eqsat.frontends.torch.operator_table import aten
from eqsat.frontends.torch.promotion import in_dtype, pointwise
from eqsat.tensor import Tensor
from ir.dtype import DType

_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "lgamma": special.lgamma,
    "digamma": special.digamma,
    "i0": special.i0,
    "special_i0e": special.i0e,
    "special_i1": special.i1,
    "special_i1e": special.i1e,
    "special_erfcx": special.erfcx,
    "special_ndtri": special.ndtri,
    "special_log_ndtr": special.log_ndtr,
    "special_bessel_j0": bessel.bessel_j0,
    "special_bessel_j1": bessel.bessel_j1,
    "special_bessel_y0": bessel.bessel_y0,
    "special_bessel_y1": bessel.bessel_y1,
    "special_modified_bessel_i0": special.i0,
    "special_modified_bessel_i1": special.i1,
    "special_modified_bessel_k0": bessel.bessel_k0,
    "special_modified_bessel_k1": bessel.bessel_k1,
    "special_scaled_modified_bessel_k0": bessel.bessel_k0e,
    "special_scaled_modified_bessel_k1": bessel.bessel_k1e,
    "special_spherical_bessel_j0": bessel.spherical_bessel_j0,
}

for _name, _function in _FUNCTIONS.items():
    pointwise(_name, promotion="int_to_float")(_function)


@aten("polygamma")
def _polygamma(order: int, x: Tensor, *, result: DType) -> Tensor:
    return special.polygamma(order, x.cast(result))


@pointwise(
    "special_zeta", "special_zeta.self_scalar", "special_zeta.other_scalar", promotion="int_to_float", operands=2
)
def _zeta(s: Tensor, q: Tensor) -> Tensor:
    element = next(operand.dtype for operand in (s, q) if isinstance(operand, Tensor))
    return special.zeta(in_dtype(s, element), in_dtype(q, element))
