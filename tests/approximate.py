"""What extraction needs of the stages around it, for tests: a pricer without code generation, graphs, checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqsat.assemble import Assembly, assemble
from eqsat.cost import estimate, lower_bound_ns
from eqsat.egraph_view import EGraphView
from eqsat.extract import Cover
from eqsat.saturate import saturate
from eqsat.targets import cpu_target
from ir.module import verify as verify_module
from ir.plan import Plan
from ir.pricer import Price, Rejected, Work
from ir.region import Region
from ir.region_playback import play_module
from ir.region_work import region_bytes, region_flops
from ir.target import Target
from ir.tiny import Graph
from ir.tiny_bind import load
from ir.tiny_playback import playback
from ir.uop_numpy import Array
from rules import RULES

CPU = cpu_target(arch="avx512", cores=2, lanes=16, clock_hz=3e9, bandwidth=30e9, l3_bytes=32 * 2**20)


class ApproximatePricer:
    """The roofline of a region with a trivial plan. Counts its calls; refuses regions in which `refuse` finds a
    reason."""

    def __init__(self, target: Target = CPU, refuse: Any = None) -> None:
        self.target, self.refuse, self.calls = target, refuse, 0

    def price(self, region: Region) -> Price | Rejected:
        self.calls += 1
        reason = self.refuse(region) if self.refuse else ""
        if reason:
            return Rejected(reason)
        contraction = any(let.op.kind == "contraction" for let in region.body)
        work = Work(
            flops=region_flops(region),
            bytes=region_bytes(region),
            compute_dtype="fp32",
            occupancy=1.0,
            efficiency=0.8 if contraction else 0.4,
        )
        found = estimate(work, self.target)
        plan = Plan(arch=self.target.arch, algo_choice={}, tile=(), bind={})
        return Price(found.time_ns, plan, work, found.bound)

    def lower_bound(self, flops: float, bytes_moved: float) -> float:
        return lower_bound_ns(flops, bytes_moved, self.target)


def saturated(source: Any) -> tuple[Graph, EGraphView]:
    """A graph and its e-graph under all rules."""
    graph = load(source)[0]
    return graph, saturate(graph, RULES)[0]


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Normal floats, small integers; by tensor_id."""
    rng = np.random.default_rng(seed)
    made = {}
    for tensor, node in graph.inputs.items():
        type_ = graph.types[node.id]
        if type_.dtype.is_float:
            made[tensor] = rng.standard_normal(type_.shape).astype(type_.dtype.numpy)
        else:
            made[tensor] = rng.integers(0, 3, type_.shape).astype(type_.dtype.numpy)
    return made


def check(
    cover: Cover, view: EGraphView, graph: Graph, inputs: Mapping[str, Array], constants: tuple[str, ...] = ()
) -> Assembly:
    """Assemble, verify, play: equal to the graph's playback in fp64.

    Terms hold immediates rounded to their dtype, the graph's wide playback does not: hence the tolerance.
    """
    assembly = assemble(cover, view, graph, constants)
    verify_module(assembly.module)
    found = play_module(assembly.module, inputs, wide=True)
    for name, got, wanted in zip(graph.outputs, found, playback(graph, inputs, wide=True), strict=True):
        assert got.shape == wanted.shape, name
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7, err_msg=name)
    return assembly
