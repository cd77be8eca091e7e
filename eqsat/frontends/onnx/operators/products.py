"""Products of matrices and tensors."""

from __future__ import annotations

from eqsat import tensor
from eqsat.frontends.onnx.operands import refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.tensor import Tensor


@operator("MatMul")
def _matmul(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


@operator("FusedMatMul", domain="com.microsoft")
def _fused_matmul(
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's name
    transB: int = 0,  # noqa: N803 - ONNX's name
    transBatchA: int = 0,  # noqa: N803 - ONNX's name
    transBatchB: int = 0,  # noqa: N803 - ONNX's name
) -> Tensor:
    a = a.moveaxis(0, -2) if transBatchA else a
    b = b.moveaxis(0, -2) if transBatchB else b
    product = (a.swapaxes(-1, -2) if transA else a) @ (b.swapaxes(-1, -2) if transB else b)
    return product if alpha == 1 else product * alpha


@operator("Gemm")
def _gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 1,
    transA: int = 0,  # noqa: N803 - ONNX's name
    transB: int = 0,  # noqa: N803 - ONNX's name
) -> Tensor:
    """alpha · op(A) · op(B) + beta · C."""
    product = (a.T if transA else a) @ (b.T if transB else b)
    scaled = product if alpha == 1 else (product * alpha).cast(a.dtype)
    if c is None:
        return scaled
    return scaled + (c if beta == 1 else (c * beta).cast(c.dtype))


@operator("Einsum", since=12)
def _einsum(*operands: Tensor, equation: str) -> Tensor:
    return tensor.einsum(equation, *operands)


@operator("Det", since=11)
def _determinant(x: Tensor) -> Tensor:
    """By expansion along the first row: matrices of up to four rows."""
    size = x.shape[-1]
    if size > 4:
        refuse(f"the determinant of {size} × {size} matrices")
    return _expand_determinant([[x[..., row, column] for column in range(size)] for row in range(size)])


def _expand_determinant(rows: list[list[Tensor]]) -> Tensor:
    if len(rows) == 1:
        return rows[0][0]
    total: Tensor | None = None
    for column, element in enumerate(rows[0]):
        minor = _expand_determinant([row[:column] + row[column + 1 :] for row in rows[1:]])
        term = element * minor if column % 2 == 0 else -(element * minor)
        total = term if total is None else total + term
    assert total is not None
    return total
