"""How a module's kernels are launched: which C function runs on which tensors, in order."""

from __future__ import annotations

import msgspec


class Packing(msgspec.Struct, frozen=True):
    """A constant kept in the order in which kernels read it: `function` fills `slot` (`elements` of `dtype`) from the
    constants `sources`, once, when the program is built."""

    slot: str
    dtype: str
    elements: int
    function: str
    sources: tuple[str, ...]


class Launch(msgspec.Struct, frozen=True):
    """One kernel launch: `args` are slots of the module, or packed constants, in the order of its parameters."""

    function: str
    args: tuple[str, ...]


class LaunchTable(msgspec.Struct, frozen=True):
    """All launches of a module's run-time calls, in order, and the constants packed for them."""

    launches: tuple[Launch, ...]
    packings: tuple[Packing, ...]
