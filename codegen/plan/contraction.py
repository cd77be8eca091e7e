"""What the template of matrix products needs to know of a contraction: its loops, by the operand that moves along.

The loops are the axes of the output and the reduced axes, each cut into *pieces* where an operand's map divides it
(`h` and `d` of an axis that is read at `i//64` and `i%64`), so that all maps are affine wherever they can be:

    C[batch, m, n] = Σ_k  P[batch, m, k] · Q[batch, k, n]

The operand with the columns n, which neighbouring lanes of a register share, is the *vector* side; the other one,
with the rows m, is broadcast. Padded convolutions are this too: their pieces are image, group, channels, pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from ir.axis_expr import AxisExpr, Box, FloorDiv, axis, box_of, floordiv, mod, weighted_sum
from ir.axis_map import AxisMap, axis_map, compose, lift, support
from ir.diagnostics import Kind, fail
from ir.poly_core import PolyCore
from ir.region import Buffer, Op, Operand, Region

STAGE = "plan"
_ACCUMULATORS = {"fp16": "fp32", "bf16": "fp32", "i8": "i32", "u8": "i32", "i16": "i32"}


class Read(msgspec.Struct, frozen=True):
    """A buffer read at `map` of the pieces."""

    buffer: Buffer
    map: AxisMap

    @property
    def offset(self) -> AxisExpr:
        """The element read, in a row-major buffer."""
        return flat(self.map.exprs, self.buffer.memref.shape)


class Contraction(msgspec.Struct, frozen=True, cache_hash=True):
    """A region's contraction as the template sees it.

    sizes    of the pieces: first those of the output (`rank` of them), then the reduced ones
    out      pieces → the coordinates of the outputs
    point    pieces → the domain of the op
    batch, rows, outer, columns, k
             positions of pieces, each group in the output's memory order, sizes of 1 left out; `columns` are the
             last of the vector side's along which the output is one affine run, `outer` those before them
    vector   which input has the columns
    reads    per input, the buffers it is computed from
    """

    region: Region
    name: str
    op: Op
    sizes: tuple[int, ...]
    rank: int
    out: AxisMap
    point: AxisMap
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    outer: tuple[int, ...]
    columns: tuple[int, ...]
    k: tuple[int, ...]
    vector: int
    reads: tuple[tuple[Read, ...], tuple[Read, ...]]

    def extent(self, group: Sequence[int]) -> int:
        """Points of a group of pieces."""
        return math.prod(self.sizes[position] for position in group)

    @property
    def m(self) -> int:
        return self.extent(self.rows)

    @property
    def n(self) -> int:
        return self.extent(self.columns)

    @property
    def depth(self) -> int:
        """Terms of each sum."""
        return math.prod(self.sizes[self.rank :])

    @property
    def repeats(self) -> int:
        """Matrix products in all: batch and outer columns; 0 when the output is empty."""
        return 0 if 0 in self.sizes[: self.rank] else self.extent(self.batch) * self.extent(self.outer)

    @property
    def accumulator(self) -> str:
        """The dtype of registers and panels."""
        return _ACCUMULATORS.get(self.op.dtype, self.op.dtype)

    def operand(self, side: int) -> Operand:
        """Input `side` (0 or 1) of the op."""
        found = self.op.inputs[side]
        if not isinstance(found, Operand):
            fail(Kind.UNSUPPORTED_OP, STAGE, "a contraction with an immediate operand", at=self.name)
        return found

    def depends(self, side: int, group: Sequence[int]) -> tuple[int, ...]:
        """The pieces of `group` along which input `side` changes."""
        used = support(compose(self.operand(side).map, self.point))
        return tuple(each for each in group if each in used)

    def is_constant(self, side: int) -> bool:
        """Whether the operand is known when the program is built."""
        return all(read.buffer.constant for read in self.reads[side])

    def run(self, side: int, group: Sequence[int]) -> tuple[tuple[int, ...], int | None]:
        """The longest suffix of `group` that one counter can walk with every read of input `side` affine in it and
        never padded, and the elements per step (None: they differ between reads, or there are none).
        At the least the innermost piece, which may be padded; then the step is None when a read is not affine."""
        for start in range(len(group)):
            suffix = tuple(group[start:])
            steps = {self._step(read, suffix, guards=start == len(group) - 1) for read in self.reads[side]}
            if None not in steps:
                steps.discard(0)
                return suffix, (steps.pop() if len(steps) == 1 else 0 if not steps else None)
        return tuple(group[-1:]), None

    def _step(self, read: Read, suffix: Sequence[int], *, guards: bool) -> int | None:
        """Elements per step of one counter over `suffix`; None if the read is not affine in it."""
        if not guards and any(bound.expr.axes & set(suffix) for g in read.map.guards for bound in g.bounds):
            return None
        return fused_step(read.offset, suffix, self.sizes)


def contraction_of(region: Region, core: PolyCore, *, vector: int | None = None) -> Contraction | None:
    """The region's contraction as the template sees it, or None where it has none, or one that the template does
    not cover (read at two places, inside another accumulator, of bool). `vector` chooses the vector side; by
    default it is the operand that moves along the output's innermost axis."""
    if core.contraction is None or not core.legal:
        return None
    name = core.contraction
    op = next(let.op for let in region.body if let.name == name)
    places = {site.map for site in core.sites if site.value == name}
    accumulators = [let for let in region.body if let.op.kind in ("contraction", "reduce", "scan")]
    shapes = {buffer.memref.shape for buffer in region.outputs}
    if len(places) != 1 or len(accumulators) != 1 or len(shapes) != 1 or op.dtype == "bool":
        return None
    if not all(isinstance(each, Operand) for each in op.inputs):
        return None
    return _view(region, name, op, shapes.pop(), places.pop(), vector)


