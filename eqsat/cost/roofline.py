"""Seed 000 §11: what one kernel costs.

    time = max( FLOPs / (peak · occupancy · efficiency),  Bytes / (bandwidth · occupancy) ) + launch

Each term has a name and a switch, so that an ablation can take it out and nothing else.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ir.pricer import Work
from ir.target import Target
from ir.tiny import Graph
from ir.uop import total_flops

NS = 1e9


class Terms(msgspec.Struct, frozen=True):
    """Which terms of the formula count.

    compute, memory, launch: the three summands. occupancy, efficiency: the factors, else 1.
    cache: the first bytes, as many as the last-level cache holds, move at its bandwidth and not at memory's.
    """

    compute: bool = True
    memory: bool = True
    launch: bool = True
    occupancy: bool = True
    efficiency: bool = True
    cache: bool = True


ALL_TERMS = Terms()


class Estimate(msgspec.Struct, frozen=True):
    """§11 of one kernel, each part in ns; `bound` names the larger side of the maximum."""

    compute_ns: float
    memory_ns: float
    launch_ns: float

    @property
    def time_ns(self) -> float:
        return max(self.compute_ns, self.memory_ns) + self.launch_ns

    @property
    def bound(self) -> Literal["compute", "memory", "launch"]:
        parts: dict[Literal["compute", "memory", "launch"], float]
        parts = {"compute": self.compute_ns, "memory": self.memory_ns, "launch": self.launch_ns}
        return max(parts, key=lambda part: parts[part])


def estimate(work: Work, target: Target, terms: Terms = ALL_TERMS) -> Estimate:
    """§11 for the work of one plan."""
    occupancy = work.occupancy if terms.occupancy else 1.0
    efficiency = work.efficiency if terms.efficiency else 1.0
    compute = work.flops / (peak(target, work.compute_dtype) * occupancy * efficiency)
    memory = transfer_seconds(work.bytes, target, terms) / occupancy
    return Estimate(
        compute_ns=compute * NS if terms.compute else 0.0,
        memory_ns=memory * NS if terms.memory else 0.0,
        launch_ns=target.launch_ns if terms.launch else 0.0,
    )


def lower_bound_ns(flops: float, bytes_moved: float, target: Target, terms: Terms = ALL_TERMS) -> float:
    """A time in ns that no plan can beat: every unit busy, at the highest peak of the machine."""
    compute = flops / max(target.peak_flops.values()) if terms.compute else 0.0
    memory = transfer_seconds(bytes_moved, target, terms) if terms.memory else 0.0
    return max(compute, memory) * NS + (target.launch_ns if terms.launch else 0.0)


def peak(target: Target, dtype: str) -> float:
    """FLOPs per second in `dtype`; fp32's where the machine has no figure of its own."""
    return target.peak_flops.get(dtype, target.peak_flops["fp32"])


def transfer_seconds(bytes_moved: float, target: Target, terms: Terms = ALL_TERMS) -> float:
    """The time to move this many bytes with every unit pulling."""
    cached = min(bytes_moved, target.last_level_bytes) if terms.cache else 0.0
    return cached / target.cache_bandwidth + (bytes_moved - cached) / target.bandwidth


def unfused_ns(graph: Graph, target: Target) -> float:
    """A bound from below on the time of the program as written, one kernel a uop."""
    total = 0.0
    for node in graph.nodes:
        if node.uop != "INPUT":
            result = graph.types[node.id]
            sources = graph.operand_types(node)
            moved = result.nbytes + sum(graph.types[ref].nbytes for ref in node.refs)
            total += lower_bound_ns(total_flops(node.op, sources, result), moved, target)
    return total
