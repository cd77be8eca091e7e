"""How a module's kernels are launched: which C function runs on which tensors, in order."""

from __future__ import annotations

import msgspec

UNBOUND = "unbound".ljust(64, "-")
"""Where a text names its contract, the launches and buffers that it was written for, until that is known."""


class Packing(msgspec.Struct, frozen=True):
    """A constant kept in the order in which kernels read it: `function` fills `slot` (`elements` of `dtype`) from the
    constants `sources`, once, when the program is built."""

    slot: str
    dtype: str
    elements: int
    function: str
    sources: tuple[str, ...]


class Geometry(msgspec.Struct, frozen=True):
    """What a GPU is asked for at a launch: `grid` blocks of `threads` threads, `shared_bytes` of dynamic shared memory
    for each block."""

    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int


class WorkspacePiece(msgspec.Struct, frozen=True):
    """`nbytes` of a workspace from byte `start` on: of its counters where it `counts`, else of its shared bytes."""

    start: int
    nbytes: int
    counts: bool = False


class Launch(msgspec.Struct, frozen=True):
    """One kernel launch: `args` are slots of the module, or packed constants, in the order of its parameters;
    `geometry` is that of a GPU's kernel, and `pieces` are what such a kernel takes of the workspace, behind `args`."""

    function: str
    args: tuple[str, ...]
    geometry: Geometry | None = None
    pieces: tuple[WorkspacePiece, ...] = ()


class Workspace(msgspec.Struct, frozen=True):
    """Memory that a launch works in besides its arguments, in bytes: what all its tasks share, what each thread has for
    itself, and counters, which are 0 before each launch and after it."""

    shared: int = 0
    private: int = 0
    counters: int = 0

    def __or__(self, other: Workspace) -> Workspace:
        """Enough for either."""
        pairs = ((self.shared, other.shared), (self.private, other.private), (self.counters, other.counters))
        return Workspace(*map(max, pairs))


class LaunchTable(msgspec.Struct, frozen=True):
    """All launches of a module's run-time calls, in order, and the constants packed for them; `workspace` is enough
    for each of them, one at a time."""

    launches: tuple[Launch, ...]
    packings: tuple[Packing, ...]
    workspace: Workspace
