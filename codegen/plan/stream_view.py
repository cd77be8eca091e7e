"""Streams of one score as their template sees them: two products with a tile of scores between.

    scores   S[batch, rows, terms] = Σ_depth queries·keys      lanes along the terms; absent where scores are read
    weights  P = fn(S - running maximum)                       in the tile
    values   A[batch, rows, columns] += P·V[batch, terms, columns]   lanes along the columns, once per such stream

Both products number the loops in the same way (`ir.poly.core.StreamRoles`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from codegen.plan.contraction_view import Contraction
from codegen.plan.stream_digits import StreamDigits, stream_digits
from codegen.poly.contraction_roles import buffer_reads
from codegen.poly.value_sites import ACCUMULATORS
from ir.dtype import dtype, promote
from ir.index.map import compose, identity, lift, support
from ir.poly.core import PolyCore, Roles, Site, StreamRoles
from ir.region.region import Number, Op, Operand, Region, behind


class StreamView(msgspec.Struct, frozen=True, cache_hash=True):
    """The streams that the template runs in one kernel.

    fn, kind           the function of the exponential; the dtype of scores, weights and sums
    lead               the first stream, as a product
    scores             the product of queries and keys; None where scores are computed from memory alone
    products           the streams whose values have columns, as products of weights and values
    row_sums           the other streams, as products without columns
    maxima             the maxima of the score
    m, n, terms        points of rows, columns and terms
    repeats            points of the batch
    together           whether points of the batch that share keys and values are rows
    """

    region: Region
    roles: StreamRoles
    fn: str
    kind: str
    lead: Contraction
    scores: Contraction | None
    products: tuple[Contraction, ...]
    row_sums: tuple[Contraction, ...]
    maxima: tuple[str, ...]
    m: int
    n: int
    terms: int
    repeats: int
    together: bool = False

    def extent(self, group: tuple[int, ...]) -> int:
        """Points of a group of loops."""
        return self.lead.extent(group)


def stream_view(region: Region, core: PolyCore, *, together: bool = False) -> StreamView | None:
    """The region's streams, or None where the template does not cover them: streams of several dtypes or of others than
    fp32 and fp64, a value computed from an accumulator, or an output at other points than the first output's.
    `together`: points of the batch that share keys and values (heads of grouped queries) are rows."""
    roles = core.streams
    if roles is None or any(result.at is not None for result in region.yields):
        return None
    ops = {let.name: let.op for let in region.body}
    sites = {site.value: site for site in core.sites if site.value in roles.members}
    streams = [name for name in roles.members if ops[name].kind == "stream"]
    if any(_needs_sum(ops, ops[name]) for name in streams):
        return None
    kinds = {stream_dtype(region, ops[name]) for name in streams}
    digits = stream_digits(region, roles, [(ops[name], sites[name]) for name in streams], together=together)
    roles = digits.roles
    sums = [_product(region, core, digits, name, ops[name], sites[name]) for name in streams]
    products = tuple(product for product in sums if _has_columns(product))
    scores = _scores(region, core, digits, ops)
    kinds |= {product.accumulator for product in (*products, *((scores,) if scores else ()))}
    if len(kinds) != 1 or kinds.isdisjoint(("fp32", "fp64")):
        return None
    return StreamView(
        region=region,
        roles=roles,
        fn=ops[streams[0]].fn,
        kind=kinds.pop(),
        lead=sums[0],
        scores=scores,
        products=products,
        row_sums=tuple(product for product in sums if product not in products),
        maxima=tuple(name for name in roles.members if ops[name].kind != "stream"),
        m=_extent(roles, roles.rows),
        n=_extent(roles, roles.columns),
        terms=_extent(roles, roles.terms),
        repeats=_extent(roles, roles.batch),
        together=together,
    )


def stream_views(region: Region, core: PolyCore) -> list[StreamView]:
    """The streams with `together` false and true; the second only where points of the batch share keys and values."""
    both = [stream_view(region, core, together=together) for together in (False, True)]
    views = [view for view in both if view is not None and 0 not in view.roles.sizes]
    return views[: len({view.roles for view in views})]


def stream_epilogue(view: StreamView) -> tuple[str, ...]:
    """The functions applied to the sums, in the region's order."""
    after, functions = set(view.roles.members), []
    for let in view.region.body:
        if let.name not in after and not after.isdisjoint(let.op.reads):
            after.add(let.name)
            functions.append(let.op.fn)
    return tuple(functions)


