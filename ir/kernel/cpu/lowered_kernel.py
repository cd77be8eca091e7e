"""The lowered form of one region for a CPU: the kernel, and the kernels that pack its constants."""

from __future__ import annotations

import msgspec

from ir.kernel.cpu.kernel import CpuKernel


class PackedConstant(msgspec.Struct, frozen=True):
    """A packed constant operand: a buffer `name` of so many `elements`. `kernel`, whose params are the constants
    `sources` and then `name`, fills it once, when the program is built."""

    name: str
    dtype: str
    elements: int
    sources: tuple[str, ...]
    kernel: CpuKernel


class LoweredCpuKernel(msgspec.Struct, frozen=True):
    """A region's kernel. `args`: the buffer of every one of `kernel.params`: the region's inputs that the kernel reads,
    the packed constants, then the outputs."""

    kernel: CpuKernel
    args: tuple[str, ...]
    packed: tuple[PackedConstant, ...] = ()

    def __str__(self) -> str:
        """The kernels that pack constants, then the kernel."""
        return "\n".join(map(str, (*(constant.kernel for constant in self.packed), self.kernel)))
