"""CPU dialect: a kernel as a tree of typed statements over vectors of `lanes` elements.

The variables of a kernel are integers with known ranges: loop counters, tile origins. Every offset and bound is an
`AxisExpr` over their numbers, so that strides are literals and accesses can be proved inside their buffers. A value is
a register of `lanes` elements for every dtype: fp16 and bf16 are held in fp32 lanes, rounded. A scalar is a register
with equal lanes. Loads and stores name the lanes that touch memory; the other lanes never do.

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
from ir.kernel.workspace import Workspace
from ir.target import CACHE_LINE_BYTES


class CpuParam(msgspec.Struct, frozen=True):
    """A buffer that the caller passes: dtype and number of elements in memory. noalias: whether no other one shares its
    memory."""

    name: str
    dtype: str
    elements: int
    written: bool = False
    noalias: bool = True


class Scratch(msgspec.Struct, frozen=True):
    """A buffer that only the kernel uses, in the workspace that the caller passes; not initialised."""

    name: str
    dtype: str
    elements: int

    @property
    def nbytes(self) -> int:
        """Bytes that the buffer takes in a workspace: whole cache lines, since buffers share none."""
        return -(-self.elements * DTYPES[self.dtype].bytes // CACHE_LINE_BYTES) * CACHE_LINE_BYTES


class Phase(msgspec.Struct, frozen=True):
    """`tasks` independent runs of `body`, numbered by `variable`. A phase starts when the one before it has ended."""

    variable: int
    tasks: int
    body: tuple[Stmt, ...]


class CpuKernel(msgspec.Struct, frozen=True):
    """`params` are the region's inputs, then its outputs. `shared` scratch lives through all phases and all tasks see
    it. Every thread has its own `private` scratch, whose contents do not survive a task. `comment` is printed above
    the text."""

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
        """All buffers that the phases may access."""
        return (*self.params, *self.shared, *self.private)

    @property
    def workspace(self) -> Workspace:
        """The memory that a call needs besides its params."""
        return Workspace(
            sum(scratch.nbytes for scratch in self.shared), sum(scratch.nbytes for scratch in self.private)
        )

    @property
    def box(self) -> Box:
        """The ranges of the variables, as `ir.index.expr` takes them."""
        return tuple((variable.low, variable.high) for variable in self.variables)

    def __str__(self) -> str:
        """The kernel as indented lines, as in the example above."""
        printer = CpuPrinter(self.variables)
        params = ", ".join(
            f"{param.name}: {param.dtype}[{param.elements}]{' out' * param.written}" for param in self.params
        )
        lines = [f"kernel {self.name} lanes={self.lanes} ({params})"]
        for role, buffers in (("shared", self.shared), ("private", self.private)):
            lines += [f"  {role} {scratch.name}: {scratch.dtype}[{scratch.elements}]" for scratch in buffers]
        for phase in self.phases:
            lines.append(f"  phase {printer.variable(phase.variable)} in 0 .. {phase.tasks}")
            lines += printer.block(phase.body, 2)
        return "\n".join(lines)
