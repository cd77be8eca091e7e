"""The resources that a compiled GPU kernel takes of an SM, as its compiler reports them."""

from __future__ import annotations

import msgspec


class KernelResources(msgspec.Struct, frozen=True):
    """Per thread: `registers` of 32 bits, bytes of `stack`, bytes that stores spill and loads read back. Per block:
    `barriers` (an SM has 16) and bytes of `static_shared` memory, without the dynamic memory of a launch. `lints` are
    the compiler's remarks on lost performance, as `C7511: …`."""

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
