"""Systems of equations whose matrix is a triangle, beside eager."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

from tests.support.torch.beside_eager import agree, normal

SIDES = [(upper, left, unit) for upper in (False, True) for left in (False, True) for unit in (False, True)]


def matrices(n: int, *batch: int) -> torch.Tensor:
    """Matrices of which both triangles are far from singular."""
    return normal(*batch, n, n) / max(n, 1) + 1.5 * torch.eye(n)


@pytest.mark.parametrize(("upper", "left", "unit"), SIDES)
def test_triangles_are_solved_on_both_sides(upper: bool, left: bool, unit: bool) -> None:
    b = normal(2, 1, 7, 3)
    agree(
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit),
        *(matrices(7, 3), b if left else b.mT),
        kernels=False,
        gradients=upper,
    )


@pytest.mark.parametrize("size", [0, 1, 2, 64, 65, 130])
def test_triangles_of_any_size_are_solved(size: int) -> None:
    for dtype in (torch.float32, torch.float64):
        agree(
            lambda a, b: [torch.linalg.solve_triangular(a, b, upper=upper) for upper in (False, True)],
            *(matrices(size).to(dtype), normal(size, 2).to(dtype)),
            kernels=False,
        )


@pytest.mark.slow
@pytest.mark.parametrize("size", [17, 130])
def test_kernels_solve_triangles(size: int) -> None:
    agree(
        lambda a, b: [torch.linalg.solve_triangular(a, b, upper=upper) for upper in (False, True)],
        *(matrices(size, 2), normal(2, size, 3)),
        gradients=size < 20,
    )


def test_zeros_on_the_diagonal_and_numbers_that_are_none_are_as_in_eager() -> None:
    a = matrices(5)
    a[2, 2], a[0, 3], a[4, 1] = 0.0, math.nan, math.inf
    agree(
        lambda a, b: [torch.linalg.solve_triangular(a, b, upper=upper) for upper in (False, True)],
        *(a, normal(5, 2)),
        kernels=False,
    )


@pytest.mark.parametrize("upper", [False, True])
def test_systems_are_solved_by_the_factor_of_their_matrix(upper: bool) -> None:
    agree(
        lambda a, b: (torch.cholesky_solve(b, a, upper=upper), torch.cholesky_inverse(a, upper=upper)),
        *(matrices(4, 2), normal(2, 4, 3)),
        kernels=False,
    )


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
def test_the_older_operator_returns_its_matrix_too() -> None:
    agree(
        lambda a, b: [
            part
            for transpose in (False, True)
            for part in torch.ops.aten.triangular_solve(b, a, True, transpose, transpose)
        ],
        *(matrices(4), normal(2, 4, 3)),
        kernels=False,
    )
