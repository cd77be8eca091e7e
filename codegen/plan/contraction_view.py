"""A contraction as the template of matrix products sees it: the roles of Poly Core, and which operand has the columns.

    C[batch, m, n] = Σ_k  P[batch, m, k] · Q[batch, k, n]

Lanes of a register run along the columns n. The operand with the columns is the *vector* side; the other operand, with
the rows m, is broadcast. A padded convolution is a contraction whose digits are image, group, channels, pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from codegen.plan.plan_check import STAGE
from codegen.poly.value_sites import ACCUMULATORS
from ir.diagnostics import Kind, fail
from ir.dtype import dtype, is_widening
from ir.index.expr import AxisExpr
from ir.index.facts import offset
from ir.index.map import compose, support
from ir.poly.core import OperandRead, PolyCore, Roles
from ir.region.region import Buffer, Op, Operand, Region, is_order_bound
from ir.region.work import uncached_bytes

_ACCUMULATORS = {"fp16": "fp32", "bf16": "fp32", "i8": "i32", "u8": "i32", "i16": "i32", "u16": "i32"}


class PaddedImage(NamedTuple):
    """A read of a padded buffer, and the number that stands around the buffer's elements."""

    read: OperandRead
    fill: float


@dataclass(frozen=True, eq=False)
class Contraction:
    """A region's contraction. `core` is the Poly Core of the whole region.

    vector   the input (0 or 1) that has the columns
    batch, rows, outer, columns
             positions of the output's digits, in its memory order. The vector side has `outer` and `columns`; the
             output is one affine run along `columns`
    k        positions of the reduced digits, in the order in which terms are summed: the memory order of an operand,
             or index order if `ordered`
    m, n     points of rows and of columns
    depth    terms of a sum
    repeats  number of matrix products: points of batch and outer; 0 when the output is empty
    pattern  "matmul" or "conv"
    constants
             per operand: whether it is known when the program is built
    """

    region: Region
    core: PolyCore
    name: str
    op: Op
    roles: Roles
    vector: int
    rows: tuple[int, ...]
    outer: tuple[int, ...]
    columns: tuple[int, ...]
    k: tuple[int, ...]
    m: int
    n: int
    depth: int
    repeats: int
    pattern: Literal["matmul", "conv"]
    constants: tuple[bool, bool]
    ordered: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the digits."""
        return self.roles.sizes

    @property
    def batch(self) -> tuple[int, ...]:
        return self.roles.batch

    @property
    def is_empty(self) -> bool:
        """Whether the output has no elements."""
        return 0 in self.sizes[: self.roles.rank]

    def extent(self, group: Sequence[int]) -> int:
        """Points of a group of digits."""
        return self.roles.extent(group)

    @cached_property
    def ops(self) -> dict[str, Op]:
        """The ops of the region by the names of their values."""
        return {let.name: let.op for let in self.region.body}

    @cached_property
    def accumulator(self) -> str:
        """The dtype of registers and panels."""
        return _ACCUMULATORS.get(self.op.dtype, self.op.dtype)

    @cached_property
    def epilogue(self) -> tuple[str, ...]:
        """The functions applied to the sums, in the region's order."""
        after, functions = {self.name}, []
        for let in self.region.body:
            if not after.isdisjoint(let.op.reads):
                after.add(let.name)
                functions.append(let.op.fn)
        return tuple(functions)

    def operand(self, side: int) -> Operand:
        """Input `side` (0 or 1) of the op."""
        operand = self.op.inputs[side]
        if not isinstance(operand, Operand):
            fail(Kind.UNSUPPORTED_OP, STAGE, "a contraction with an immediate operand", at=self.name)
        return operand

    def depends(self, side: int, group: Sequence[int]) -> tuple[int, ...]:
        """The digits of `group` along which input `side` changes."""
        used = support(compose(self.operand(side).map, self.roles.point))
        return tuple(digit for digit in group if digit in used)

    def own_products(self, side: int) -> tuple[int, ...]:
        """The digits of the products that have an input `side` of their own; other products share it. All plans of the
        contraction ask for them."""
        return self._own_products[side]

    @cached_property
    def _own_products(self) -> tuple[tuple[int, ...], ...]:
        return tuple((*self.depends(side, self.batch), *self.depends(side, self.outer)) for side in (0, 1))

    def buffer(self, read: OperandRead) -> Buffer:
        """The input of the region that is read."""
        return next(buffer for buffer in self.region.inputs if buffer.name == read.buffer)

    @cached_property
    def source_bytes(self) -> tuple[dict[str, int], dict[str, int]]:
        """Per input: the tensors from which it is computed, by name, and their bytes."""
        lhs, rhs = ({read.buffer: self.buffer(read).memref.nbytes for read in reads} for reads in self.roles.reads)
        return lhs, rhs

    @cached_property
    def bytes_read(self) -> tuple[int, int]:
        """Per input: the bytes of all tensors from which it is computed."""
        lhs, rhs = self.source_bytes
        return sum(lhs.values()), sum(rhs.values())

    @cached_property
    def cold_bytes(self) -> float:
        """Bytes of arguments that no cache holds."""
        return float(uncached_bytes(self.region))

    @cached_property
    def item_bytes(self) -> tuple[int, int]:
        """Per input: the bytes of an element of the widest tensor from which it is computed; 0 where there is none."""
        lhs, rhs = (
            max((dtype(self.buffer(read).memref.dtype).bytes for read in reads), default=0)
            for reads in self.roles.reads
        )
        return lhs, rhs

    @cached_property
    def bytes_written(self) -> int:
        """The bytes of all outputs."""
        return sum(buffer.memref.nbytes for buffer in self.region.outputs)

    def offset(self, read: OperandRead) -> AxisExpr:
        """The element read, counted from the first one of the buffer."""
        return offset(read.map, self.buffer(read).memref.frame)

    def is_constant(self, side: int) -> bool:
        """Whether the operand is known when the program is built."""
        return self.constants[side]

    def out_step(self, group: Sequence[int]) -> int | None:
        """Elements of the output per step of one counter over `group`; None where the step varies or nothing is
        written."""
        if 0 in self.region.outputs[0].memref.shape:
            return None
        at = offset(self.roles.out, self.region.outputs[0].memref.frame)
        return fused_step(at, group, self.sizes)

    def run(self, side: int, group: Sequence[int]) -> tuple[tuple[int, ...], int | None]:
        """The longest suffix of `group` along which every read of input `side` is affine in one counter and not padded;
        and the elements per step of the counter. The suffix has at least the innermost digit, which may be padded. The
        step is None where reads differ, are not affine, or do not exist. All plans of the contraction ask for it."""
        key = side, tuple(group)
        if key not in self._runs:
            self._runs[key] = self._find_run(*key)
        return self._runs[key]

    @cached_property
    def _runs(self) -> dict[tuple[int, tuple[int, ...]], tuple[tuple[int, ...], int | None]]:
        return {}

    def _find_run(self, side: int, group: tuple[int, ...]) -> tuple[tuple[int, ...], int | None]:
        for start in range(len(group)):
            suffix = tuple(group[start:])
            steps = {self._step(read, suffix, guards=start == len(group) - 1) for read in self.roles.reads[side]}
            if None not in steps:
                steps.discard(0)
                return suffix, (steps.pop() if len(steps) == 1 else 0 if not steps else None)
        return tuple(group[-1:]), None

    def is_even(self, side: int, run: Sequence[int]) -> bool:
        """Whether every read of input `side` moves by equal steps along the last digit of `run`."""
        return all(self.offset(read).coeff(digit) is not None for read in self.roles.reads[side] for digit in run[-1:])

    def image(self, side: int, run: Sequence[int]) -> PaddedImage | None:
        """The padded buffer that input `side` reads, as in `padded_image`, if the buffer's elements are one range along
        the last digit of `run`; else None. Elements with padding between them are no range."""
        image = self.padded_image(side)
        if image is None:
            return None
        guards = image.read.map.guards
        bounds = [bound.expr.coeff(digit) for guard in guards for bound in guard.bounds for digit in run[-1:]]
        return image if bounds and None not in bounds and math.isfinite(image.fill) else None

    def padded_image(self, side: int) -> PaddedImage | None:
        """The padded buffer that input `side` reads, widened or as it is; else None. Another computed value does not
        count: where its operands are padded it may be other than the padding."""
        if not self.roles.reads[side]:
            return None
        read = self.roles.reads[side][0]
        fills = {guard.fill for guard in read.map.guards}
        return PaddedImage(read, fills.pop()) if self._is_buffer(side, read.buffer) and len(fills) == 1 else None

    def _is_buffer(self, side: int, buffer: str) -> bool:
        """Whether input `side` is the buffer, or the buffer in the dtype of accumulators, which has its numbers."""
        value = self.operand(side).value
        op = self.ops.get(value)
        if op is None or op.fn != "cast" or op.dtype != self.accumulator:
            return value == buffer
        (source,) = op.operands
        dtypes = {one.name: one.memref.dtype for one in self.region.inputs}
        return source.value == buffer and is_widening(dtype(dtypes[buffer]), dtype(op.dtype))

    def _step(self, read: OperandRead, suffix: Sequence[int], *, guards: bool) -> int | None:
        """Elements per step of one counter over `suffix`; None if the read is not affine in it."""
        if not guards and any(bound.expr.axes & set(suffix) for g in read.map.guards for bound in g.bounds):
            return None
        return fused_step(self.offset(read), suffix, self.sizes)


