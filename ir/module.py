"""The whole program after extraction: regions in order, the buffers between them, their lifetimes."""

from __future__ import annotations

from typing import Literal

import msgspec

from ir.region import MemRef, Region


class Slot(msgspec.Struct, frozen=True):
    """A tensor of the program and where it lives.

    role: "input" and "output" are the caller's, "constant" is known at compile time, "arena" lives from
    `first` to `last` (positions in `Module.calls`) at byte `offset` of the arena.
    """

    name: str
    memref: MemRef
    role: Literal["input", "output", "constant", "arena"]
    first: int = 0
    last: int = 0
    offset: int = 0


class Call(msgspec.Struct, frozen=True):
    """A region applied: `args` are slot names for the region's inputs then outputs.

    `when` is "compile" for a region that reads constants only: it runs once, when the program is built.
    """

    region: Region
    args: tuple[str, ...]
    when: Literal["compile", "run"] = "run"
    uops: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class Module(msgspec.Struct, frozen=True):
    """The program. `outputs` maps each program output, in order, to the slot that holds it (an input or a
    constant may be an output: the runtime copies it)."""

    name: str
    slots: tuple[Slot, ...]
    calls: tuple[Call, ...]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    arena_bytes: int = 0
