"""GPU dialect: a kernel as a tree of typed statements that every thread of a block executes.

Indices are `AxisExpr`s over the kernel's variables, whose ranges are known; the first six are where a thread stands
(`IDS`). Buffers in memory and in shared memory are read and written at coordinates, so that strides are literals, and
bounds, alignment and asynchrony can be proved (`ir.kernel.gpu.verify`). Values are scalars of one thread (fp16 and bf16
live rounded in fp32); register arrays hold fragments, and their indices are constants once loops are unrolled.

    kernel gemm sm80 threads=128 grid=(2, 3, 1) (A: bf16[200, 64], B: bf16[64, 320], C: bf16[200, 320] out)
      shared As: bf16[3 stages of 128, 32] swizzle 2 at 0
      registers acc: fp32[64] zero
      for k in 0 .. 2
        wait_group 1
        barrier
        for i in 0 .. 4 unrolled
          ldmatrix x4 a[4*i] := As[k % 3][64*warp + 16*i + lane % 16, 8*(lane//16)]
          mma m16n8k16 bf16 acc[4*i] += a[4*i] · b[0]

Statements of SM90 (TMA, mbarrier, wgmma) join these as a branch; nothing above this dialect knows the architecture.
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
"""The first variables of every kernel: `thread` of the block, its `lane` and `warp`, the block's place in the grid."""
THREAD, LANE, WARP, BLOCK_X, BLOCK_Y, BLOCK_Z = range(len(IDS))
WORD = "word"
"""The dtype of registers that hold 32 bits as they stand: two halves, or a tf32."""
COUNTER = "counter"
"""The dtype of 32 bits in memory that count blocks: 0 before a launch and after it, touched by `TakeTicket` alone."""
COUNTER_BYTES = 4
SWIZZLE_ATOM = 128
"""Bytes of which swizzles permute the 16-byte chunks; the pattern repeats after 2^bits of them."""


class GpuParam(msgspec.Struct, frozen=True):
    """A buffer in global memory, row-major; it starts at a multiple of `alignment` bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    written: bool = False
    alignment: int = 16

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one coordinate to the next, per axis."""
        return row_major(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * (COUNTER_BYTES if self.dtype == COUNTER else DTYPES[self.dtype].bytes)


class Shared(msgspec.Struct, frozen=True):
    """`stages` row-major arrays in a block's shared memory, from byte `start`; buffers may overlay each other.

    pitch: elements from one row of the last axis to the next (None: without padding). swizzle: 2^bits rows of 128
    bytes have their 16-byte chunks permuted (`eq_swizzle`). scope: "warp" where each warp keeps to a part of its own,
    so that a SyncWarp orders its accesses.
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
        """Elements from one coordinate to the next, per axis."""
        return row_major((*self.shape[:-1], self.pitch or self.shape[-1]))

    @property
    def period(self) -> int:
        """Bytes after which the swizzle repeats: what `start` and a stage are multiples of."""
        return SWIZZLE_ATOM << self.swizzle if self.swizzle else 16

    @property
    def stage_bytes(self) -> int:
        """From one stage to the next: whole periods."""
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
    """An array in a thread's registers; `zero`: it starts as zeros. dtype: a register's, or `WORD`."""

    name: str
    dtype: str
    count: int
    zero: bool = False


class GpuKernel(msgspec.Struct, frozen=True):
    """One launch: `grid` blocks of `threads` threads (whole warps), at least `min_blocks` of them at home on an SM.
    `params` are the region's inputs, then its outputs; `workspace`, behind them, is memory in which blocks meet: it
    holds anything, counters zeros. `arch` is the least that it runs on: "sm80", "sm90". `comment` is printed above the
    text."""

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
        """Dynamic shared memory of a block."""
        return max((each.end for each in self.shared), default=0)

    @property
    def box(self) -> Box:
        """The ranges of the variables, as `ir.index.expr` takes them."""
        return tuple((each.low, each.high) for each in self.variables)

    def __str__(self) -> str:
        """The kernel as indented lines, as in the example above."""
        params = ", ".join(
            f"{each.name}: {each.dtype}{list(each.shape)}{' out' * each.written}" for each in self.params
        )
        lines = [f"kernel {self.name} {self.arch} threads={self.threads} grid={self.grid} ({params})"]
        lines += [f"  workspace {each.name}: {each.dtype}{list(each.shape)}" for each in self.workspace]
        lines += [f"  shared {each}" for each in self.shared]
        lines += [
            f"  registers {each.name}: {each.dtype}[{each.count}]{' zero' * each.zero}" for each in self.registers
        ]
        return "\n".join([*lines, *GpuPrinter(self.variables).block(self.body, 1)])


def id_variables(threads: int, grid: tuple[int, int, int]) -> tuple[Variable, ...]:
    """The variables that every kernel starts with."""
    highest = (threads - 1, WARP_LANES - 1, threads // WARP_LANES - 1, *(each - 1 for each in grid))
    return tuple(Variable(name, 0, high) for name, high in zip(IDS, highest, strict=True))
