"""GPU dialect: a kernel as a tree of typed statements that every thread of a block executes.

Indices are `AxisExpr`s over the kernel's variables, whose ranges are known. The first six variables are the thread's
place in block and grid (`IDS`). Buffers in memory and shared memory are accessed by coordinates, so that strides are
literals, and bounds, alignment and asynchrony can be proved (`ir.kernel.gpu.verify`). Values are scalars of one thread;
fp16 and bf16 are held in fp32, rounded. Register arrays hold fragments; after unrolling their indices are constants.

    kernel gemm sm80 threads=128 grid=(2, 3, 1) (A: bf16[200, 64], B: bf16[64, 320], C: bf16[200, 320] out)
      shared As: bf16[3 stages of 128, 32] swizzle 2 at 0
      registers acc: fp32[64] zero
      for k in 0 .. 2
        wait_group 1
        barrier
        for i in 0 .. 4 unrolled
          ldmatrix x4 a[4*i] := As[k % 3][64*warp + 16*i + lane % 16, 8*(lane//16)]
          mma m16n8k16 bf16 acc[4*i] += a[4*i] · b[0]

Statements of SM90 (TMA, mbarrier, wgmma) will be further classes here; no stage above knows the architecture.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from ir.dtype import DTYPES
from ir.index.expr import Box
from ir.index.strides import row_major
from ir.kernel.gpu.nodes import Stmt
from ir.kernel.gpu.text import GpuPrinter
from ir.kernel.nodes import Variable

WARP_LANES = 32
IDS = ("thread", "lane", "warp", "block_x", "block_y", "block_z")
"""The first variables of every kernel: `thread` in the block, its `lane` and `warp`, the block's place in the grid."""
THREAD, LANE, WARP, BLOCK_X, BLOCK_Y, BLOCK_Z = range(len(IDS))
WORD = "word"
"""The dtype of a register of 32 raw bits: two halves, or a tf32."""
COUNTER = "counter"
"""The dtype of 32-bit counters of blocks: 0 before and after a launch, accessed by `TakeTicket` and `AwaitTicket`
alone."""
COUNTER_BYTES = 4
SWIZZLE_ATOM = 128
"""Bytes. A swizzle permutes the 16-byte chunks of so many; the pattern repeats after 2^bits of them."""

GLOBAL_ALIGNMENT = 16
"""Bytes. Every buffer in global memory starts at a multiple of them."""


class GpuParam(msgspec.Struct, frozen=True):
    """A buffer in global memory, row-major; it starts at a multiple of `alignment` bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    written: bool = False
    alignment: int = GLOBAL_ALIGNMENT

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride of every axis, in elements."""
        return row_major(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * (COUNTER_BYTES if self.dtype == COUNTER else DTYPES[self.dtype].bytes)


class Shared(msgspec.Struct, frozen=True):
    """`stages` row-major arrays in a block's shared memory, from byte `start` on. Buffers may overlap.

    pitch: elements from one row of the last axis to the next (None: no padding). swizzle: the 16-byte chunks of 2^bits
    rows of 128 bytes are permuted (`eq_swizzle`). scope: "warp" if every warp uses a part of its own, so that a
    SyncWarp orders the accesses.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stages: int = 1
    pitch: int | None = None
    swizzle: int = 0
    scope: Literal["block", "warp"] = "block"

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride of every axis of a stage, in elements."""
        return row_major((*self.shape[:-1], self.pitch or self.shape[-1]))

    @property
    def period(self) -> int:
        """Bytes after which the swizzle repeats. `start` and `stage_bytes` are multiples of it."""
        return SWIZZLE_ATOM << self.swizzle if self.swizzle else 16

    @property
    def stage_bytes(self) -> int:
        """Bytes from one stage to the next."""
        elements = math.prod((*self.shape[:-1], self.pitch or self.shape[-1]))
        return -(-elements * DTYPES[self.dtype].bytes // self.period) * self.period

    @property
    def end(self) -> int:
        """The byte after the last stage."""
        return self.start + self.stages * self.stage_bytes

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        stages = f"{self.stages} stages of " if self.stages > 1 else ""
        pitch = f" pitch {self.pitch}" if self.pitch else ""
        swizzle = f" swizzle {self.swizzle}" if self.swizzle else ""
        scope = " per warp" if self.scope == "warp" else ""
        return f"{self.name}: {self.dtype}[{stages}{shape}]{pitch}{swizzle}{scope} at {self.start}"


class Registers(msgspec.Struct, frozen=True):
    """An array in a thread's registers, zeroed at the start if `zero`. dtype: a register's, or `WORD`."""

    name: str
    dtype: str
    count: int
    zero: bool = False


class GpuKernel(msgspec.Struct, frozen=True):
    """One launch: `grid` blocks of `threads` threads (whole warps); an SM holds at least `min_blocks` blocks. `params`
    are the region's inputs, then its outputs. `workspace` follows them: memory through which blocks exchange results,
    uninitialised except for counters, which are 0. `arch` is the least architecture that runs the kernel: "sm80" or
    "sm90". `comment` is printed above the text."""

    name: str
    arch: str
    threads: int
    grid: tuple[int, int, int]
    params: tuple[GpuParam, ...]
    variables: tuple[Variable, ...]
    body: tuple[Stmt, ...]
    shared: tuple[Shared, ...] = ()
    registers: tuple[Registers, ...] = ()
    min_blocks: int = 1
    comment: str = ""
    workspace: tuple[GpuParam, ...] = ()

    @property
    def memory(self) -> tuple[GpuParam, ...]:
        """All buffers in global memory, in the order of the text's parameters."""
        return (*self.params, *self.workspace)

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory of a block."""
        return max((shared.end for shared in self.shared), default=0)

    @property
    def box(self) -> Box:
        """The ranges of the variables, as `ir.index.expr` takes them."""
        return tuple((variable.low, variable.high) for variable in self.variables)

    def __str__(self) -> str:
        """The kernel as indented lines, as in the example above."""
        params = ", ".join(
            f"{param.name}: {param.dtype}{list(param.shape)}{' out' * param.written}" for param in self.params
        )
        lines = [f"kernel {self.name} {self.arch} threads={self.threads} grid={self.grid} ({params})"]
        lines += [f"  workspace {buffer.name}: {buffer.dtype}{list(buffer.shape)}" for buffer in self.workspace]
        lines += [f"  shared {shared}" for shared in self.shared]
        lines += [
            f"  registers {array.name}: {array.dtype}[{array.count}]{' zero' * array.zero}" for array in self.registers
        ]
        return "\n".join([*lines, *GpuPrinter(self.variables).block(self.body, 1)])


def id_variables(threads: int, grid: tuple[int, int, int]) -> tuple[Variable, ...]:
    """The variables that every kernel starts with, with their ranges."""
    highest = (threads - 1, WARP_LANES - 1, threads // WARP_LANES - 1, *(blocks - 1 for blocks in grid))
    return tuple(Variable(name, 0, high) for name, high in zip(IDS, highest, strict=True))
