"""Operators of complex tensors that act on the real and on the imaginary parts alike: movements, sums, choices."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from eqsat.frontends.complex_tensor import ComplexTensor, from_real
from eqsat.frontends.torch.operator_table import LOWERINGS, complex_aten
from eqsat.frontends.torch.operators import comparisons as comparisons  # registers lowerings, as do the others
from eqsat.frontends.torch.operators import creation as creation
from eqsat.frontends.torch.operators import gathers as gathers
from eqsat.frontends.torch.operators import movements as movements
from eqsat.frontends.torch.operators import pointwise as pointwise
from eqsat.frontends.torch.operators import reductions as reductions
from eqsat.frontends.torch.operators import scatters as scatters
from eqsat.tensor import Tensor, full
from ir.dtype import DType

_FIRST = (
    *("clone", "alias", "alias_copy", "detach", "detach_copy", "lift_fresh_copy", "lift_fresh", "contiguous"),
    *("view", "view_copy", "_unsafe_view", "reshape", "_reshape_alias", "permute", "permute_copy", "transpose.int"),
    *("transpose_copy.int", "t", "t_copy", "expand", "expand_copy", "squeeze", "squeeze.dim", "squeeze.dims"),
    *("squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims", "unsqueeze", "unsqueeze_copy", "slice.Tensor"),
    *("slice_copy.Tensor", "narrow_copy", "select.int", "select_copy.int", "split.Tensor", "split_copy.Tensor"),
    *("split_with_sizes", "split_with_sizes_copy", "unbind.int", "unbind_copy.int", "flip", "roll", "repeat"),
    *("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "_to_copy"),
    *("replication_pad1d", "replication_pad2d", "replication_pad3d"),
    *("tril", "triu", "diagonal", "diagonal_copy", "as_strided", "as_strided_copy", "unfold", "unfold_copy"),
    *("cat", "stack", "sum", "sum.dim_IntList", "mean", "mean.dim", "cumsum", "index_select", "gather", "take"),
    *("embedding", "index.Tensor", "_unsafe_index.Tensor", "zeros_like", "empty_like", "scalar_tensor"),
)
"""Operators that read complex numbers in their first argument alone, a tensor, a list of tensors, or a number."""

_VALUES: dict[str, Sequence[int]] = {
    **dict.fromkeys(_FIRST, (0,)),
    **dict.fromkeys(("zeros", "empty.memory_format", "new_zeros", "new_empty", "empty_strided"), ()),
    **dict.fromkeys(("copy", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"), (0, 1)),
    **dict.fromkeys(("full", "full_like", "fill.Scalar", "fill.Tensor"), (1,)),
    **dict.fromkeys(("new_full", "constant_pad_nd", "masked_fill.Scalar", "masked_fill.Tensor"), (0, 2)),
    **dict.fromkeys(("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"), (1, 2)),
    **dict.fromkeys(("index_put", "_unsafe_index_put"), (0, 2)),
    **dict.fromkeys(("scatter.src", "scatter.value", "scatter_add", "index_add", "index_copy"), (0, 3)),
}
"""The places of the arguments with complex numbers by operator. Other arguments, such as axes, an index or a mask, are
the same for both parts. Where a result is real, it is made of the real parts."""


def _register(name: str, places: Sequence[int]) -> None:
    lowering = LOWERINGS[name if "." in name else f"{name}.default"]

    def lower_parts(*arguments: Any, is_complex: bool, **keywords: Any) -> Any:
        def part(take: Callable[[Any], Any]) -> Any:
            given = [take(value) if place in places else value for place, value in enumerate(arguments)]
            return lowering(*given, **keywords)

        return _join(part(_real), part(_imag)) if is_complex else part(_real)

    # `lower_node` passes the keywords that a signature names
    given = inspect.signature(lowering).parameters.values()
    is_complex = inspect.Parameter("is_complex", inspect.Parameter.KEYWORD_ONLY)
    lower_parts.__signature__ = inspect.Signature([*given, is_complex])  # type: ignore[attr-defined]
    complex_aten(name)(lower_parts)


def _real(value: Any) -> Any:
    """The real parts of a tensor or of a number, or of each in a list."""
    if isinstance(value, tuple | list):
        return [_real(item) for item in value]
    return value if isinstance(value, Tensor) else value.real


def _imag(value: Any) -> Any:
    """The imaginary parts of a tensor or of a number, or of each in a list; zeros for real ones."""
    if isinstance(value, tuple | list):
        return [_imag(item) for item in value]
    return from_real(value).imag if isinstance(value, Tensor) else value.imag


def _join(real: Any, imag: Any) -> Any:
    """The complex tensor of two parts, or of each pair of parts in two lists."""
    if isinstance(real, tuple | list):
        return [_join(*parts) for parts in zip(real, imag, strict=True)]
    return ComplexTensor(real, imag)


for _name, _places in _VALUES.items():
    _register(_name, _places)


@complex_aten("ones", "new_ones", "ones_like")
def _ones(*arguments: Any, dtype: DType | None = None, is_complex: bool, result: DType) -> ComplexTensor | Tensor:
    *_, like = arguments
    shape = tuple(like if isinstance(like, tuple | list) else like.shape)
    ones = full(shape, 1, result)
    return from_real(ones) if is_complex else ones
