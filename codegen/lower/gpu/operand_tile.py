"""Moves an operand's tile to shared memory: by asynchronous copies where memory holds the elements as they are needed;
else element by element, through registers, so that products run while memory is read.

    for every piece of a thread
      cp_async 16 bytes As[stage][row, 8*chunk] := A[128*block_y + row, 32*turn + 8*chunk] where …
    or
      As_next[piece] := relu(A[…] where …), or A's bits         before the products
      As[stage][row, term] := As_next[piece]                    after them

A convolution differs only in the digits of its rows (image, pixels) and terms (channel, position in the window).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.contraction_frame import GpuContractionFrame, exact_quotient
from codegen.lower.gpu.thread_evaluator import is_zero_outside
from codegen.lower.points import Point, Where
from codegen.plan.gpu.contraction_tiling import pieces_of, steps_of
from codegen.plan.gpu.operand_read import bits_read, copied_read, own_digits
from ir.index.expr import ZERO, AxisExpr, constant
from ir.index.strides import flat, row_major
from ir.kernel.gpu.kernel import Shared
from ir.kernel.gpu.nodes import At, Call, CpAsync, Element, Holds, LoadGlobal, SetElement, StShared, Value
from ir.kernel.nodes import BITS_OF_HALF, Const, Within, register_type
from ir.plan.gpu import Staging
from ir.poly.core import OperandRead

_BYTES: dict[int, Literal[4, 8, 16]] = {4: 4, 8: 8, 16: 16}


@dataclass(frozen=True, eq=False)
class OperandTile:
    """The ring of one operand. `first`: the first row or column of the block's tile. `over_own`: turns advance along
    the rows or columns, not along the terms."""

    frame: GpuContractionFrame
    staged: Staging
    shared: Shared
    first: AxisExpr
    over_own: bool = False

    @property
    def is_copied(self) -> bool:
        """Whether asynchronous copies fill it."""
        return self.staged.copied

    @property
    def extent(self) -> int:
        """Rows or columns."""
        return self.frame.tile.extent(self.staged)

    def at(self, own: AxisExpr, term: AxisExpr, stage: AxisExpr) -> At:
        """The element of row or column `own` and term `term` in a stage."""
        fiber, place = (own, term) if self.staged.along_k else (term, own)
        at: tuple[AxisExpr, ...] = (fiber, place)
        if len(self.shared.shape) == 3:
            panel, inside = self.frame.writer.split(place, self.shared.shape[-1])
            at = (panel, fiber, inside)
        return At(self.shared.name, at, stage if self.shared.stages > 1 else ZERO)

    def fetch(self, block: GpuBlock, turn: AxisExpr, stage: AxisExpr, step: AxisExpr = ZERO, steps: int = 1) -> None:
        """Starts the copies of turn `turn` to stage `stage`, or computes its elements into registers: the pieces of one
        of so many steps."""
        with self._pieces(block, step, steps) as (inside, number, fiber, chunk):
            self._piece(inside, turn, stage, number, fiber, chunk)

    def put(self, block: GpuBlock, stage: AxisExpr) -> None:
        """Stores the elements in registers in stage `stage`."""
        if self.is_copied:
            return
        with self._pieces(block) as (inside, number, fiber, chunk):
            own, term = (fiber, chunk) if self.staged.along_k else (chunk, fiber)
            value = Element(self.held, number, self._held_dtype)
            inside.add(StShared(self.at(own, term, stage), value))

    @cached_property
    def held(self) -> str:
        """Registers for the elements that are read and computed while products run."""
        count = pieces_of(self.frame.tile, self.staged)
        return self.frame.writer.array(f"{self.shared.name}_next", self._held_dtype, count)

    @cached_property
    def _bits(self) -> OperandRead | None:
        """The read of the buffer whose bits are the elements, where nothing converts or computes them."""
        return bits_read(self.frame.view, self.staged)

    @property
    def _held_dtype(self) -> str:
        return BITS_OF_HALF if self._bits is not None else register_type(self.staged.dtype)

    @contextmanager
    def _pieces(
        self, block: GpuBlock, step: AxisExpr = ZERO, steps: int = 1
    ) -> Iterator[tuple[GpuBlock, AxisExpr, AxisExpr, AxisExpr]]:
        """The body of a loop over a thread's pieces, or over its pieces of step `step` of `steps`; the piece's number,
        its fiber of the tile, its position in the fiber."""
        tile, writer = self.frame.tile, self.frame.writer
        fibers, length = (self.extent, tile.bk) if self.staged.along_k else (tile.bk, self.extent)
        length //= self.staged.width
        count = pieces_of(tile, self.staged)
        share = -(-count // steps)
        with block.loop(f"{self.shared.name}_piece", constant(share), unroll=True) as (body, of_step):
            number = step * share + of_step
            piece = writer.thread + number * tile.threads
            fiber, chunk = writer.split(piece, length)
            if count * tile.threads == fibers * length:
                with body.guard(Within(number, 0, count)) as inside:
                    yield inside, number, inside.affine(fiber), inside.affine(chunk)
            else:
                with body.guard(Within(number, 0, count), Within(piece, 0, fibers * length)) as inside:
                    yield inside, number, fiber, chunk

    def _piece(
        self, block: GpuBlock, turn: AxisExpr, stage: AxisExpr, number: AxisExpr, fiber: AxisExpr, chunk: AxisExpr
    ) -> None:
        frame, view, bk, staged = self.frame, self.frame.view, self.frame.tile.bk, self.staged
        w, first = staged.width, block.affine(self.first)
        if self.over_own:
            first, turn = first + turn * self.extent, ZERO
        if staged.along_k:
            own, term = fiber, chunk * w
            terms = frame.along(block, view.k, turn * (bk // w) + chunk, w, staged.digits)
            points = frame.along(block, own_digits(view, staged.side), first + fiber)
        else:
            own, term = chunk * w, fiber
            terms = frame.along(block, view.k, turn * bk + fiber)
            points = frame.along(
                block, own_digits(view, staged.side), exact_quotient(first, w) + chunk, w, staged.digits
            )
        *both, depth = steps_of(view, frame.tile)
        where = (
            *frame.inside(both[staged is frame.tile.rhs], first + own),
            *frame.inside(depth, turn * bk + term),
        )
        digits = frame.digits(terms, points)
        copied = copied_read(view, staged)
        if copied is not None:
            place, unproven = self._place_in_memory(block, copied, digits, where)
            to, buffer = self.at(own, term, stage), frame.writer.buffer(copied.buffer)
            block.add(CpAsync(to, buffer, place, _BYTES[staged.nbytes], unproven))
        elif self._bits is not None:
            place, unproven = self._place_in_memory(block, self._bits, digits, where)
            word = LoadGlobal(frame.writer.buffer(self._bits.buffer), place, BITS_OF_HALF, unproven)
            block.add(SetElement(self.held, number, word))
        else:
            block.add(SetElement(self.held, number, self._compute(block, digits, where)))

    def _place_in_memory(self, block: GpuBlock, read: OperandRead, digits: Point, where: Where) -> tuple[Point, Where]:
        """The coordinates in the kernel's buffer, and the conditions under which the element is not 0."""
        writer = self.frame.writer
        padded = [condition for guard in read.map.guards for condition in writer.conditions(guard, digits)]
        unproven = tuple(condition for condition in (*where, *padded) if not block.knows(condition))
        return self._merge_axes(writer.at(read.map.exprs, digits), self.frame.view.buffer(read).memref.shape), unproven

    def _merge_axes(self, at: Point, shape: tuple[int, ...]) -> Point:
        """Coordinates in the kernel's buffer, with the last axes merged where several digits are one number."""
        first = len(at) - self.staged.axes
        return (*at[:first], flat(at[first:], row_major(shape[first:])))

    def _compute(self, block: GpuBlock, digits: Point, where: Where) -> Value:
        """An element as the region computes it; 0 beyond the last term, where the computed value could be NaN."""
        view, dtype = self.frame.view, register_type(self.staged.dtype)
        point = self.frame.writer.at(view.roles.point.exprs, digits)
        value = self.frame.evaluator.operand(view.operand(self.staged.side), point, block, where)
        unproven = tuple(condition for condition in where if not block.knows(condition))
        zero = is_zero_outside(value, unproven)
        if value.dtype != dtype:
            value = Call("cast", (value,), dtype)
        return value if zero else Call("where", (Holds(unproven), value, Const(0, dtype)), dtype)
