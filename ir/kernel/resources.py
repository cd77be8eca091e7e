"""What a compiled GPU kernel takes of an SM, as its compiler reports it."""

from __future__ import annotations

import msgspec


class KernelResources(msgspec.Struct, frozen=True):
    """Per thread: `registers` (32 bits each), bytes of `stack`, bytes spilled by stores and read back by loads. Per
    block: `barriers` (of 16), bytes of `static_shared` memory (what a launch adds is not known here). `lints` are the
    compiler's own remarks on lost performance, `C7511: …`."""

    name: str
    registers: int
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    barriers: int = 0
    static_shared: int = 0
    lints: tuple[str, ...] = ()

    @property
    def spills(self) -> bool:
        """Whether values that should stay in registers go through memory."""
        return self.spill_stores > 0 or self.spill_loads > 0
