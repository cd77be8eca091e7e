"""CPU dialect: a kernel as a tree of typed statements over vectors of `lanes` elements.

A kernel has variables (integers: loop counters, tile origins) with known ranges; every offset and bound is an
`AxisExpr` over their numbers, so that strides are literals and accesses can be proved inside their buffers.
Values are registers of `lanes` elements whatever the dtype (fp16 and bf16 live rounded in fp32 lanes); a scalar
is a register whose lanes are equal. Loads and stores say which lanes touch memory: the others never do.

    kernel softmax lanes=16 (x: fp32[8192], y: fp32[8192] out)
      phase t in 0..8
        for i in 16*t .. 16*t + 16
          m = fp32 -inf
          for r in 0 .. 512 step 16
            m = max(m, x[512*i + r : unit])
"""

from __future__ import annotations

import msgspec

from ir.dtype import DTYPES
from ir.index.expr import Box
from ir.kernel.cpu.nodes import Stmt
from ir.kernel.cpu.text import CpuPrinter
from ir.kernel.nodes import Variable
from ir.module.launch import Workspace

LINE_BYTES = 64
"""A cache line: scratch buffers share none."""


class CpuParam(msgspec.Struct, frozen=True):
    """A buffer the caller passes: `dtype` and number of elements in memory."""

    name: str
    dtype: str
    elements: int
    written: bool = False


class Scratch(msgspec.Struct, frozen=True):
    """A buffer of the kernel's own, in the workspace that the caller passes; not initialised."""

    name: str
    dtype: str
    elements: int

    @property
    def nbytes(self) -> int:
        """Its place in a workspace: whole cache lines."""
        return -(-self.elements * DTYPES[self.dtype].bytes // LINE_BYTES) * LINE_BYTES


class Phase(msgspec.Struct, frozen=True):
    """`tasks` independent runs of `body`, `variable` numbering them; a phase starts when the one before ended."""

    variable: int
    tasks: int
    body: tuple[Stmt, ...]


class CpuKernel(msgspec.Struct, frozen=True):
    """`params` are the region's inputs, then its outputs. `shared` scratch lives through all phases and is seen
    by all tasks; of `private` scratch every thread has its own, and what a task leaves there is lost. `comment` is
    printed above the text."""

    name: str
    lanes: int
    params: tuple[CpuParam, ...]
    variables: tuple[Variable, ...]
    phases: tuple[Phase, ...]
    shared: tuple[Scratch, ...] = ()
    private: tuple[Scratch, ...] = ()
    comment: str = ""

    @property
    def buffers(self) -> tuple[CpuParam | Scratch, ...]:
        """What the phases see."""
        return (*self.params, *self.shared, *self.private)

    @property
    def workspace(self) -> Workspace:
        """The memory that a call needs besides its params."""
        return Workspace(sum(each.nbytes for each in self.shared), sum(each.nbytes for each in self.private))

    @property
    def box(self) -> Box:
        """The ranges of the variables, as `ir.index.expr` takes them."""
        return tuple((each.low, each.high) for each in self.variables)

    def __str__(self) -> str:
        """The kernel as indented lines, as in the example above."""
        printer = CpuPrinter(self.variables)
        params = ", ".join(f"{each.name}: {each.dtype}[{each.elements}]{' out' * each.written}" for each in self.params)
        lines = [f"kernel {self.name} lanes={self.lanes} ({params})"]
        for role, buffers in (("shared", self.shared), ("private", self.private)):
            lines += [f"  {role} {each.name}: {each.dtype}[{each.elements}]" for each in buffers]
        for phase in self.phases:
            lines.append(f"  phase {printer.variable(phase.variable)} in 0 .. {phase.tasks}")
            lines += printer.block(phase.body, 2)
        return "\n".join(lines)
