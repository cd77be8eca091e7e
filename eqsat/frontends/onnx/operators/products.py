"""Products of matrices and tensors."""

from __future__ import annotations

from eqsat import tensor
from eqsat.frontends.onnx.operands import malformed, refuse
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
    if transBatchA or transBatchB:
        refuse("transBatchA or transBatchB")
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
    return einsum(equation, operands)


def einsum(equation: str, operands: tuple[Tensor, ...]) -> Tensor:
    """NumPy's einsum: a product of all operands over all letters, and a sum over the letters that the result lacks."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        malformed(f"the equation {equation!r} has {len(terms)} operands, the node {len(operands)}")
    sizes: dict[str, int] = {}
    labelled = [_label(term, operand, sizes) for term, operand in zip(terms, operands, strict=True)]
    dots = tuple(letter for letter in sizes if not letter.isalpha())
    if arrow:
        result = _letters(right, dots)
    else:
        counts = "".join(terms)
        result = (*dots, *sorted(letter for letter in sizes if letter.isalpha() and counts.count(letter) == 1))
    unknown = [letter for letter in result if letter not in sizes]
    if unknown or len(set(result)) < len(result):
        malformed(f"the result of the equation {equation!r} has a letter that no operand has, or one letter twice")
    order = (*result, *(letter for letter in sizes if letter not in result))
    total: Tensor | None = None
    for letters, operand in labelled:
        shape = [operand.shape[letters.index(letter)] if letter in letters else 1 for letter in order]
        aligned = operand.permute([letters.index(letter) for letter in order if letter in letters]).reshape(shape)
        total = aligned if total is None else total * aligned
    assert total is not None
    over = tuple(range(len(result), len(order)))
    full = total.expand([sizes[letter] for letter in order])
    return full.sum(over, dtype=full.dtype) if over else full


def _label(term: str, operand: Tensor, sizes: dict[str, int]) -> tuple[tuple[str, ...], Tensor]:
    """The letters of an operand's axes; an axis of `...` is a number from the right. A letter that stands twice takes
    the diagonal."""
    rank = operand.ndim - len(term.replace("...", ""))
    dots = tuple(str(place) for place in reversed(range(rank))) if "..." in term else ()
    letters = list(_letters(term, dots))
    if len(letters) != operand.ndim:
        malformed(f"the operand {term!r} of the equation has {len(letters)} axes, the tensor {operand.ndim}")
    place = 0
    while place < len(letters):
        first = letters.index(letters[place])
        if first < place:
            operand, letters = _diagonal(operand, first, place), [*letters[:place], *letters[place + 1 :]]
        else:
            place += 1
    for letter, size in zip(letters, operand.shape, strict=True):
        if sizes.setdefault(letter, size) == 1:
            sizes[letter] = size
        elif size not in (1, sizes[letter]):
            malformed(f"the letter {letter!r} of the equation stands for {sizes[letter]} and for {size} elements")
    return tuple(letters), operand


def _letters(term: str, dots: tuple[str, ...]) -> tuple[str, ...]:
    before, ellipsis, after = term.partition("...")
    return (*before, *(dots if ellipsis else ()), *after)


def _diagonal(x: Tensor, first: int, second: int) -> Tensor:
    """The elements whose positions along both axes agree, along the first one."""
    size = x.shape[first]
    same = tensor.iota(x.shape, first, "i64") == tensor.iota(x.shape, second, "i64")
    picked = tensor.where(same, x, 0).sum(second, dtype=x.dtype)
    assert picked.shape[first] == size
    return picked


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
