"""A module and its GPU kernels → one text per kernel, and the table that launches them.

A text does not depend on the others, so that a kernel that two programs share is compiled once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from operator import or_

from codegen.text.gpu_to_cuda import cuda_text
from ir.kernel.gpu.kernel import COUNTER, GpuKernel
from ir.kernel.workspace import Workspace
from ir.module.launch import Geometry, Launch, LaunchTable, WorkspacePiece
from ir.module.module import Module

_ALIGNMENT = 256
"""Alignment of a launch's buffers in the workspace, in bytes: that of an allocation."""


def launch_table(module: Module, lowered: Mapping[str, GpuKernel]) -> LaunchTable:
    """The launches of the run-time calls. `lowered` is by region name, which is unique in a module."""
    launches = tuple(_launch(lowered[call.region.name], call.args) for call in module.running)
    return LaunchTable(launches, (), functools.reduce(or_, map(_workspace, launches), Workspace()), module.loops)


def kernel_texts(lowered: Iterable[GpuKernel]) -> dict[str, str]:
    """The text of every kernel by function name, without the prelude."""
    return {kernel.name: cuda_text(kernel) for kernel in lowered}


def _launch(kernel: GpuKernel, args: tuple[str, ...]) -> Launch:
    geometry = Geometry(kernel.grid, kernel.threads, kernel.shared_bytes)
    return Launch(kernel.name, args, geometry, tuple(_pieces(kernel)))


def _pieces(kernel: GpuKernel) -> Iterator[WorkspacePiece]:
    """The buffers of the kernel's workspace, one after another; counters are in memory of their own."""
    ends = {True: 0, False: 0}
    for buffer in kernel.workspace:
        counts = buffer.dtype == COUNTER
        yield WorkspacePiece(ends[counts], buffer.nbytes, counts)
        ends[counts] += -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT


def _workspace(launch: Launch) -> Workspace:
    """The workspace that a launch needs."""
    ends = [(piece.start + piece.nbytes, piece.counts) for piece in launch.pieces]
    shared, counters = (max((end for end, counts in ends if counts is kind), default=0) for kind in (False, True))
    return Workspace(shared=shared, counters=counters)
