"""Methods of lazy tensors that reduce axes: sums, means, extrema, norms; and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self, SupportsIndex, Unpack, overload

from eqsat.lazy import promotion
from eqsat.lazy.argument_checks import STAGE, Axis, axes_in, axis_in, flag, number
from eqsat.lazy.keyword_names import Dim, DimAndKeep, takes_torchs_names
from eqsat.lazy.movements import Movements
from eqsat.lazy.named_operators import NamedOperators
from eqsat.lazy.two_meanings import Library, two_meanings
from ir.diagnostics import Kind, fail
from ir.dtype import DType, DTypeLike, i32, i64
from ir.dtype import dtype as as_dtype


class Extremum(NamedTuple):
    """torch's result of `x.max(dim=1)`: the extrema along an axis, and their positions, i64."""

    values: Any
    indices: Any


def _pair(name: str) -> Any:
    def in_torch(x: Any, dim: SupportsIndex, keepdim: bool = False) -> Extremum:
        values = x._reduce(name.upper(), dim, keepdim, x.dtype)
        return Extremum(values, x._extremum_position(name, dim, keepdim))

    return in_torch


def _without_axis(x: Any, axis: Any = None, keepdims: Any = False) -> Library | None:
    return "NumPy" if axis is None or isinstance(axis, list | tuple) else None