def contraction_of(
    region: Region, core: PolyCore, *, vector: int | None = None, ordered: bool = False
) -> Contraction | None:
    """The region's contraction, or None where there is none that the template covers: it has no second accumulator, no
    sum of bool, no number as an operand, no output at other points than the first output's. `vector` is the vector
    side, by default the operand that moves along the output's innermost axis. `ordered`: floating-point terms are
    summed in index order."""
    if core.roles is None:
        return None
    accumulators = [let for let in region.body if let.op.kind in ACCUMULATORS]
    elsewhere = any(result.at is not None for result in region.yields)
    if len(accumulators) != 1 or accumulators[0].op.dtype == "bool" or elsewhere:
        return None
    ((name, op),) = ((let.name, let.op) for let in accumulators)
    if not all(isinstance(operand, Operand) for operand in op.inputs):
        return None
    roles = core.roles
    side = _vector_side(roles) if vector is None else vector
    rows, own = (roles.m, roles.n) if side else (roles.n, roles.m)
    outer, columns = _run_of_columns(region, roles, own)
    empty = 0 in roles.sizes[: roles.rank]
    ordered = ordered and is_order_bound(op)
    return Contraction(
        region=region,
        core=core,
        name=name,
        op=op,
        roles=roles,
        vector=side,
        rows=rows,
        outer=outer,
        columns=columns,
        k=roles.k if ordered else _summation_order(region, roles),
        m=roles.extent(rows),
        n=roles.extent(columns),
        depth=math.prod(roles.sizes[roles.rank :]),
        repeats=0 if empty else roles.extent(roles.batch) * roles.extent(outer),
        pattern=core.pattern or "matmul",
        constants=(_all_constant(region, roles.reads[0]), _all_constant(region, roles.reads[1])),
        ordered=ordered,
    )


