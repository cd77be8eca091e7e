"""Streams as the reductions that they stand for, where all of a row's terms are at hand at once.

    A[i] = Σₖ fn(s[i, k] - max s[i, :])·v[i, k]        M[i] = maxₖ s[i, k]
                                                       E[i, k] = fn(s[i, k] - M[i])
                                                       A[i] = Σₖ E[i, k]·v[i, k]

What a row's threads keep of it in registers or in shared memory is loaded once for both passes, and streams of one
score share its maximum and its exponentials. All is computed in the dtype in which the stream is summed.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from codegen.plan.stream_view import summed_in
from ir.index.map import AxisMap, axis_map, identity, project, support
from ir.region.region import Definition, Number, Op, Operand, Region


def without_streams(region: Region) -> Region:
    """The region with reductions in place of its streams; inputs, outputs and values of other names are the same."""
    maker = _Maker(region)
    body = [made for let in region.body for made in maker.made(let)]
    return msgspec.structs.replace(region, body=tuple(body))


class _Maker:
    """`known`: by what they compute, the maxima, the exponentials and the numbers that there are as values."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.dtypes = {let.name: let.op.dtype for let in region.body}
        self.dtypes |= {each.name: each.memref.dtype for each in region.buffers}
        self.known: dict[Hashable, str] = {}

    def made(self, let: Definition) -> list[Definition]:
        """What stands in the place of a value."""
        if let.op.kind == "stream":
            return self._sum(let.name, let.op)
        if (let.op.kind, let.op.fn) == ("reduce", "max"):
            self.known.setdefault(("max", let.op), let.name)
        return [let]

    def _sum(self, name: str, op: Op) -> list[Definition]:
        if 0 in op.domain:  # a sum of nothing, whatever the terms are
            return [Definition(name, Op("reduce", "sum", op.dtype, op.domain, op.inputs[:1], reduced=op.reduced))]
        kind, found = summed_in(self.region, op), list[Definition]()
        power, own = self._power(name, op, kind, found)
        term = Operand(power, _picked(op.domain, own))
        value = op.inputs[1]
        if not isinstance(value, Number) or value.number != 1:
            factor = self._widened(f"{name}_value", value, op.domain, kind, found)
            product = Op("ewise", "mul", kind, op.domain, (term, factor))
            term = _whole(self._let(f"{name}_term", product, found), op.domain)
        found.append(Definition(name, Op("reduce", "sum", op.dtype, op.domain, (term,), reduced=op.reduced)))
        return found

    def _power(self, name: str, op: Op, kind: str, found: list[Definition]) -> tuple[str, tuple[int, ...]]:
        """fn(score - max), and the axes of the stream's domain that it has."""
        score, rank = op.inputs[0], len(op.shape)
        used = support(score.map) if isinstance(score, Operand) else frozenset()
        own = tuple(axis for axis in range(len(op.domain)) if axis >= rank or axis in used)
        sizes = tuple(op.domain[axis] for axis in own)
        read = self._over(own, f"{name}_number", score, sizes, found)
        key = (op.fn, kind, op.reduced, read)
        if key not in self.known:
            greatest = self._greatest(name, Op("reduce", "max", kind, sizes, (read,), reduced=op.reduced), found)
            at_row = Operand(greatest, _picked(sizes, tuple(range(len(sizes) - op.reduced))))
            wide = [self._widened(f"{name}_{what}", each, sizes, kind, found)
                    for what, each in (("score", read), ("greatest", at_row))]  # fmt: skip
            apart = self._let(f"{name}_apart", Op("ewise", "sub", kind, sizes, tuple(wide)), found)
            power = Op("unary", op.fn, kind, sizes, (_whole(apart, sizes),))
            self.known[key] = self._let(f"{name}_power", power, found)
        return self.known[key], own

    def _over(
        self, own: tuple[int, ...], name: str, value: Operand | Number, sizes: tuple[int, ...], found: list[Definition]
    ) -> Operand:
        """An operand over the axes `own` alone, of `sizes`, with which it moves; a number is a value there."""
        if isinstance(value, Number):
            op = Op("copy", "copy", value.dtype, sizes, (value,))
            if op not in self.known:
                self.known[op] = self._let(name, op, found)
            return _whole(self.known[op], sizes)
        view = project(value.map, own)
        if view is None:
            raise ValueError(f"{value.map} moves along other axes than {own}")
        return Operand(value.value, view)

    def _greatest(self, name: str, op: Op, found: list[Definition]) -> str:
        """The maximum of the scores, in a dtype that holds it exactly: one that the region has may be narrower."""
        dtypes = dict.fromkeys((op.dtype, self._dtype(op.inputs[0])))
        for each in (msgspec.structs.replace(op, dtype=dtype) for dtype in dtypes):
            if ("max", each) in self.known:
                return self.known["max", each]
        self.known["max", op] = self._let(f"{name}_max", op, found)
        return self.known["max", op]

    def _widened(
        self, name: str, value: Operand | Number, domain: tuple[int, ...], kind: str, found: list[Definition]
    ) -> Operand | Number:
        """A value as `kind`, over the domain."""
        if isinstance(value, Number):
            return Number(value.number, kind)
        if self._dtype(value) == kind:
            return value
        return _whole(self._let(name, Op("cast", "cast", kind, domain, (value,)), found), domain)

    def _dtype(self, value: Operand | Number) -> str:
        return value.dtype if isinstance(value, Number) else self.dtypes[value.value]

    def _let(self, name: str, op: Op, found: list[Definition]) -> str:
        while name in self.dtypes:
            name += "_"
        self.dtypes[name] = op.dtype
        found.append(Definition(name, op))
        return name


def _whole(value: str, sizes: tuple[int, ...]) -> Operand:
    return Operand(value, _picked(sizes, tuple(range(len(sizes)))))


def _picked(sizes: tuple[int, ...], axes: tuple[int, ...]) -> AxisMap:
    """The coordinates along some axes."""
    exprs = identity(sizes).exprs
    return axis_map(sizes, [exprs[each] for each in axes])
