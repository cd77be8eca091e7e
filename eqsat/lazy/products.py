"""Methods of lazy tensors that multiply matrices."""

from __future__ import annotations

from typing import Any, Self

from eqsat.lazy.argument_checks import number, refuse
from eqsat.lazy.broadcasting import broadcast
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.lazy.reductions import Reductions
from ir.diagnostics import Kind


class Products(Reductions):
    """Base class of `Tensor`."""

    __slots__ = ()

    def matmul(self, other: Any) -> Self:
        """The matrix product as a broadcast, a product and a sum in the common dtype; 1-D and batched operands as in
        NumPy's matmul (tinygrad's `dot`, seed 001 §0)."""
        right = self._of(other)
        if not self.ndim or not right.ndim or self.shape[-1] != right.shape[-min(right.ndim, 2)]:
            hint = "[…, M, K] @ […, K, N]; .T or swapaxes(-1, -2) turns a matrix"
            refuse(Kind.AXIS_SIZE_MISMATCH, "matmul", "the contracted sizes differ", self.shape, right.shape, hint=hint)
        if broadcast(self.shape[:-2], right.shape[:-2]) is None:
            hint = "batches that agree from the right, or are 1"
            refuse(Kind.BROADCAST_MISMATCH, "matmul", "the batches differ", self.shape, right.shape, hint=hint)
        ones = (1,) * min(self.ndim - 1, right.ndim - 1, 1)
        rows = self.reshape(*self.shape[:-1], *ones, self.shape[-1])
        split = right.ndim - min(right.ndim, 2)
        columns = right.reshape(*right.shape[:split], *ones, *right.shape[split:])
        products = rows * columns.swapaxes(-1, -min(right.ndim, 2))
        return products.sum(-1, dtype=products.dtype)

    def dot(self, other: Any) -> Self:
        """The product of vectors or matrices. NumPy and torch define it in other ways for more axes."""
        right = self._of(other)
        if max(self.ndim, right.ndim) > 2:
            hint = "x @ y for products of matrices in batches, tensor.einsum for NumPy's dot of more axes"
            refuse(Kind.UNSUPPORTED_OP, "dot", "an operand has more than two axes", self.shape, right.shape, hint=hint)
        return self.matmul(right)

    def __matmul__(self, other: Any) -> Self:
        return self.matmul(other)

    def __rmatmul__(self, other: Any) -> Self:
        return self._of(other).matmul(self)

    def mm(self, other: Any) -> Self:
        """The product of two matrices [M, K] and [K, N]."""
        return self._product("mm", 2, 2, other)

    def bmm(self, other: Any) -> Self:
        """The products of matrices [B, M, K] and [B, K, N]."""
        right = self._of(other)
        if self.shape[:1] != right.shape[:1]:
            hint = "[B, M, K] and [B, K, N]; x @ y broadcasts the batches"
            refuse(Kind.BROADCAST_MISMATCH, "bmm", "the batches differ", self.shape, right.shape, hint=hint)
        return self._product("bmm", 3, 3, right)

    def mv(self, other: Any) -> Self:
        """The product of a matrix [M, K] and a vector [K]."""
        return self._product("mv", 2, 1, other)

    def outer(self, other: Any) -> Self:
        """The products of all elements of two vectors, [M, N]. Vectors alone: NumPy flattens other tensors."""
        right = self._of(other)
        if self.ndim != 1 or right.ndim != 1:
            hint = "flatten() both, as NumPy does"
            refuse(Kind.AXIS_SIZE_MISMATCH, "outer", "an operand is no vector", self.shape, right.shape, hint=hint)
        return self.unsqueeze(1) * right

    @takes_torchs_names
    def addmm(self, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Self:
        """beta · self + alpha · (mat1 @ mat2)"""
        return self._added("addmm", self._of(mat1).mm(mat2), beta, alpha)

    @takes_torchs_names
    def baddbmm(self, batch1: Any, batch2: Any, beta: Any = 1, alpha: Any = 1) -> Self:
        """beta · self + alpha · (batch1 @ batch2)"""
        return self._added("baddbmm", self._of(batch1).bmm(batch2), beta, alpha)

    def _product(self, op: str, rows: int, columns: int, other: Any) -> Self:
        right = self._of(other)
        if self.ndim != rows or right.ndim != columns:
            message = f"operands of {rows} and {columns} axes"
            refuse(Kind.AXIS_SIZE_MISMATCH, op, message, self.shape, right.shape, hint="x @ y takes any number of axes")
        return self.matmul(right)

    def _added(self, op: str, product: Self, beta: Any, alpha: Any) -> Self:
        """beta · self + alpha · product. As in torch, beta = 0 ignores self, infinities and NaN included."""
        if broadcast(self.shape, product.shape) != product.shape:
            message = "the first operand does not broadcast to the product"
            refuse(
                Kind.BROADCAST_MISMATCH, op, message, self.shape, product.shape, hint=f"x.{op}(a, b) adds x to a @ b"
            )
        scaled = product if number(alpha, "alpha") == 1 else product * alpha
        if number(beta, "beta") == 0:
            return scaled
        return scaled + (self if beta == 1 else self * beta)
