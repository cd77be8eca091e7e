"""Seed 000 §11: what one kernel costs.

    time = max( FLOPs / (peak · occ · pipeline_eff) + penalties,  Bytes / (bandwidth · occ) ) + launch

Each term has a name and a switch, so that an ablation can take it out and nothing else.
"""

from __future__ import annotations

import msgspec

from eqsat.cost.occupancy import resident_share
from ir.pricer import Parts, Work
from ir.target import Target
from ir.tiny.graph import Graph
from ir.uop.table import total_flops

NS = 1e9
FULL = 0.5
"""The share of a cache that one kernel's data may fill before lines are lost: to what the kernels before it left there,
and to others' work. Measured on a Zen 5 core: alone and in a loop, the second level keeps 0.75 MiB of 1."""


class Terms(msgspec.Struct, frozen=True):
    """Which terms of §11 count.

    compute, memory  the sides of the maximum
    launch           what a kernel costs before it does anything
    occupancy        occ: the share of the units that have work, and on a GPU of the threads that hide latency
    efficiency       pipeline_eff: what the inner loop reaches of the peak; else 1
    cache            bytes move at the bandwidth of the smallest cache that holds them; else at memory's
    reuse            penalty: what the nearest cache does not keep between tiles is read again from further away
    recompute        values are computed again under a broadcast, in another scope, per tile
    layout           penalty: lanes that lie apart, registers partly filled (vectorize), packing, TMA and WGMMA shapes
    fanout           penalty: values kept on chip for several readers
    stop             plans that meet a STOP condition are left where another does not
    joining          one kernel may write several outputs; else each is written by its own
    relayout         buffers between kernels may lie in other orders of their axes; else all are row-major
    """

    compute: bool = True
    memory: bool = True
    launch: bool = True
    occupancy: bool = True
    efficiency: bool = True
    cache: bool = True
    reuse: bool = True
    recompute: bool = True
    layout: bool = True
    fanout: bool = True
    stop: bool = True
    joining: bool = True
    relayout: bool = True


ALL_TERMS = Terms()


class Roofline:
    """§11 on one machine. What does not depend on the kernel is worked out once: a search asks tens of thousands of
    times."""

    def __init__(self, target: Target, terms: Terms = ALL_TERMS) -> None:
        self.target, self.terms = target, terms
        self._best_peak = max(target.peak_flops.values())
        self._cycle_ns = target.cycle_ns / target.units
        self._caches = _caches(target) if terms.cache else ()
        self._alone = target.unit_bandwidth or target.bandwidth / target.units
        calls = [target.launch_ns] if target.call_ns is None else [target.launch_ns, target.call_ns]
        self._launch = (max(calls), min(calls)) if terms.launch else (0.0, 0.0)

    def estimate(self, work: Work) -> Parts:
        """The time of one plan's work, part by part, in ns."""
        terms = self.terms
        occupancy = work.occupancy * resident_share(work, self.target) if terms.occupancy else 1.0
        reached = peak(self.target, work.compute_dtype) * occupancy * (work.efficiency if terms.efficiency else 1.0)
        flops = work.flops + work.recomputed if terms.recompute else work.flops
        cycle = self._cycle_ns / occupancy
        return Parts(
            compute=flops / reached * NS if terms.compute else 0.0,
            memory=self.transfer_ns(work.bytes, occupancy) if terms.memory else 0.0,
            reread=work.reread * cycle if terms.reuse else 0.0,
            layout=work.layout * cycle if terms.layout else 0.0,
            fanout=work.fanout * cycle if terms.fanout else 0.0,
            launch=self._launch[0 if work.parallel else 1],
        )

    def lower_bound(self, flops: float, bytes_moved: float) -> float:
        """A time in ns that no plan can beat: every unit busy, at the highest peak of the machine."""
        compute = flops / self._best_peak * NS if self.terms.compute else 0.0
        memory = self.transfer_ns(bytes_moved) if self.terms.memory else 0.0
        return max(compute, memory) + self._launch[1]

    def transfer_ns(self, bytes_moved: float, occupancy: float = 1.0) -> float:
        """The time to move so many bytes: what a cache holds at its bandwidth, the rest at memory's, of which one unit
        alone may draw more than its share.

        A kernel's operands come from kernels before it and its results are read by those after it: a cache holds them
        all while they fill `FULL` of it, and none beyond its size."""
        seconds, left = 0.0, bytes_moved
        for size, bandwidth in self._caches:
            held = bytes_moved * min(1.0, max(0.0, (1 - bytes_moved / size) / (1 - FULL)))
            nearer = held - (bytes_moved - left)
            if nearer > 0:
                seconds += nearer / (bandwidth * occupancy)
                left -= nearer
        if left:
            bandwidth = self.target.bandwidth
            seconds += left / min(bandwidth, max(bandwidth * occupancy, self._alone))
        return seconds * NS


def peak(target: Target, dtype: str) -> float:
    """FLOPs per second in `dtype`; fp32's where the machine has no figure of its own."""
    return target.peak_flops.get(dtype, target.peak_flops["fp32"])


def _caches(target: Target) -> tuple[tuple[float, float], ...]:
    """(bytes, bytes per second) of the caches, the nearest first. The second level is one unit's own: of several, each
    takes the tasks that come next, so that what a kernel reads was written by another unit as often as not."""
    last = (target.last_level_bytes, target.cache_bandwidth)
    alone = target.l2_bandwidth and target.units == 1
    return ((target.l2_bytes, target.l2_bandwidth), last) if alone else (last,)


def unfused_ns(graph: Graph, target: Target) -> float:
    """A bound from below on the time of the program as written, one kernel a uop."""
    roofline, total = Roofline(target), 0.0
    for node in graph.nodes:
        if node.uop != "INPUT":
            result = graph.types[node.id]
            sources = graph.operand_types(node)
            moved = result.nbytes + sum(graph.types[ref].nbytes for ref in node.refs)
            total += roofline.lower_bound(total_flops(node.op, sources, result), moved)
    return total
