"""`cat` and `stack` of tensors whose dtypes differ, beside eager."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch", reason="the torch door needs torch")

from tests.support.torch.beside_eager import agree, normal

PAIRS = [
    (torch.float32, torch.int64),
    (torch.float32, torch.int32),
    (torch.float16, torch.int64),
    (torch.bfloat16, torch.int32),
    (torch.float16, torch.bfloat16),
    (torch.float64, torch.float32),
    (torch.uint8, torch.int8),
    (torch.bool, torch.int16),
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=str)
def test_parts_are_joined_in_their_common_dtype(one: torch.dtype, other: torch.dtype) -> None:
    x, y = (normal(2, 3) * 5).abs().to(one), torch.arange(6).view(2, 3).to(other)
    agree(
        lambda x, y: (
            torch.cat([x, y], 1),
            torch.hstack([y, x]),
            torch.stack([x, y], -1),
            torch.stack([y[0, 0], x[1, 1]]),
        ),
        *(x, y),
        kernels=False,
    )


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=str)
def test_parts_without_elements_count_for_the_dtype(one: torch.dtype, other: torch.dtype) -> None:
    x, nothing = torch.arange(6).view(2, 3).to(one), torch.empty(0, dtype=other)
    agree(
        lambda x, nothing: (torch.cat([nothing, x]), torch.cat([x, nothing], 1), torch.cat([nothing, nothing]), x + 1),
        *(x, nothing),
        kernels=False,
    )


def test_gradients_of_parts_have_the_dtypes_of_the_parts() -> None:
    agree(
        lambda x, y, i: torch.cat([x, y, i], 1) * 2,
        *(normal(2, 3).half(), normal(2, 3), torch.arange(6).view(2, 3)),
        kernels=False,
        gradients=True,
    )