def stream_dtype(region: Region, op: Op) -> str:
    """The dtype of a stream's scores, exponentials and sums: the widest accumulator of its operands and its own."""
    dtypes = {let.name: let.op.dtype for let in region.body} | {
        buffer.name: buffer.memref.dtype for buffer in region.inputs
    }
    widest = dtype(op.dtype).accumulator
    for operand in op.inputs:
        element = dtype(operand.dtype if isinstance(operand, Number) else dtypes[operand.value])
        widest = promote(widest, element.accumulator) or widest
    return widest.name


def _needs_sum(ops: Mapping[str, Op], stream: Op) -> bool:
    """Whether the value of a stream is computed from an accumulator, as a quotient by another stream is."""
    value = stream.inputs[1]
    names = behind(ops, value.value) if isinstance(value, Operand) else []
    return any(ops[name].kind in ACCUMULATORS for name in names if name in ops)


def _has_columns(stream: Contraction) -> bool:
    """Whether a stream's value moves along columns."""
    value = stream.op.inputs[1]
    moved = support(compose(value.map, stream.roles.point)) if isinstance(value, Operand) else frozenset()
    return not moved.isdisjoint(stream.roles.n)


def _product(region: Region, core: PolyCore, digits: StreamDigits, name: str, op: Op, site: Site) -> Contraction:
    """A stream as the product of weights (left) and values (right)."""
    roles, point = digits.roles, digits.at(lift(site.map, op.domain[len(op.shape) :]))
    value = op.inputs[1]
    reads = tuple(buffer_reads(region, value, point)) if isinstance(value, Operand) else ()
    product_roles = Roles(
        names=digits.names,
        sizes=roles.sizes,
        rank=digits.rank,
        batch=roles.batch,
        m=roles.rows,
        n=roles.columns,
        k=roles.terms,
        out=digits.out,
        point=point,
        reads=((), reads),
    )
    return _contraction(region, core, name, op, product_roles, vector=1)


def _scores(region: Region, core: PolyCore, digits: StreamDigits, ops: dict[str, Op]) -> Contraction | None:
    roles = digits.roles
    if roles.contraction is None or roles.place is None:
        return None
    op = ops[roles.contraction]
    depth = op.domain[len(op.shape) :]
    point = lift(roles.place, depth)
    sizes, rank = (*roles.sizes, *depth), len(roles.sizes)
    reads = [tuple(buffer_reads(region, operand, point)) for operand in op.operands]
    sides = (roles.rows, roles.terms) if roles.keys else (roles.terms, roles.rows)
    score_roles = Roles(
        names=(*digits.names, *(f"r{axis}" for axis in range(len(depth)))),
        sizes=sizes,
        rank=rank,
        batch=roles.batch,
        m=sides[0],
        n=sides[1],
        k=tuple(axis for axis in range(rank, len(sizes)) if sizes[axis] != 1),
        out=identity(roles.sizes),
        point=point,
        reads=(reads[0], reads[1]),
    )
    return _contraction(region, core, roles.contraction, op, score_roles, vector=roles.keys)


def _contraction(region: Region, core: PolyCore, name: str, op: Op, roles: Roles, vector: int) -> Contraction:
    rows, columns = (roles.m, roles.n) if vector else (roles.n, roles.m)
    return Contraction(
        region=region,
        core=core,
        name=name,
        op=op,
        roles=roles,
        vector=vector,
        rows=rows,
        outer=(),
        columns=columns,
        k=roles.k,
        m=roles.extent(rows),
        n=roles.extent(columns),
        depth=math.prod(roles.sizes[roles.rank :]),
        repeats=roles.extent(roles.batch),
        pattern="matmul",
        constants=(False, False),
    )


def _extent(roles: StreamRoles, group: tuple[int, ...]) -> int:
    return math.prod(roles.sizes[axis] for axis in group)
