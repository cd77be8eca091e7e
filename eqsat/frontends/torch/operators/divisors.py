"""Common divisors and multiples of integers."""

from __future__ import annotations

from eqsat.frontends.torch.promotion import pointwise
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.tensor import Tensor, scan, where
from ir.dtype import DTYPES, i32

Pair = tuple[Tensor, Tensor]

_HALVINGS_PER_STEP = 8
"""More of them in one step of the loop read and write memory less often, and take longer to compile."""


@pointwise("gcd", operands=2)
def _greatest_divisor(x: Tensor, y: Tensor) -> Tensor:
    """The greatest common divisor, without a sign; |x| where y is 0. By Stein's algorithm, which takes no divisions:
    the greatest common power of 2 is divided out, and then odd numbers are subtracted.

    The sizes are unsigned, so that the least integer is as large as it should be. (For it, torch's sign varies, and
    torch's lcm of i32 and i64 may end the process.)
    """
    shape = broadcast_shape("gcd", x.shape, y.shape)
    word = DTYPES[f"u{x.dtype.bits}"]
    one, other = (abs(operand).bitcast(word).expand(shape) for operand in (x, y))
    either = one | other
    power = either & (~either + 1)
    one, other = one // power, other // power  # 0 // 0 is 0
    is_odd = other & 1 == 1
    pair = where(is_odd, one, other), where(is_odd, other, one)
    steps = -(-(2 * word.bits - 1) // _HALVINGS_PER_STEP)
    (_, odd), _ = scan(_take_halves, pair, length=steps)
    divisor: Tensor = (odd * power).bitcast(x.dtype)
    return divisor


def _take_halves(pair: Pair, nothing: None) -> tuple[Pair, None]:
    """Two numbers, the second one odd, with the same common divisor, which together have fewer bits: one less for each
    halving, until the first one is 0."""
    rest, odd = pair
    for _ in range(_HALVINGS_PER_STEP):
        is_odd, least = rest & 1 == 1, rest.minimum(odd)
        rest = where(is_odd, rest.maximum(odd) - least, rest) >> 1
        odd = where(is_odd, least, odd)
    return (rest, odd), None


@pointwise("lcm", operands=2)
def _least_multiple(x: Tensor, y: Tensor) -> Tensor:
    """The least common multiple; 0 where x or y is 0. As torch's, it loses its sign in 32 bits or more, and then wraps
    to the dtype."""
    word = x.dtype if x.dtype.bits >= i32.bits else i32
    factor = (x // _greatest_divisor(x, y)).cast(word)  # x // 0 is 0
    return abs(factor * y.cast(word))
