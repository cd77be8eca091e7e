"""Streams of one score as their template sees them: two products with the tile of scores between.

    scores   S[batch, rows, terms] = Σ_depth queries·keys      lanes along the terms; absent where scores are read
    weights  P = fn(S - running maximum)                       in the tile
    values   A[batch, rows, columns] += P·V[batch, terms, columns]   lanes along the columns, once per such stream

Both products number the loops alike (`ir.poly.core.StreamRoles`), so that a place in one is a place in the other.
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

STAGE = "plan"


class StreamView(msgspec.Struct, frozen=True, cache_hash=True):
    """What the template runs.

    fn, kind           the exponential, and the dtype of scores, weights and sums
    lead               the first stream as a product, whose terms are the blocks' terms
    scores             the product in the score; None where scores are computed from memory alone
    products           the streams of a matrix, each as the product of weights and values
    row_sums           the other streams, as products without columns
    maxima             the maxima of the score
    m, n, terms        points of rows, columns and terms; repeats: of the batch
    together           points of the batch that share keys and values are rows
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
    """The region's streams, or None where the template does not cover them: of several dtypes, of a matrix that is a
    number, with a value that needs a sum, beside an axis of the outputs that nothing moves along, or with an output at
    other points than the first's. `together`: points of the batch that share keys and values (heads of grouped queries)
    are rows."""
    roles = core.streams
    if roles is None or any(each.at is not None for each in region.yields):
        return None
    ops = {let.name: let.op for let in region.body}
    sites = {site.value: site for site in core.sites if site.value in roles.members}
    streams = [name for name in roles.members if ops[name].kind == "stream"]
    if any(_needs_sum(ops, ops[name]) for name in streams):
        return None
    kinds = {summed_in(region, ops[name]) for name in streams}
    digits = stream_digits(region, roles, [(ops[name], sites[name]) for name in streams], together=together)
    roles = digits.roles
    sums = [_product(region, digits, name, ops[name], sites[name]) for name in streams]
    products = tuple(each for each in sums if _has_columns(each))
    scores = _scores(region, digits, ops)
    kinds |= {each.accumulator for each in (*products, *((scores,) if scores else ()))}
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
        row_sums=tuple(each for each in sums if each not in products),
        maxima=tuple(name for name in roles.members if ops[name].kind != "stream"),
        m=_extent(roles, roles.rows),
        n=_extent(roles, roles.columns),
        terms=_extent(roles, roles.terms),
        repeats=_extent(roles, roles.batch),
        together=together,
    )


def stream_views(region: Region, core: PolyCore) -> list[StreamView]:
    """The streams as they stand, and with rows of several points of the batch together, where these share anything."""
    found = [stream_view(region, core, together=together) for together in (False, True)]
    views = [each for each in found if each is not None and 0 not in each.roles.sizes]
    return views[: len({each.roles for each in views})]


def stream_epilogue(view: StreamView) -> tuple[str, ...]:
    """The functions applied to the sums, in the region's order."""
    after, found = set(view.roles.members), []
    for let in view.region.body:
        if let.name not in after and not after.isdisjoint(let.op.reads):
            after.add(let.name)
            found.append(let.op.fn)
    return tuple(found)


def summed_in(region: Region, op: Op) -> str:
    """The dtype of a stream's scores, exponentials and sums: the widest accumulator of its operands and its own."""
    dtypes = {let.name: let.op.dtype for let in region.body} | {each.name: each.memref.dtype for each in region.inputs}
    found = dtype(op.dtype).accumulator
    for each in op.inputs:
        element = dtype(each.dtype if isinstance(each, Number) else dtypes[each.value])
        found = promote(found, element.accumulator) or found
    return found.name


def _needs_sum(ops: Mapping[str, Op], stream: Op) -> bool:
    """Whether the value of a stream is computed from an accumulator: a quotient by another stream of its scores is."""
    value = stream.inputs[1]
    names = behind(ops, value.value) if isinstance(value, Operand) else []
    return any(ops[name].kind in ACCUMULATORS for name in names if name in ops)


def _has_columns(each: Contraction) -> bool:
    """Whether a stream's value moves along columns."""
    value = each.op.inputs[1]
    moved = support(compose(value.map, each.roles.point)) if isinstance(value, Operand) else frozenset()
    return not moved.isdisjoint(each.roles.n)


def _product(region: Region, digits: StreamDigits, name: str, op: Op, site: Site) -> Contraction:
    """A stream as the product of weights, which are its left side, and values."""
    roles, point = digits.roles, digits.at(lift(site.map, op.domain[len(op.shape) :]))
    value = op.inputs[1]
    reads = tuple(buffer_reads(region, value, point)) if isinstance(value, Operand) else ()
    found = Roles(
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
    return _contraction(region, name, op, found, vector=1)


def _scores(region: Region, digits: StreamDigits, ops: dict[str, Op]) -> Contraction | None:
    roles = digits.roles
    if roles.contraction is None or roles.place is None:
        return None
    op = ops[roles.contraction]
    depth = op.domain[len(op.shape) :]
    point = lift(roles.place, depth)
    sizes, rank = (*roles.sizes, *depth), len(roles.sizes)
    reads = [tuple(buffer_reads(region, each, point)) for each in op.operands]
    sides = (roles.rows, roles.terms) if roles.keys else (roles.terms, roles.rows)
    found = Roles(
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
    return _contraction(region, roles.contraction, op, found, vector=roles.keys)


def _contraction(region: Region, name: str, op: Op, roles: Roles, vector: int) -> Contraction:
    rows, columns = (roles.m, roles.n) if vector else (roles.n, roles.m)
    return Contraction(
        region=region,
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