def _view(region: Region, name: str, op: Op, shape: tuple[int, ...], place: AxisMap, vector: int | None) -> Contraction:
    reduced = op.domain[len(op.domain) - op.reduced :]
    loops = (*shape, *reduced)
    read = lift(place, reduced)
    maps = [compose(each.map, read) for each in op.inputs if isinstance(each, Operand)]
    maps += [each.map for side in op.inputs if isinstance(side, Operand) for each in _reads(region, side, read)]
    sizes, rank, back = _pieces(loops, len(shape), maps)
    point = compose(read, axis_map(sizes, back))
    out = axis_map(sizes[:rank], back[: len(shape)]) if 0 not in sizes[:rank] else AxisMap(sizes[:rank], (), (), ())
    sides = [support(compose(each.map, point)) for each in op.inputs if isinstance(each, Operand)]
    moving = [position for position in range(rank) if sizes[position] != 1]
    batch = tuple(p for p in moving if p in sides[0] and p in sides[1])
    own = [tuple(p for p in moving if p not in batch and p in sides[1]), ()]
    own = [tuple(p for p in moving if p not in batch and p not in own[0]), own[0]]
    if vector is None:
        vector = _vector_side(own, moving, sizes)
    split = _contiguous(own[vector], out, shape, sizes)
    return Contraction(
        region=region,
        name=name,
        op=op,
        sizes=sizes,
        rank=rank,
        out=out,
        point=point,
        batch=batch,
        rows=own[1 - vector],
        outer=own[vector][:split],
        columns=own[vector][split:],
        k=tuple(position for position in range(rank, len(sizes)) if sizes[position] != 1),
        vector=vector,
        reads=(_reads(region, _operand(op, 0), point), _reads(region, _operand(op, 1), point)),
    )


def _operand(op: Op, side: int) -> Operand:
    found = op.inputs[side]
    assert isinstance(found, Operand)
    return found


def _vector_side(own: Sequence[tuple[int, ...]], moving: Sequence[int], sizes: Sequence[int]) -> int:
    """The side of the innermost axis of the output; of a batch axis there, the one with more columns."""
    last = moving[-1] if moving else None
    for side in (1, 0):
        if last in own[side]:
            return side
    return max((1, 0), key=lambda side: math.prod(sizes[p] for p in own[side]))


