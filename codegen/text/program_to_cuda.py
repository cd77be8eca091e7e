"""A module and its GPU kernels → one text per kernel, and the table that launches them.

A text stands for itself: a kernel that two programs share is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from codegen.text.gpu_to_cuda import cuda_text
from ir.gpu import Kernel
from ir.launch import Geometry, Launch, LaunchTable, Workspace
from ir.module import Module


def launch_table(module: Module, lowered: Mapping[str, Kernel]) -> LaunchTable:
    """The launches of the run-time calls. `lowered` is by region name, which is unique in a module."""
    launches = (_launch(lowered[call.region.name], call.args) for call in module.running)
    return LaunchTable(tuple(launches), (), Workspace())


def kernel_texts(lowered: Iterable[Kernel]) -> dict[str, str]:
    """The text of every kernel by function name, without the prelude: what is compiled, and what people read."""
    return {kernel.name: cuda_text(kernel) for kernel in lowered}


def _launch(kernel: Kernel, args: tuple[str, ...]) -> Launch:
    return Launch(kernel.name, args, Geometry(kernel.grid, kernel.threads, kernel.shared_bytes))
