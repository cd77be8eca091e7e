"""CPU kernels under construction: variables, and nested blocks of statements from which values are hoisted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from codegen.lower.cpu.copy_loops import as_copy
from codegen.lower.cpu.stored_halves import round_in_stores
from codegen.lower.scopes import Names, Scope
from ir.index.expr import ZERO, AxisExpr, constant, interval
from ir.kernel.cpu.kernel import CpuKernel, CpuParam, Phase, Scratch
from ir.kernel.cpu.nodes import CpuCall, CpuFor, CpuIf, Stmt, Store, Value
from ir.kernel.nodes import Reg, Within
from ir.region.region import Buffer, Region


@dataclass(frozen=True)
class LaneAxis:
    """The variable whose neighbours share a register, and how many of them exist (all lanes when None). `aligned`:
    the variable's value in the first lane is a multiple of the number of lanes."""

    variable: int
    count: int | AxisExpr | None = None
    aligned: bool = False


class CpuWriter(Names):
    """The parts of a kernel that exist once: variables, names of registers, scratch buffers, the lane count."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes
        self.shared: list[Scratch] = []
        self.private: list[Scratch] = []

    def param(self, buffer: Buffer, *, written: bool) -> CpuParam:
        """A buffer of a region as the kernel takes it."""
        memref = buffer.memref
        return CpuParam(self.buffer(buffer.name), memref.dtype, memref.span, written, memref.noalias)

    def params(self, region: Region) -> tuple[CpuParam, ...]:
        """A region's inputs, then its outputs."""
        return (
            *(self.param(buffer, written=False) for buffer in region.inputs),
            *(self.param(buffer, written=True) for buffer in region.outputs),
        )

    def kernel(self, name: str, params: Sequence[CpuParam], phases: Sequence[Phase], comment: str) -> CpuKernel:
        """The kernel that was written."""
        return CpuKernel(
            name=name,
            lanes=self.lanes,
            params=tuple(params),
            variables=tuple(self.variables),
            phases=round_in_stores(phases, params),
            shared=tuple(self.shared),
            private=tuple(self.private),
            comment=comment,
        )

    def counter(self, variable: int) -> AxisExpr:
        """The variable as an expression that depends on it even where it has one value, so that values with lanes, and
        values that a loop carries, are not hoisted out of the loop."""
        return AxisExpr(0, ((variable, 1),))


@dataclass(eq=False)
class CpuBlock(Scope[Value, Stmt]):
    """Statements of one scope. `variables` are bound here; `lane_axis` holds here and in blocks inside; `facts` are
    conditions that hold here. `sequential`: the loop runs through a whole axis in order, so that a scan may carry a
    value through it."""

    writer: CpuWriter
    parent: CpuBlock | None = None
    variables: set[int] = field(default_factory=set)
    lane_axis: LaneAxis | None = None
    barrier: bool = False
    sequential: bool = False
    facts: frozenset[Within] = frozenset()
    statements: list[Stmt] = field(default_factory=list)
    memo: dict[Hashable, Value] = field(default_factory=dict)

    def inner(
        self,
        variables: Iterable[int] = (),
        *,
        lane_axis: LaneAxis | None = None,
        barrier: bool = False,
        sequential: bool = False,
        facts: Iterable[Within] = (),
    ) -> CpuBlock:
        """A block inside this one; it inherits the lane axis unless it has its own."""
        return CpuBlock(
            self.writer,
            self,
            set(variables),
            lane_axis or self.lane_axis,
            barrier,
            sequential,
            self.facts | frozenset(facts),
        )

    def moves_in_lanes(self, axes: frozenset[int]) -> bool:
        """Whether a value that depends on the variables `axes` differs between lanes."""
        return self.lane_axis is not None and self.lane_axis.variable in axes

    # --- statements ---

    def accumulate(self, register: Reg, fn: str, value: Value) -> None:
        """register = fn(register, value)."""
        self.assign(register, CpuCall(fn, (register, value), register.dtype))

    def loop(
        self,
        body: CpuBlock,
        variable: int,
        start: AxisExpr,
        stop: AxisExpr,
        step: int = 1,
        limit: int | None = None,
        unroll: int = 1,
    ) -> None:
        """Adds the loop with the finished block `body`, without bounds that always hold; a copy in place of a loop that
        copies bytes."""
        if limit is not None:
            low, high = interval(stop, self.writer.box)
            stop, limit = (AxisExpr(limit), None) if low >= limit else (stop, limit if high > limit else None)
        loop = CpuFor(variable, start, stop, tuple(body.statements), step, limit, unroll)
        self.add(as_copy(loop, self.writer.lanes))

    def guard(self, body: CpuBlock, conditions: Iterable[Within]) -> None:
        """Adds the statements of `body`, run where all conditions hold."""
        self.add(CpuIf(tuple(conditions), tuple(body.statements)))

    def store(self, buffer: str, offset: AxisExpr, value: Value) -> None:
        """`value` to `buffer`, in the lanes that exist; one element where no lane axis moves the offset."""
        step = 1
        count: int | AxisExpr = 1
        if self.lane_axis is not None and self.lane_axis.variable in offset.axes:
            spacing = offset.coeff(self.lane_axis.variable)
            if spacing is None:
                raise AssertionError(f"the lanes of a store to {buffer} are not evenly spaced")
            step, count = spacing, self.lane_axis.count or self.writer.lanes
        whole = count == self.writer.lanes
        self.add(
            Store(
                self.writer.buffer(buffer),
                offset,
                value,
                None if whole else count,
                step,
            )
        )


def with_guard(block: CpuBlock, conditions: Sequence[Within], write: Callable[[CpuBlock], None]) -> None:
    """Adds the statements of `write`, which run where all conditions hold."""
    if not conditions:
        write(block)
        return
    inner = block.inner(barrier=True, facts=conditions)
    write(inner)
    block.guard(inner, conditions)


def loop_over(block: CpuBlock, name: str, count: int, write: Callable[[CpuBlock, AxisExpr], None]) -> None:
    """Calls write(body, number) in a loop over `count` numbers; without a loop where there is one."""
    if count == 1:
        write(block, ZERO)
        return
    variable = block.writer.variable(name, 0, count - 1)
    body = block.inner({variable})
    write(body, block.writer.axis(variable))
    block.loop(body, variable, ZERO, constant(count))
