"""Systems of equations whose matrix is a triangle: by substitution in a loop over rows."""

from __future__ import annotations

from eqsat.frontends.torch.operator_table import aten
from eqsat.frontends.torch.operators.movements import diagonal
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.tensor import Tensor, eye, full, iota, scan, where


@aten("linalg_solve_triangular")
def _solve(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """x with a x = b, or x a = b if not left. a [..., n, n] counts on and above the diagonal if `upper`, else on and
    below it, and the diagonal counts as 1 if `unitriangular`. b is [..., n, k], or [..., k, n] if not left."""
    if left:
        return _solve_from_left(a, b, upper, unitriangular)
    return _solve_from_left(a.swapaxes(-2, -1), b.swapaxes(-2, -1), not upper, unitriangular).swapaxes(-2, -1)


@aten("triangular_solve")
def _solve_and_copy(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """x with a x = b, or aᵀ x = b, and a."""
    batch = broadcast_shape("triangular_solve", a.shape[:-2], b.shape[:-2])
    matrix = a.swapaxes(-2, -1) if transpose else a
    return _solve_from_left(matrix, b, upper != transpose, unitriangular), a.expand(*batch, *a.shape[-2:])


@aten("cholesky_solve")
def _solve_by_factor(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """x with l lᵀ x = b, or uᵀ u x = b if the factor is upper."""
    other = factor.swapaxes(-2, -1)
    lower, higher = (other, factor) if upper else (factor, other)
    return _solve_from_left(higher, _solve_from_left(lower, b, False, False), True, False)


@aten("cholesky_inverse")
def _invert_by_factor(factor: Tensor, upper: bool = False) -> Tensor:
    """The inverse of the matrix that has this factor."""
    return _solve_by_factor(eye(factor.shape[-1], dtype=factor.dtype).expand(factor.shape), factor, upper)


def _solve_from_left(a: Tensor, b: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    """x with a x = b."""
    batch, n = broadcast_shape("solve_triangular", a.shape[:-2], b.shape[:-2]), a.shape[-1]
    matrix, right = a.expand(*batch, n, n), b.expand(*batch, *b.shape[-2:])
    divisors = full((*batch, n), 1.0, b.dtype) if unitriangular else diagonal(matrix, 0, -2, -1)
    row, column = iota((n, n), 0), iota((n, n), 1)
    others = where(column > row if upper else column < row, matrix, 0.0)
    substitute = _substitute_rows if n <= _BLOCK else _substitute_blocks
    return substitute(others, divisors, right, upper)


def _substitute_rows(others: Tensor, divisors: Tensor, right: Tensor, upper: bool) -> Tensor:
    """x [..., n, k] with (others + the diagonal of divisors) x = right, one row after the other. Rows of x that are not
    computed yet are 0."""
    places = iota(right.shape, -2)

    def step(x: Tensor, at: tuple[Tensor, ...]) -> tuple[Tensor, None]:
        place, factors, divisor, rest = at
        solution = (rest - (factors.unsqueeze(-1) * x).sum(-2)) / divisor.unsqueeze(-1)
        return where(places == place, solution.unsqueeze(-2), x), None

    rows = iota((right.shape[-2],), 0), others.moveaxis(-2, 0), divisors.moveaxis(-1, 0), right.moveaxis(-2, 0)
    solved: Tensor = scan(step, full(right.shape, 0.0, right.dtype), rows, reverse=upper)[0]
    return solved


def _substitute_blocks(others: Tensor, divisors: Tensor, right: Tensor, upper: bool) -> Tensor:
    """As `_substitute_rows`, one block of rows after the other, so that most of the work is matrix products. Beyond the
    last row, the matrix counts as the identity, and the right side as 0."""
    *batch, n, k = right.shape
    blocks = -(-n // _BLOCK)
    kept, missing = [(0, 0)] * len(batch), (0, blocks * _BLOCK - n)
    padded = right.pad([*kept, missing, (0, 0)])
    strips = others.pad([*kept, missing, missing]).reshape(*batch, blocks, _BLOCK, blocks * _BLOCK)
    first_rows = iota(padded.shape, -2) // _BLOCK * _BLOCK

    def step(x: Tensor, at: tuple[Tensor, ...]) -> tuple[Tensor, None]:
        first, strip, divisor, rest = at
        square = strip.take(first + iota((_BLOCK,), 0), -1)
        solution = _substitute_rows(square, divisor, rest - strip @ x, upper)
        repeated = solution.unsqueeze(-3).expand(*batch, blocks, _BLOCK, k).reshape(x.shape)
        return where(first_rows == first, repeated, x), None

    rows = (
        iota((blocks,), 0) * _BLOCK,
        strips.moveaxis(-3, 0),
        divisors.pad([*kept, missing], 1.0).reshape(*batch, blocks, _BLOCK).moveaxis(-2, 0),
        padded.reshape(*batch, blocks, _BLOCK, k).moveaxis(-3, 0),
    )
    solved: Tensor = scan(step, full(padded.shape, 0.0, right.dtype), rows, reverse=upper)[0]
    return solved[(..., slice(0, n), slice(None))]


_BLOCK = 64
"""The rows of a block. A loop over rows writes all of x in each step, which is slow where x is large."""
