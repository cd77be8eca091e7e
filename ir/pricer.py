"""The protocol by which extraction learns what a kernel costs, without knowing how kernels are made."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ir.diagnostics import Kind
from ir.plan import Plan
from ir.region import Region


class Work(msgspec.Struct, frozen=True):
    """What one plan makes the machine do: §11's inputs.

    flops: executed, recomputation and padding of tiles included; compute_dtype: whose peak counts.
    bytes: moved to and from memory. occupancy: share of the machine's units kept busy (0, 1].
    efficiency: share of the peak that the inner loop can reach (0, 1].
    """

    flops: float
    bytes: float
    compute_dtype: str
    occupancy: float
    efficiency: float


class Price(msgspec.Struct, frozen=True):
    """The best plan of a region and §11's time for it, in ns."""

    time_ns: float
    plan: Plan
    work: Work
    bound: str


class Rejected(msgspec.Struct, frozen=True):
    """Why a region can not be one kernel, and the kind of diagnostic that says so."""

    reason: str
    kind: Kind = Kind.UNSUPPORTED_OP


class Pricer(Protocol):
    """Prices candidate kernels."""

    def price(self, region: Region) -> Price | Rejected:
        """The price of the region by its own best plan; the answer depends on its canonical form alone."""
        ...

    def lower_bound(self, flops: float, bytes_moved: float) -> float:
        """A time in ns that no plan of such a kernel can beat; needs no plan."""
        ...