def _extremum(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    meanings = f"{name}(1) gives the {name}ima along axis 1 in NumPy, and a pair of values and positions in torch"
    ways = f"{name}(axis=1), or {name}(dim=1) for the pair; {name}imum(other) compares two tensors"
    return two_meanings(_pair(name), _without_axis, meanings, ways)


def _torchs_spread(root: bool) -> Any:
    def in_torch(
        x: Any, dim: Axis = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
    ) -> Any:
        """The divisor is n − 1, if no other is stated."""
        divided = float(flag(unbiased, "unbiased")) if correction is None else correction
        return x._spread(dim, keepdim, divided, root)

    return in_torch


def _with_correction(x: Any, *_: Any, correction: float | None = None) -> Library | None:
    return None if correction is None else "NumPy"


def _spread_of(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    meanings = f"{name}() divides by n in NumPy, and by n − 1 in torch"
    ways = f"{name}(correction=0) divides by n, {name}(correction=1) by n − 1; axis= has NumPy's divisor, dim= torch's"
    return two_meanings(_torchs_spread(name == "std"), _with_correction, meanings, ways)


class Reductions(NamedOperators, Movements):
    """Base class of `Tensor`."""

    __slots__ = ()

    @takes_torchs_names
    def sum(
        self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None, **torch: Unpack[DimAndKeep]
    ) -> Self:
        """The sum in `dtype`. By default, the sum of bools and of integers that i64 holds is in i64, and the sum of
        floats and of u64 is in their own dtype. fp16 and bf16 are added in fp32, then rounded."""
        return self._reduce_in_dtype("SUM", axis, keepdims, dtype)

    @takes_torchs_names
    def prod(
        self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None, **torch: Unpack[DimAndKeep]
    ) -> Self:
        """The product; dtypes as in `sum`."""
        return self._reduce_in_dtype("PROD", axis, keepdims, dtype)

    @overload
    def max(self, axis: Axis = None, keepdims: bool = False) -> Self: ...

    @overload
    def max(self, *, dim: SupportsIndex, keepdim: bool = False) -> Extremum: ...

    @overload
    def max(self, axis: SupportsIndex, *, keepdim: bool) -> Extremum: ...

    @_extremum("max")
    def max(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """The greatest element. `dim=` gives torch's pair of values and positions."""
        return self._reduce("MAX", axis, keepdims, self.dtype)

    @overload
    def min(self, axis: Axis = None, keepdims: bool = False) -> Self: ...

    @overload
    def min(self, *, dim: SupportsIndex, keepdim: bool = False) -> Extremum: ...

    @overload
    def min(self, axis: SupportsIndex, *, keepdim: bool) -> Extremum: ...

    @_extremum("min")
    def min(self, axis: Axis = None, keepdims: bool = False) -> Self:
        """The least element. `dim=` gives torch's pair of values and positions."""
        return self._reduce("MIN", axis, keepdims, self.dtype)

    @takes_torchs_names
    def amax(self, axis: Axis = None, keepdims: bool = False, **torch: Unpack[DimAndKeep]) -> Self:
        """The greatest element."""
        return self._reduce("MAX", axis, keepdims, self.dtype)

    @takes_torchs_names
    def amin(self, axis: Axis = None, keepdims: bool = False, **torch: Unpack[DimAndKeep]) -> Self:
        """The least element."""
        return self._reduce("MIN", axis, keepdims, self.dtype)

    @takes_torchs_names
    def any(self, axis: Axis = None, keepdims: bool = False, **torch: Unpack[DimAndKeep]) -> Self:
        """Whether an element is not 0, as a bool."""
        return self.bool()._reduce("MAX", axis, keepdims, as_dtype("bool"))

    @takes_torchs_names
    def all(self, axis: Axis = None, keepdims: bool = False, **torch: Unpack[DimAndKeep]) -> Self:
        """Whether no element is 0, as a bool."""
        return self.bool()._reduce("MIN", axis, keepdims, as_dtype("bool"))

    @takes_torchs_names
    def count_nonzero(self, axis: Axis = None, keepdims: bool = False, **torch: Unpack[Dim]) -> Self:
        """How many elements are not 0, i64."""
        return self.bool().sum(axis, keepdims)

    @takes_torchs_names
    def argmax(self, axis: int | None = None, keepdims: bool = False, **torch: Unpack[DimAndKeep]) -> Self:
        """The first position of the maximum along `axis` (None: in the flattened tensor), i64. NaN is the maximum."""
        return self._extremum_position("max", axis, keepdims)

    @takes_torchs_names
    def argmin(self, axis: int | None = None, keepdims: bool = False, **torch: Unpack[DimAndKeep]) -> Self:
        """The first position of the minimum, as in `argmax`. NaN is the minimum."""
        return self._extremum_position("min", axis, keepdims)

    @takes_torchs_names
    def mean(
        self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None, **torch: Unpack[DimAndKeep]
    ) -> Self:
        """fp16 and bf16 are summed and divided in fp32, then rounded; integers and bool give fp64."""
        floats = self.cast(promotion.floating(self.dtype) if dtype is None else dtype)
        wide = floats.cast(floats.dtype.accumulator)
        count = math.prod(self.shape[position] for position in axes_in(axis, self.shape))
        return (wide.sum(axis, keepdims) * (1.0 / count if count else math.nan)).cast(floats.dtype)

    @overload
    def var(
        self, axis: Axis = None, keepdims: bool = False, *, ddof: float = 0, correction: float | None = None
    ) -> Self: ...

    @overload
    def var(
        self, *, dim: Axis = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
    ) -> Self: ...

    @_spread_of("var")
    def var(self, axis: Axis = None, keepdims: bool = False, ddof: float = 0, correction: float | None = None) -> Self:
        """Σ (x − mean)² / (n − correction). NumPy calls the correction `ddof` and takes 0, torch takes 1: the keyword
        `axis=` or `dim=` says which is meant, if no correction is stated."""
        return self._spread(axis, keepdims, ddof if correction is None else correction)

    @overload
    def std(
        self, axis: Axis = None, keepdims: bool = False, *, ddof: float = 0, correction: float | None = None
    ) -> Self: ...

    @overload
    def std(
        self, *, dim: Axis = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
    ) -> Self: ...

    @_spread_of("std")
    def std(self, axis: Axis = None, keepdims: bool = False, ddof: float = 0, correction: float | None = None) -> Self:
        """The square root of `var`."""
        return self._spread(axis, keepdims, ddof if correction is None else correction, root=True)

    @takes_torchs_names
    def logsumexp(self, axis: Axis = None, keepdims: bool = False, **torch: Unpack[DimAndKeep]) -> Self:
        """log Σ exp(x), without overflow; computed in fp32 for fp16 and bf16."""
        floats = self.cast(promotion.floating(self.dtype))
        wide = floats.cast(floats.dtype.accumulator)
        axes = axes_in(axis, self.shape)
        if not all(self.shape[place] for place in axes):
            return wide.exp().sum(axes, keepdims).log().cast(floats.dtype)
        greatest = wide.amax(axes, keepdims=True)
        shift = self._choose(greatest.isinf(), 0.0, greatest)
        total = (wide - shift).exp().sum(axes, keepdims=True).log() + shift
        return (total if flag(keepdims, "keepdims") else total.squeeze(axes)).cast(floats.dtype)

    @takes_torchs_names
    def softmax(self, axis: Axis = -1, dtype: DTypeLike | None = None, **torch: Unpack[Dim]) -> Self:
        """exp(x − max x) / Σ exp(x − max x) along `axis`; fp16 and bf16 are computed in fp32. dtype: of x, before."""
        floats = self.cast(promotion.floating(self.dtype) if dtype is None else dtype)
        wide = floats.cast(floats.dtype.accumulator)
        raised = (wide - wide.amax(axis, keepdims=True)).exp()
        return (raised / raised.sum(axis, keepdims=True)).cast(floats.dtype)

    @takes_torchs_names
    def log_softmax(self, axis: Axis = -1, dtype: DTypeLike | None = None, **torch: Unpack[Dim]) -> Self:
        """x − max x − log Σ exp(x − max x) along `axis`; otherwise as `softmax`."""
        floats = self.cast(promotion.floating(self.dtype) if dtype is None else dtype)
        wide = floats.cast(floats.dtype.accumulator)
        centred = wide - wide.amax(axis, keepdims=True)
        return (centred - centred.exp().sum(axis, keepdims=True).log()).cast(floats.dtype)

    @takes_torchs_names
    def norm(self, p: Any = 2, axis: Axis = None, keepdims: bool = False, **torch: Unpack[DimAndKeep]) -> Self:
        """torch's norm of vectors: (Σ |x|^p)^(1/p) over the axes, None: over all elements. p: a number, ±infinity, or
        "fro", which is 2. Computed in fp32 for fp16 and bf16."""
        if isinstance(p, str) and p != "fro":
            hint = 'a number, math.inf or "fro"'
            fail(Kind.UNSUPPORTED_OP, STAGE, f"the norm {p!r} of matrices is not supported", op="norm", hint=hint)
        floats = self.cast(promotion.floating(self.dtype))
        wide = floats.cast(floats.dtype.accumulator).abs()
        order = 2.0 if isinstance(p, str) else number(p, "the order of a norm")
        return wide._norm(order, axes_in(axis, self.shape), keepdims).cast(floats.dtype)

    @takes_torchs_names
    def cumsum(self, axis: int | None = None, dtype: DTypeLike | None = None, **torch: Unpack[Dim]) -> Self:
        """Running sums along `axis` (None: of the flattened tensor); dtypes as in `sum`."""
        return self._scan("CUMSUM", axis, dtype)

    @takes_torchs_names
    def cumprod(self, axis: int | None = None, dtype: DTypeLike | None = None, **torch: Unpack[Dim]) -> Self:
        """Running products; otherwise as `cumsum`."""
        return self._scan("CUMPROD", axis, dtype)

    def _reduce_in_dtype(self, op: str, axis: Axis, keepdims: bool, to: DTypeLike | None) -> Self:
        wanted = as_dtype(to) if to is not None else promotion.summing(self.dtype)
        if wanted.is_bool:  # in bool, a sum is any(), a product is all()
            return self.cast(wanted)._reduce("MAX" if op == "SUM" else "MIN", axis, keepdims, wanted)
        source = self if wanted.is_float == self.dtype.is_float else self.cast(wanted)
        return source._reduce(op, axis, keepdims, wanted.accumulator).cast(wanted)

    def _scan(self, uop: str, axis: int | None, to: DTypeLike | None) -> Self:
        if axis is None:
            return self.reshape(-1 if self.size else 0)._scan(uop, 0, to)
        wanted = as_dtype(to) if to is not None else promotion.summing(self.dtype)
        source = self if wanted.is_float == self.dtype.is_float else self.cast(wanted)
        total = self._make(uop, [source], {"axis": axis_in(axis, self.shape), "dtype": wanted.accumulator.name})
        return total.cast(wanted)

    def _reduce(self, op: str, axis: Axis, keepdims: bool, to: DType) -> Self:
        axes, keep = axes_in(axis, self.shape), flag(keepdims, "keepdims")
        if not axes:
            return self.cast(to)
        result = self._make("REDUCE", [self], {"op": op, "axes": axes, "dtype": to.name})
        kept = [1 if position in axes else size for position, size in enumerate(self.shape)]
        return result.reshape(kept) if keep else result

    def _spread(self, axis: Axis, keepdims: bool, correction: float, root: bool = False) -> Self:
        """Σ (x − mean)² / (n − correction), or its root; fp16 and bf16 are computed in fp32."""
        floats = self.cast(promotion.floating(self.dtype))
        wide = floats.cast(floats.dtype.accumulator)
        count = math.prod(self.shape[position] for position in axes_in(axis, self.shape))
        left = max(count - number(correction, "correction"), 0)
        centred = wide - wide.mean(axis, keepdims=True)
        spread = (centred * centred).sum(axis, keepdims) * (1.0 / left if left else math.inf)
        return (spread.sqrt() if root else spread).cast(floats.dtype)

    def _norm(self, order: float, axes: tuple[int, ...], keepdims: bool) -> Self:
        """(Σ x^order)^(1 / order) of numbers x ≥ 0; the greatest or least for infinite orders, the count of others than
        0 for order 0."""
        if abs(order) == math.inf:
            if not self.size:
                return self.sum(axes, keepdims)
            return self.amax(axes, keepdims) if order > 0 else self.amin(axes, keepdims)
        if order == 0:
            return self.ne(0).cast(self.dtype).sum(axes, keepdims)
        if order == 1:
            return self.sum(axes, keepdims)
        if order == 2:
            return (self * self).sum(axes, keepdims).sqrt()
        return (self ** float(order)).sum(axes, keepdims) ** (1 / order)

    def _extremum_position(self, extremum: str, axis: Any, keepdims: bool = False, last: bool = False) -> Self:
        """The first position (`last`: the last one) of the extremum along `axis` (None: in the flattened tensor), i64.
        The first NaN comes before any number, as in NumPy.

        best = max x over the axis
        y    = min over the axis of (i where x[i] is best or NaN, else a position beyond all)

        Raises:
            EqsatError: MalformedGraph if the axis has no elements.
        """
        if axis is None:
            position = self.flatten()._extremum_position(extremum, 0, False, last)
            return position.reshape((1,) * self.ndim) if flag(keepdims, "keepdims") else position
        place = axis_in(axis, self.shape)
        size = self.shape[place]
        if not size:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"no element along axis {axis}", op=f"arg{extremum}", shape=self.shape)
        best = self._reduce(extremum.upper(), place, True, self.dtype)
        is_best = (self == best) | (self != self) if self.dtype.is_float else self == best
        places = self._positions(self.shape, place, i32 if size <= 2**31 - 1 else i64)
        if last:
            return self._choose(is_best, places, -1).amax(place, keepdims).cast(i64)
        return self._choose(is_best, places, size).amin(place, keepdims).cast(i64)