def _contiguous(group: tuple[int, ...], out: AxisMap, shape: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """Where the longest suffix of `group` starts along which the output is an affine run."""
    if 0 in shape:
        return 0
    offset = flat(out.exprs, shape)
    return next(
        (start for start in range(len(group)) if fused_step(offset, group[start:], sizes) is not None), len(group)
    )


def _reads(region: Region, operand: Operand, at: AxisMap) -> tuple[Read, ...]:
    """The buffers that an operand is computed from, read at `at` of the pieces."""
    place = compose(operand.map, at)
    for buffer in region.inputs:
        if buffer.name == operand.value:
            return (Read(buffer, place),)
    op = next(let.op for let in region.body if let.name == operand.value)
    return tuple(read for each in op.inputs if isinstance(each, Operand) for read in _reads(region, each, place))


def flat(coordinates: Sequence[AxisExpr], shape: Sequence[int]) -> AxisExpr:
    """The position of an element in a row-major buffer."""
    strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return weighted_sum(0, zip(coordinates, strides, strict=True))


def lanes_along_k(view: Contraction, side: int, group: Sequence[int], lanes: int) -> bool:
    """Whether an operand is read faster with lanes along k than along `group`: neighbours there, and not here."""
    run, step = view.run(side, view.k)
    across, apart = view.run(side, group)
    neighbours = view.extent(run) if step == 1 else 1
    beside = view.extent(across) if apart in (0, 1) else view.extent(across) / 2 if apart == 2 else 1
    return min(neighbours, lanes) > min(beside, lanes)


def digits(counter: AxisExpr, sizes: Sequence[int], box: Box) -> list[AxisExpr]:
    """The coordinates of point `counter` of a row-major box; a counter beyond it goes on along the first axis."""
    found: list[AxisExpr] = []
    for size in reversed(sizes[1:]):
        found.append(mod(counter, size, box))
        counter = floordiv(counter, size, box)
    return [counter, *reversed(found)] if sizes else []


def fused_step(offset: AxisExpr, group: Sequence[int], sizes: Sequence[int]) -> int | None:
    """How much `offset` grows per step of one counter over the pieces of `group`; None where it varies."""
    step: int | None = None
    weight = 1
    for position in reversed(group):
        found = offset.coeff(position)
        if found is None or (step is not None and found != step * weight):
            return None
        step = found if step is None else step
        weight *= sizes[position]
    return 0 if step is None else step


def _pieces(
    loops: Sequence[int], rank: int, maps: Iterable[AxisMap]
) -> tuple[tuple[int, ...], int, tuple[AxisExpr, ...]]:
    """Sizes of the pieces, how many belong to the first `rank` loops, and the loops in terms of the pieces."""
    exprs = [e for m in maps for e in (*m.exprs, *(b.expr for guard in m.guards for b in guard.bounds))]
    cut = [_cut(position, size, exprs) for position, size in enumerate(loops)]
    sizes = tuple(size for pieces in cut for size in pieces)
    box = box_of([max(size, 1) for size in sizes])
    back = []
    start = 0
    for pieces in cut:
        weights = [math.prod(pieces[k + 1 :]) for k in range(len(pieces))]
        back.append(weighted_sum(0, [(axis(start + k, box), weight) for k, weight in enumerate(weights)]))
        start += len(pieces)
    return sizes, sum(len(pieces) for pieces in cut[:rank]), tuple(back)


def _cut(position: int, size: int, exprs: Iterable[AxisExpr]) -> list[int]:
    """The sizes into which loop `position` falls where expressions divide it, outermost first."""
    cuts = sorted(cut for cut in set(_divisions(position, exprs)) if 1 < cut < size and size % cut == 0)
    kept = [1]
    for cut in cuts:
        if cut % kept[-1] == 0:
            kept.append(cut)
    return [outer // inner for outer, inner in zip([*kept[1:], size], kept, strict=True)][::-1]


def _divisions(position: int, exprs: Iterable[AxisExpr]) -> Iterable[int]:
    for expr in exprs:
        for term, _ in expr.terms:
            if isinstance(term, FloorDiv):
                step = term.expr.coeff(position)
                if step and term.divisor % step == 0:
                    yield abs(term.divisor // step)
                yield from _divisions(position, (term.expr,))
