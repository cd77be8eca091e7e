"""Replaces streams by the reductions that they stand for, for templates that have all terms of a row at once.

    A[i] = Σₖ fn(s[i, k] - max s[i, :])·v[i, k]        M[i] = maxₖ s[i, k]
                                                       E[i, k] = fn(s[i, k] - M[i])
                                                       A[i] = Σₖ E[i, k]·v[i, k]

Threads that keep a row in registers or in shared memory load it once for both passes, and streams of equal scores share
the maximum and the exponentials. Everything is computed in the dtype in which the stream sums.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from codegen.plan.stream_view import stream_dtype
from ir.index.map import AxisMap, axis_map, identity, project, support
from ir.names import new_name
from ir.region.region import Definition, Number, Op, Operand, Region


def without_streams(region: Region) -> Region:
    """The region with reductions in place of its streams. Inputs, outputs and all other values keep their names."""
    replacer = _StreamReplacer(region)
    body = [definition for let in region.body for definition in replacer.replacement(let)]
    return msgspec.structs.replace(region, body=tuple(body))


class _StreamReplacer:
    """`known`: what a maximum, an exponential or a number computes → the name of its value."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.dtypes = {let.name: let.op.dtype for let in region.body}
        self.dtypes |= {buffer.name: buffer.memref.dtype for buffer in region.buffers}
        self.known: dict[Hashable, str] = {}

    def replacement(self, let: Definition) -> list[Definition]:
        """The definitions that replace the definition of a value."""
        if let.op.kind == "stream":
            return self._sum(let.name, let.op)
        if (let.op.kind, let.op.fn) == ("reduce", "max"):
            self.known.setdefault(("max", let.op), let.name)
        return [let]

    def _sum(self, name: str, op: Op) -> list[Definition]:
        if 0 in op.domain:  # a sum of nothing, whatever the terms are
            return [Definition(name, Op("reduce", "sum", op.dtype, op.domain, op.inputs[:1], reduced=op.reduced))]
        kind, lets = stream_dtype(self.region, op), list[Definition]()
        power, own = self._power(name, op, kind, lets)
        term = Operand(power, _along(op.domain, own))
        value = op.inputs[1]
        if not isinstance(value, Number) or value.number != 1:
            factor = self._widen(f"{name}_value", value, op.domain, kind, lets)
            product = Op("ewise", "mul", kind, op.domain, (term, factor))
            term = _whole(self._let(f"{name}_term", product, lets), op.domain)
        lets.append(Definition(name, Op("reduce", "sum", op.dtype, op.domain, (term,), reduced=op.reduced)))
        return lets

    def _power(self, name: str, op: Op, kind: str, lets: list[Definition]) -> tuple[str, tuple[int, ...]]:
        """The name of fn(score - max), and the axes of the stream's domain over which it runs."""
        score, rank = op.inputs[0], len(op.shape)
        used = support(score.map) if isinstance(score, Operand) else frozenset()
        own = tuple(axis for axis in range(len(op.domain)) if axis >= rank or axis in used)
        sizes = tuple(op.domain[axis] for axis in own)
        read = self._over_axes(own, f"{name}_number", score, sizes, lets)
        key = (op.fn, kind, op.reduced, read)
        if key not in self.known:
            greatest = self._greatest(name, Op("reduce", "max", kind, sizes, (read,), reduced=op.reduced), lets)
            at_row = Operand(greatest, _along(sizes, tuple(range(len(sizes) - op.reduced))))
            wide = [self._widen(f"{name}_{part}", operand, sizes, kind, lets)
                    for part, operand in (("score", read), ("greatest", at_row))]  # fmt: skip
            apart = self._let(f"{name}_apart", Op("ewise", "sub", kind, sizes, tuple(wide)), lets)
            power = Op("unary", op.fn, kind, sizes, (_whole(apart, sizes),))
            self.known[key] = self._let(f"{name}_power", power, lets)
        return self.known[key], own

    def _over_axes(
        self, own: tuple[int, ...], name: str, value: Operand | Number, sizes: tuple[int, ...], lets: list[Definition]
    ) -> Operand:
        """The operand over the axes `own` alone, of `sizes`: it moves along no other. A number becomes a value."""
        if isinstance(value, Number):
            op = Op("copy", "copy", value.dtype, sizes, (value,))
            if op not in self.known:
                self.known[op] = self._let(name, op, lets)
            return _whole(self.known[op], sizes)
        view = project(value.map, own)
        if view is None:
            raise ValueError(f"{value.map} moves along other axes than {own}")
        return Operand(value.value, view)

    def _greatest(self, name: str, op: Op, lets: list[Definition]) -> str:
        """The name of the maximum of the scores. The region's own maximum may be narrower, if its dtype is exact."""
        dtypes = dict.fromkeys((op.dtype, self._dtype(op.inputs[0])))
        for maximum in (msgspec.structs.replace(op, dtype=dtype) for dtype in dtypes):
            if ("max", maximum) in self.known:
                return self.known["max", maximum]
        self.known["max", op] = self._let(f"{name}_max", op, lets)
        return self.known["max", op]

    def _widen(
        self, name: str, value: Operand | Number, domain: tuple[int, ...], kind: str, lets: list[Definition]
    ) -> Operand | Number:
        """A value, cast to `kind`, over the domain."""
        if isinstance(value, Number):
            return Number(value.number, kind)
        if self._dtype(value) == kind:
            return value
        return _whole(self._let(name, Op("cast", "cast", kind, domain, (value,)), lets), domain)

    def _dtype(self, value: Operand | Number) -> str:
        return value.dtype if isinstance(value, Number) else self.dtypes[value.value]

    def _let(self, name: str, op: Op, lets: list[Definition]) -> str:
        name = new_name(name, self.dtypes)
        self.dtypes[name] = op.dtype
        lets.append(Definition(name, op))
        return name


def _whole(value: str, sizes: tuple[int, ...]) -> Operand:
    return Operand(value, _along(sizes, tuple(range(len(sizes)))))


def _along(sizes: tuple[int, ...], axes: tuple[int, ...]) -> AxisMap:
    """The map that picks some axes."""
    exprs = identity(sizes).exprs
    return axis_map(sizes, [exprs[axis] for axis in axes])
