"""The launches of a module's kernels: which function runs on which tensors, in order."""

from __future__ import annotations

import msgspec

from ir.kernel.workspace import Workspace
from ir.module.loop import Loop

UNBOUND = "unbound".ljust(64, "-")
"""Stands in a kernel's text until its contract is known: the hash of the launches and buffers of the text."""


class Packing(msgspec.Struct, frozen=True):
    """A constant stored in the order in which kernels read it. When the program is built, `function` fills `slot`
    (`elements` of `dtype`) once from the constants `sources`."""

    slot: str
    dtype: str
    elements: int
    function: str
    sources: tuple[str, ...]


class Geometry(msgspec.Struct, frozen=True):
    """The size of a GPU launch: `grid` blocks of `threads` threads, with `shared_bytes` of dynamic shared memory per
    block."""

    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int


class WorkspacePiece(msgspec.Struct, frozen=True):
    """`nbytes` of a workspace from byte `start` on: of its counters if `counts`, else of its shared bytes."""

    start: int
    nbytes: int
    counts: bool = False


class Launch(msgspec.Struct, frozen=True):
    """One kernel launch. `args` are slots of the module, or packed constants, in the order of the parameters. A GPU
    launch has a `geometry`, and `pieces` of the workspace as further arguments."""

    function: str
    args: tuple[str, ...]
    geometry: Geometry | None = None
    pieces: tuple[WorkspacePiece, ...] = ()


class LaunchTable(msgspec.Struct, frozen=True):
    """All launches of a call of the module, in order, and the constants packed for them. `workspace` is large enough
    for every launch; launches use it one after another. loops: those of the module, which repeat launches."""

    launches: tuple[Launch, ...]
    packings: tuple[Packing, ...]
    workspace: Workspace
    loops: tuple[Loop, ...] = ()
