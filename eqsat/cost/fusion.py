"""The change of time by a fusion, part by part, by the cost model of seed 000 §11.

Δtime = max( ΔFLOPs / (peak · occ · pipeline_eff), ΔBytes / (bandwidth · occ) ) + Δocc_time + penalties − saved
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eqsat.cost.roofline import Roofline
from ir.pricer import Parts, Work


class Fusion(msgspec.Struct, frozen=True):
    """Time of one kernel minus time of the several that it replaces, in ns. The parts add up to `time`, except `saved`.

    arithmetic  ΔFLOPs and ΔBytes: the larger side of each maximum, as if all kernels kept as many units busy
    occupancy   Δocc_time: the loss or gain because the one kernel keeps fewer or more units busy
    penalties   fan-out, layout, and tiles read again: of the one kernel minus the several
    saved       time to move the buffers that no longer pass through memory; part of `arithmetic` where a kernel waited
                for memory
    launches    of the one kernel minus the several
    """

    arithmetic: float
    occupancy: float
    penalties: float
    saved: float
    launches: float

    @property
    def time(self) -> float:
        return self.arithmetic + self.occupancy + self.penalties + self.launches


def fusion(one: Work, several: Sequence[Work], roofline: Roofline) -> Fusion:
    """The change of time if the kernel `one` replaces the kernels `several`."""
    whole, parts = roofline.estimate(one), [roofline.estimate(work) for work in several]
    at_level = roofline.estimate(msgspec.structs.replace(one, occupancy=_occupancy(several)))
    after, flat, before = _without_penalties(whole), _without_penalties(at_level), sum(map(_without_penalties, parts))
    penalties = (_without_launch(whole) - after) - sum(
        _without_launch(part) - _without_penalties(part) for part in parts
    )
    moved = sum(work.bytes for work in several) - one.bytes
    return Fusion(
        arithmetic=flat - before,
        occupancy=after - flat,
        penalties=penalties,
        saved=roofline.transfer_ns(max(0.0, moved)),
        launches=whole.launch - sum(part.launch for part in parts),
    )


def _without_penalties(parts: Parts) -> float:
    """The time without penalties and launch."""
    return max(parts.compute, parts.memory)


def _without_launch(parts: Parts) -> float:
    """The time without launch."""
    return parts.time - parts.launch


def _occupancy(several: Sequence[Work]) -> float:
    """The mean occupancy of several kernels, weighed by what they compute and move."""
    weights = [work.flops + work.recomputed + work.bytes for work in several]
    return sum(weights) / sum(weight / work.occupancy for weight, work in zip(weights, several, strict=True))
