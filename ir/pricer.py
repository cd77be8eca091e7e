"""The protocol by which extraction prices a kernel without knowing how kernels are made."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ir.diagnostics import Kind
from ir.plan.plan import Plan
from ir.region.region import Region


class Work(msgspec.Struct, frozen=True):
    """The work of one plan on the machine: the inputs of seed 000 §11.

    flops        in additions, each value once, the padding of tiles included; compute_dtype: the dtype of the peak
    bytes        to and from memory, each element once
    occupancy    share of the machine's units that have work (0, 1]
    efficiency   share of the peak that the inner loop reaches with all lanes on neighbours (0, 1]
    recomputed   in additions, beyond `flops`: values computed again under a broadcast, in another scope, per tile
    reread       cycles of all units together for reading again what the nearest cache did not keep between tiles, from
                 a cache further away or from memory; and for cache lines that CPU cores exchange
    layout       cycles of all units together lost to lanes that lie apart, registers partly filled, packing
    fanout       cycles of all units together for keeping values on chip for several readers
    scratch      bytes on chip: a block's shared memory, a task's workspace
    block_threads, thread_registers
                 threads of a GPU's block and registers of its thread; 0 on a CPU
    independent  instructions of a thread that can be in flight at once, none of which waits for another
    parallel     whether units share the kernel, which costs a fork and join
    cold_bytes   the part of `bytes` that comes from memory, whatever the caches hold
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
    cold_bytes: float = 0.0


class Parts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parts of a time, in ns: max(compute + reread + layout + fanout, memory) + launch + own.

    own: the terms that a caller added, by name.

    Penalties take a unit's time, as arithmetic does, and are hidden while the unit waits for memory. Seed 000 §11 adds
    them to the maximum instead; measured times of kernels bound by memory were then as little as half their price."""

    compute: float
    memory: float
    reread: float
    layout: float
    fanout: float
    launch: float
    own: tuple[tuple[str, float], ...] = ()

    @property
    def time(self) -> float:
        return max(self.compute + sum(self.penalties), self.memory) + self.launch + sum(ns for _, ns in self.own)

    @property
    def penalties(self) -> tuple[float, float, float]:
        return self.reread, self.layout, self.fanout

    @property
    def bound(self) -> str:
        """The name of the largest part."""
        times = {name: getattr(self, name) for name in self.__struct_fields__ if name != "own"} | dict(self.own)
        return max(times, key=lambda name: float(times[name]))


class Price(msgspec.Struct, frozen=True):
    """The best plan of a region and its time by §11, in ns; `stops` names the STOP conditions that the region meets."""

    time_ns: float
    plan: Plan
    work: Work
    parts: Parts
    stops: tuple[str, ...] = ()

    @property
    def bound(self) -> str:
        """The largest part of the time."""
        return self.parts.bound

    @property
    def is_idle(self) -> bool:
        """Whether the kernel counts as if it did not run: a copy that is likely to be left out in the end."""
        return self.time_ns < self.parts.time

    def idle(self, time_ns: float = 0.0) -> Price:
        """The price of a copy that is likely to be left out."""
        return msgspec.structs.replace(self, time_ns=min(time_ns, self.parts.time))


class Rejected(msgspec.Struct, frozen=True):
    """A region that cannot be one kernel: the reason, and the kind of the diagnostic."""

    reason: str
    kind: Kind = Kind.UNSUPPORTED_OP


class Pricer(Protocol):
    """Prices candidate kernels. `ordered`: all its plans add the terms of floating-point sums in index order."""

    ordered: bool

    def price(self, region: Region) -> Price | Rejected:
        """The price of the region by its best plan; it depends on the region's canonical form alone."""
        ...

    def lower_bound(self, flops: float, bytes_moved: float, narrow: bool = True) -> float:
        """A lower bound in ns on the time of every plan of such a kernel; needs no plan. narrow: whether the kernel may
        multiply numbers of the narrow dtypes that have peaks of their own."""
        ...
