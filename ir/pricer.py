"""The protocol by which extraction learns what a kernel costs, without knowing how kernels are made."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ir.diagnostics import Kind
from ir.plan.plan import Plan
from ir.region.region import Region


class Work(msgspec.Struct, frozen=True):
    """What one plan makes the machine do: the inputs of seed 000 §11.

    flops        additions-worth, each value once, the padding of tiles included; compute_dtype: whose peak counts
    bytes        to and from memory, each element once
    occupancy    share of the machine's units that have work (0, 1]
    efficiency   share of the peak that the inner loop reaches, with all its lanes on neighbours (0, 1]
    recomputed   additions-worth beyond `flops`: values computed again under a broadcast, in another scope, per tile
    reread       cycles, all units together, of reading again, from a cache further away or from memory, what the
                 nearest one did not keep between tiles
    layout       cycles, all units together, lost to lanes that lie apart, to registers partly filled, to packing
    fanout       cycles, all units together, of keeping values on chip for several readers
    scratch      bytes on chip: a block's shared memory, a task's workspace
    block_threads, thread_registers
                 of a GPU's block and thread; 0 on a CPU
    independent  instructions that a thread can have under way at once, none of which waits for another
    parallel     whether units share the kernel, and it costs a fork and join
    """

    flops: float
    bytes: float
    compute_dtype: str
    occupancy: float
    efficiency: float
    recomputed: float = 0.0
    reread: float = 0.0
    layout: float = 0.0
    fanout: float = 0.0
    scratch: int = 0
    block_threads: int = 0
    thread_registers: int = 0
    independent: float = 1.0
    parallel: bool = True


class Parts(msgspec.Struct, frozen=True):
    """What a time consists of, in ns: max(compute + reread + layout + fanout, memory) + launch.

    Penalties take a unit's time, as arithmetic does: what it waits for memory anyhow hides them. (Seed 000 §11 adds
    them to the maximum; so added, kernels that memory binds measure as little as half their price.)"""

    compute: float
    memory: float
    reread: float
    layout: float
    fanout: float
    launch: float

    @property
    def time(self) -> float:
        return max(self.compute + sum(self.penalties), self.memory) + self.launch

    @property
    def penalties(self) -> tuple[float, float, float]:
        return self.reread, self.layout, self.fanout

    @property
    def bound(self) -> str:
        """The name of the largest part."""
        return max(self.__struct_fields__, key=lambda name: float(getattr(self, name)))


class Price(msgspec.Struct, frozen=True):
    """The best plan of a region and §11's time for it, in ns; `stops` names the STOP conditions that it meets."""

    time_ns: float
    plan: Plan
    work: Work
    parts: Parts
    stops: tuple[str, ...] = ()

    @property
    def bound(self) -> str:
        """The largest part of the time."""
        return self.parts.bound


class Rejected(msgspec.Struct, frozen=True):
    """Why a region can not be one kernel, and the kind of diagnostic that says so."""

    reason: str
    kind: Kind = Kind.UNSUPPORTED_OP


class Pricer(Protocol):
    """Prices candidate kernels. `ordered`: all its plans take the terms of floating-point sums in index order."""

    ordered: bool

    def price(self, region: Region) -> Price | Rejected:
        """The price of the region by its own best plan; the answer depends on its canonical form alone."""
        ...

    def lower_bound(self, flops: float, bytes_moved: float) -> float:
        """A time in ns that no plan of such a kernel can beat; needs no plan."""
        ...
