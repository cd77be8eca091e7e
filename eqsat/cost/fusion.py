"""Seed 000 §11's difference of a fusion: what one kernel costs in place of several, and why.

Δtime = max( ΔFLOPs / (peak · occ · pipeline_eff), ΔBytes / (bandwidth · occ) ) + Δocc_time + penalties − saved
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eqsat.cost.roofline import Roofline
from ir.pricer import Parts, Work


class Fusion(msgspec.Struct, frozen=True):
    """ns by which one kernel is dearer than several, less than 0 where it is cheaper; the parts add up to `time`.

    arithmetic  ΔFLOPs and ΔBytes: the larger side of each maximum, as if all kernels kept as many units busy
    occupancy   Δocc_time: what the one kernel loses because it keeps fewer units busy, or gains
    penalties   fan-out, layout, and tiles read again: those of the one less those of the several
    saved       buffers that no longer pass through memory, as a time; it counts in `arithmetic` where memory was what
                a kernel waited for
    launches    of the kernels that are gone
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
    """What the kernel `one` costs more than the kernels `several` whose work it does."""
    whole, parts = roofline.estimate(one), [roofline.estimate(each) for each in several]
    at_level = roofline.estimate(msgspec.structs.replace(one, occupancy=_occupancy(several)))
    after, flat, before = _free(whole), _free(at_level), sum(map(_free, parts))
    penalties = (_busy(whole) - after) - sum(_busy(each) - _free(each) for each in parts)
    moved = sum(each.bytes for each in several) - one.bytes
    return Fusion(
        arithmetic=flat - before,
        occupancy=after - flat,
        penalties=penalties,
        saved=roofline.transfer_ns(max(0.0, moved)),
        launches=whole.launch - sum(each.launch for each in parts),
    )


def _free(parts: Parts) -> float:
    """The time without penalties and launch."""
    return max(parts.compute, parts.memory)


def _busy(parts: Parts) -> float:
    """The time without launch."""
    return parts.time - parts.launch


def _occupancy(several: Sequence[Work]) -> float:
    """The share of the units that several kernels keep busy on the whole, weighed by what they compute and move."""
    weights = [each.flops + each.recomputed + each.bytes for each in several]
    return sum(weights) / sum(weight / each.occupancy for weight, each in zip(weights, several, strict=True))
