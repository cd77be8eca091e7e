"""The time of one kernel by the cost model of seed 000 §11:

    time = max( FLOPs / (peak · occ · pipeline_eff) + penalties,  Bytes / (bandwidth · occ) ) + launch

Each term has a name and a switch, so that an ablation can leave out a single term.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from eqsat.cost.occupancy import resident_share
from ir.kernel.cpu.cells import PEAK_DTYPES
from ir.pricer import Parts, Work
from ir.target import Target
from ir.tiny.graph import Graph
from ir.uop.loop import loop_shape
from ir.uop.table import UOpKind, total_flops

NS = 1e9
FULL = 0.5
"""The share of a cache up to which one kernel's data stays in the cache. Beyond, cache lines are lost to data of
earlier kernels and to other programs. Measured on a Zen 5 core: alone and in a loop, the 1 MiB second level keeps 0.75
MiB."""


class Terms(msgspec.Struct, frozen=True):
    """The terms of the cost model (seed 000 §11) that count.

    compute, memory  the sides of the maximum
    launch           the time to start a kernel
    occupancy        occ: the share of the units that have work; on a GPU also of the threads that hide latency
    efficiency       pipeline_eff: the share of the peak that the inner loop reaches; else 1
    cache            bytes move at the bandwidth of the smallest cache that holds them; else at memory's
    reuse            penalty: data that the nearest cache does not keep between tiles is read again from further away
    recompute        values that are computed again under a broadcast, in another scope, or per tile
    layout           penalty: lanes far apart, registers partly filled (vectorize), packing, TMA and WGMMA shapes
    fanout           penalty: values stored on chip for several readers
    stop             a plan with a STOP condition is avoided if another plan has none
    joining          one kernel may write several outputs; else each output has its own kernel
    relayout         buffers between kernels may have their axes in another order; else all are row-major
    own              references of a caller's functions (`eqsat.cost.own_terms`), which replace terms and add others
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
    own: tuple[str, ...] = ()


ALL_TERMS = Terms()
TERM_NAMES = tuple(name for name in Terms.__struct_fields__ if name != "own")
"""The terms that can be left out."""


class Roofline:
    """The cost model on one machine. Constants of the machine are computed once, because a search asks for tens of
    thousands of prices."""

    def __init__(self, target: Target, terms: Terms = ALL_TERMS) -> None:
        self.target, self.terms = target, terms
        self._best_peak = max(target.peak_flops.values())
        narrow = frozenset() if target.is_gpu else PEAK_DTYPES
        self._wide_peak = max(rate for dtype, rate in target.peak_flops.items() if dtype not in narrow)
        self._cycle_ns = target.cycle_ns / target.units
        self._caches = _caches(target) if terms.cache else ()
        self._alone = target.unit_bandwidth or target.bandwidth / target.units
        calls = [target.launch_ns] if target.call_ns is None else [target.launch_ns, target.call_ns]
        self._launch = (max(calls), min(calls)) if terms.launch else (0.0, 0.0)

    def estimate(self, work: Work) -> Parts:
        """The parts of the time of one plan's work, in ns."""
        terms = self.terms
        occupancy = work.occupancy * resident_share(work, self.target) if terms.occupancy else 1.0
        reached = peak(self.target, work.compute_dtype) * occupancy * (work.efficiency if terms.efficiency else 1.0)
        flops = work.flops + work.recomputed if terms.recompute else work.flops
        cycle = self._cycle_ns / occupancy
        return Parts(
            compute=flops / reached * NS if terms.compute else 0.0,
            memory=self.transfer_ns(work.bytes, occupancy, work.cold_bytes) if terms.memory else 0.0,
            reread=work.reread * cycle if terms.reuse else 0.0,
            layout=work.layout * cycle if terms.layout else 0.0,
            fanout=work.fanout * cycle if terms.fanout else 0.0,
            launch=self._launch[0 if work.parallel else 1],
        )

    def lower_bound(self, flops: float, bytes_moved: float, narrow: bool = True) -> float:
        """A time in ns that no plan can beat: all units busy, at the machine's highest peak. On a CPU the peaks of
        narrow dtypes count only for products of `narrow` numbers."""
        compute = flops / (self._best_peak if narrow else self._wide_peak) * NS if self.terms.compute else 0.0
        memory = self.transfer_ns(bytes_moved) if self.terms.memory else 0.0
        return max(compute, memory) + self._launch[1]

    def transfer_ns(self, bytes_moved: float, occupancy: float = 1.0, cold: float = 0.0) -> float:
        """The time in ns to move these bytes: at a cache's bandwidth if the cache holds them, the rest at memory's. One
        unit alone may draw more than its share of memory's bandwidth. `cold`: how many of the bytes no cache holds.

        Earlier kernels wrote a kernel's other operands, and later kernels read its results. A cache holds these while
        all bytes fill at most `FULL` of it, and none of them if all bytes exceed its size."""
        seconds, left, warm = 0.0, bytes_moved, bytes_moved - cold
        for size, bandwidth in self._caches:
            cached = warm * min(1.0, max(0.0, (1 - bytes_moved / size) / (1 - FULL)))
            nearer = cached - (bytes_moved - left)
            if nearer > 0:
                seconds += nearer / (bandwidth * occupancy)
                left -= nearer
        if left:
            bandwidth = self.target.bandwidth
            seconds += left / min(bandwidth, max(bandwidth * occupancy, self._alone))
        return seconds * NS


def peak(target: Target, dtype: str) -> float:
    """FLOPs per second in `dtype`; fp32's if the machine lists none."""
    return target.peak_flops.get(dtype, target.peak_flops["fp32"])


def _caches(target: Target) -> tuple[tuple[float, float], ...]:
    """(bytes, bytes per second) of the caches, the nearest first. The second level belongs to one unit and counts only
    if there is one unit: of several units, another one usually wrote what a kernel reads."""
    last = (target.last_level_bytes, target.cache_bandwidth)
    alone = target.l2_bandwidth and target.units == 1
    return ((target.l2_bytes, target.l2_bandwidth), last) if alone else (last,)


def peaks_for(graphs: Iterable[Graph], target: Target) -> Target:
    """A CPU without the peaks of narrow dtypes that a program lacks: bounds on the time of its kernels would be up to
    sixteen times too low. The tensor cores of a GPU multiply fp32, too."""
    if target.is_gpu:
        return target
    dtypes = {type_.dtype.name for graph in graphs for type_ in graph.types.values()}
    peaks = {dtype: rate for dtype, rate in target.peak_flops.items() if dtype not in PEAK_DTYPES or dtype in dtypes}
    return msgspec.structs.replace(target, peak_flops=peaks)


def unfused_ns(graph: Graph, target: Target) -> float:
    """A lower bound in ns on the time of the program as written, with one kernel per uop; of a loop's uops, one per
    trip."""
    roofline, total = Roofline(peaks_for([graph], target)), 0.0
    loops: dict[object, float] = {}
    for node in graph.nodes:
        sources = graph.operand_types(node)
        if node.op.kind is UOpKind.LOOP:
            trips = loop_shape(sources, node.arg).trips
            key = (node.src, node.arg.with_(result=0))
            if key not in loops:
                loops[key] = trips * unfused_ns(node.arg["graph"].graph, target)
        elif node.uop != "INPUT":
            result = graph.types[node.id]
            moved = result.nbytes + sum(graph.types[ref].nbytes for ref in node.refs)
            total += roofline.lower_bound(total_flops(node.op, sources, result), moved)
    return total + sum(loops.values())