def _all_constant(region: Region, reads: Sequence[OperandRead]) -> bool:
    constants = {buffer.name for buffer in region.inputs if buffer.constant}
    return all(read.buffer in constants for read in reads)


def _vector_side(roles: Roles) -> int:
    """The side that moves along the innermost axis of the output; the side with more points if that is a batch axis."""
    last = max((*roles.batch, *roles.m, *roles.n), default=None)
    for side, own in ((1, roles.n), (0, roles.m)):
        if last in own:
            return side
    return 1 if roles.extent(roles.n) >= roles.extent(roles.m) else 0


def _run_of_columns(region: Region, roles: Roles, group: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """`group` in two parts, of which the second is the longest along which the output is one affine run."""
    memref = region.outputs[0].memref
    if 0 in memref.shape:
        return (), group
    at = offset(roles.out, memref.frame)
    starts = (start for start in range(len(group)) if fused_step(at, group[start:], roles.sizes) is not None)
    start = next(starts, len(group))
    return group[:start], group[start:]


def _summation_order(region: Region, roles: Roles) -> tuple[int, ...]:
    """The reduced digits in the memory order of the largest operand that is no constant: its innermost terms are
    neighbours."""
    buffers = {buffer.name: buffer for buffer in region.inputs}
    reads = [side[0] for side in roles.reads if not all(buffers[read.buffer].constant for read in side)]
    if len(roles.k) < 2 or not reads:
        return roles.k
    largest = max(reads, key=lambda read: math.prod(buffers[read.buffer].memref.shape))
    at = offset(largest.map, buffers[largest.buffer].memref.frame)
    steps = {position: at.coeff(position) for position in roles.k}
    if None in steps.values():
        return roles.k
    return tuple(sorted(roles.k, key=lambda position: -abs(steps[position] or 0)))


def rows_are_neighbours(view: Contraction) -> bool:
    """Whether the output is contiguous along the rows. Then the lanes of the epilogue run along the rows."""
    return bool(view.rows) and view.out_step(view.rows) == 1


def lanes_along_k(view: Contraction, side: int, group: Sequence[int], lanes: int) -> bool:
    """Whether an operand has more neighbours in memory along k than along `group`: lanes along k read it faster."""
    run, step = view.run(side, view.k)
    across, apart = view.run(side, group)
    neighbours = view.extent(run) if step == 1 else 1
    beside = view.extent(across) if apart in (0, 1) else view.extent(across) / 2 if apart == 2 else 1
    return min(neighbours, lanes) > min(beside, lanes)


def lies_by_terms(view: Contraction, side: int, group: Sequence[int], lanes: int) -> bool:
    """Whether the elements of an operand are evenly spaced along all of `group`, while neighbouring terms may lie on
    pages of their own. Such an operand is read term by term."""
    run, _ = view.run(side, group)
    return bool(group) and run == group and view.is_even(side, run) and not lanes_along_k(view, side, group, lanes)


def fused_step(offset: AxisExpr, group: Sequence[int], sizes: Sequence[int]) -> int | None:
    """The growth of `offset` per step of one counter over the digits of `group`; None where the growth varies."""
    step: int | None = None
    weight = 1
    for position in reversed(group):
        growth = offset.coeff(position)
        if growth is None or (step is not None and growth != step * weight):
            return None
        step = growth if step is None else step
        weight *= sizes[position]
    return 0 if step is None else step
