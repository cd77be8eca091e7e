"""Writes uops that compute with the lengths of a call: numbers, positions, and whether these are within a length."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ir.dtype import DTYPES, DType
from ir.tiny.graph import Ref
from ir.tiny.node import Imm
from ir.tiny.size_expr import SizeExpr, Sizes
from ir.tiny.uop_writer import UOpWriter

LENGTH = DTYPES["i32"]
"""The dtype of lengths, and of the positions that are compared with them."""


class LengthUOps(UOpWriter):
    """A writer of uops that knows an argument for the length of each symbol. Equal masks are written once.
    largest: the greatest lengths by symbol."""

    def __init__(self, taken: Collection[Ref], largest: Sizes) -> None:
        super().__init__(taken)
        self._largest = largest
        self._lengths: dict[str, Ref] = {}
        self._written: dict[object, Ref] = {}

    def add_length(self, symbol: str, name: str) -> None:
        """Adds an argument `name` for the size of a symbol."""
        self._lengths[symbol] = self.add("INPUT", tensor_id=name, dtype=LENGTH.name, shape=())

    def once(self, key: object, write: Callable[[], Ref]) -> Ref:
        """The uop of a key, written at its first use."""
        if key not in self._written:
            self._written[key] = write()
        return self._written[key]

    def scalar(self, expr: SizeExpr, element: DType) -> Ref:
        """A number that depends on sizes, at the lengths of a call, as a scalar."""
        return self.once(("scalar", expr, element.name), lambda: self._write_scalar(expr, element))

    def combined(self, uop: str, vector: Ref, size: int | SizeExpr) -> Ref:
        """A vector of the dtype of lengths, combined with a size by a binary uop."""
        if isinstance(size, SizeExpr) and not size.is_constant:
            return self.add(uop, vector, self.filled(self.scalar(size, LENGTH), self.shape(vector)))
        return self.add(uop, vector, Imm(size.const if isinstance(size, SizeExpr) else size))

    def iota(self, size: int) -> Ref:
        """The positions of an axis."""
        return self.once(("iota", size), lambda: self.add("IOTA", shape=(size,), axis=0, dtype=LENGTH.name))

    def within(self, shape: Sequence[int], axis: int, first: SizeExpr, end: SizeExpr) -> Ref:
        """Whether a position of an axis is `first` or behind, and before `end`; for all positions of a shape."""

        def inside() -> Ref:
            position = self.iota(shape[axis])
            before = self.combined("CMPLT", position, end)
            return before if first == SizeExpr(0) else self.add("AND", before, self.combined("CMPGE", position, first))

        vector = self.once(("within", shape[axis], first, end), inside)
        return self.once(("spread", vector, axis, tuple(shape)), lambda: self.spread(vector, axis, shape))

    def taken(self, at: Ref, axis: int, index: Ref) -> Ref:
        """The elements at the positions `index` of one axis; a position outside reads the nearest end."""
        shape = list(self.shape(at))
        shape[axis] = self.shape(index)[0]
        return self.add("GATHER", at, self.spread(index, axis, shape), axis=axis)

    def rebased(self, number: Ref, old: Sequence[int | SizeExpr], new: Sequence[int | SizeExpr]) -> Ref:
        """The numbers whose digits to the bases `new` are those of `number` to the bases `old`; outermost first."""
        digits: list[Ref] = []
        for base in reversed(old[1:]):
            digits.append(self.combined("MOD", number, base))
            number = self.combined("IDIV", number, base)
        for digit, base in zip(reversed(digits), new[1:], strict=True):
            number = self.add("ADD", self.combined("MUL", number, base), digit)
        return number

    def _write_scalar(self, expr: SizeExpr, element: DType) -> Ref:
        """Sums in i64 where i32 may overflow."""
        greatest = SizeExpr(abs(expr.const), tuple((product, abs(factor)) for product, factor in expr.terms))
        exact = LENGTH if greatest.at(self._largest) <= LENGTH.highest else DTYPES["i64"]
        total: Ref | None = None
        for product, factor in expr.terms:
            term, *others = (self._cast(self._lengths[symbol], exact) for symbol in product)
            for other in others:
                term = self.add("MUL", term, other)
            term = term if factor == 1 else self.add("MUL", term, Imm(factor))
            total = term if total is None else self.add("ADD", total, term)
        if total is None:
            return self.add("CAST", Imm(expr.const), to=element.name)
        whole = self.add("ADD", total, Imm(expr.const)) if expr.const else total
        if not expr.inverted:
            return self._cast(whole, element)
        return self._cast(self.add("RECIP", self._cast(whole, DTYPES["fp64"])), element)

    def _cast(self, ref: Ref, element: DType) -> Ref:
        return ref if self.types[ref].dtype == element else self.add("CAST", ref, to=element.name)
