"""Products of groups of rows with a matrix per group, beside eager: the operators of torch and of transformers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the torch door needs torch")

from tests.support.torch.beside_eager import agree, normal  # noqa: E402 - only where torch is installed

ENDS = {
    "even groups": ([4, 8, 12], 12),
    "groups of many sizes": ([1, 1, 18, 18, 23], 23),
    "one group": ([5], 5),
    "many groups without rows": ([0, 0, 1, 1, 1, 2, 2], 2),
    "rows behind the last group": ([3, 4], 7),
    "no rows in any group": ([0, 0], 3),
    "no rows": ([0, 0], 0),
    "groups of more rows than a tile": ([150, 150, 331], 331),
}
"""The position behind each group's last row, and the number of rows."""


def experts(x: Any, matrices: Any, ends: Any) -> Any:
    """What `transformers.grouped_mm_fallback` computes."""
    rows, start = torch.zeros(x.shape[0], matrices.shape[2], dtype=x.dtype), 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        rows[start:end] = x[start:end] @ matrix
        start = end
    return rows


def expert_gradients(x: Any, matrices: Any, ends: Any, gradient: Any) -> tuple[Any, Any]:
    """What `transformers.grouped_mm_fallback_backward` computes."""
    of_matrices, start = torch.zeros_like(matrices), 0
    for group, end in enumerate(ends.tolist()):
        of_matrices[group] = x[start:end].T @ gradient[start:end]
        start = end
    return experts(gradient, matrices.transpose(1, 2), ends), of_matrices


@pytest.fixture(scope="module")
def operator() -> Any:
    """The operator of transformers, registered as transformers does where it is not installed."""
    if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        define = torch.library.custom_op
        define(
            "transformers::grouped_mm_fallback",
            experts,
            mutates_args=(),
            schema="(Tensor input, Tensor weight, Tensor offs) -> Tensor",
        )
        define(
            "transformers::grouped_mm_fallback_backward",
            expert_gradients,
            mutates_args=(),
            schema="(Tensor input, Tensor weight, Tensor offs, Tensor grad_output) -> (Tensor, Tensor)",
        )
        backward = torch.ops.transformers.grouped_mm_fallback_backward
        torch.library.register_fake(
            "transformers::grouped_mm_fallback", lambda x, y, ends: x.new_empty(x.shape[0], y.shape[2])
        )
        torch.library.register_fake(
            "transformers::grouped_mm_fallback_backward",
            lambda x, y, ends, gradient: (torch.empty_like(x), torch.empty_like(y)),
        )
        torch.library.register_autograd(
            "transformers::grouped_mm_fallback",
            lambda ctx, gradient: (*backward(*ctx.saved_tensors, gradient), None),
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        )
    return torch.ops.transformers.grouped_mm_fallback


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_experts_of_transformers(operator: Any, case: str, dtype: str) -> None:
    ends, rows = ENDS[case]
    element = getattr(torch, dtype)
    x, matrices = normal(rows, 5).to(element), normal(len(ends), 5, 3).to(element)
    agree(operator, x, matrices, torch.tensor(ends, dtype=torch.int32), kernels=False, gradients=True)


@pytest.mark.slow
def test_experts_in_kernels(operator: Any) -> None:
    ends = torch.tensor([3, 3, 40, 50])
    agree(operator, normal(50, 8), normal(4, 8, 6), ends, gradients=True, rtol=1e-4, atol=1e-5)


def test_nan_stays_in_its_group(operator: Any) -> None:
    x, matrices = normal(6, 3), normal(3, 3, 2)
    x[1, 0], matrices[2] = float("nan"), float("inf")
    agree(operator, x, matrices, torch.tensor([2, 4, 6]), kernels=False, gradients=True)


@pytest.mark.parametrize(
    ("left", "right", "ends"),
    [
        ((11, 8), (3, 8, 16), [2, 2, 11]),
        ((3, 16, 8), (8, 16), [2, 2, 16]),
        ((8, 16), (16, 24), [2, 2, 16]),
        ((3, 5, 8), (3, 8, 16), None),
    ],
)
def test_grouped_products_of_torch(left: tuple[int, ...], right: tuple[int, ...], ends: list[int] | None) -> None:
    x, y = normal(*left).bfloat16(), normal(*right).bfloat16()
    where = [] if ends is None else [torch.tensor(ends, dtype=torch.int32)]

    def product(a: Any, b: Any, *offsets: Any) -> Any:
        return torch.nn.functional.grouped_mm(a, b, offs=offsets[0] if offsets else None)

    agree(product, x, y, *where, kernels=False, gradients=True)
