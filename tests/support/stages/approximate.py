"""Stand-ins for the stages around extraction: a pricer without code generation, graphs, checks of covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from eqsat.assembly.assemble import AssembledModule, assemble
from eqsat.cost.roofline import Roofline
from eqsat.cost.targets import cpu_target
from eqsat.egraph.view import EGraphView
from eqsat.extraction.cover import Cover
from ir.dtype import DType
from ir.module.module_verify import verify as verify_module
from ir.pricer import Price, Rejected, Work
from ir.region.region import Region
from ir.region.work import region_bytes, region_flops
from ir.target import Target
from ir.term.rule import Rule
from ir.term.text import scalar
from ir.tiny.bind import load
from ir.tiny.graph import Graph, Imm
from ir.tiny.playback import playback
from ir.uop.playback import Array
from rules import RULES
from tests.support.oracles.canary import saturate
from tests.support.oracles.module_playback import play_module
from tests.support.stages.made_plans import gpu_plan

CPU = cpu_target(arch="avx512", cores=2, lanes=16, clock_hz=3e9, bandwidth=30e9, l3_bytes=32 * 2**20)


class ApproximatePricer:
    """The roofline of a region with a trivial plan. Counts its calls; refuses regions in which `refuse` finds a
    reason."""

    ordered = False

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
        parts = Roofline(self.target).estimate(work)
        plan = gpu_plan((64, 64, 64))
        return Price(parts.time, plan, work, parts)

    def lower_bound(self, flops: float, bytes_moved: float, narrow: bool = True) -> float:
        return Roofline(self.target).lower_bound(flops, bytes_moved, narrow)


def saturated(source: Any, rules: Sequence[Rule] = RULES) -> tuple[Graph, EGraphView]:
    """A graph and its e-graph under these rules."""
    graph = load(source)[0]
    return graph, saturate(graph, rules)[0]


def with_held_numbers(graph: Graph) -> Graph:
    """The graph with its immediates and fills as their dtypes hold them, as terms and regions have them."""

    def held(value: Any, element: DType) -> Any:
        return scalar(value, element)[()].item()

    nodes = []
    for node in graph.nodes:
        operands = zip(node.src, graph.operand_types(node), strict=True)
        src = tuple(
            Imm(held(operand.value, type_.dtype)) if isinstance(operand, Imm) else operand
            for operand, type_ in operands
        )
        numbers = {key: held(node.arg[key], graph.types[node.id].dtype) for key in ("value", "init") if key in node.arg}
        nodes.append(msgspec.structs.replace(node, src=src, arg=node.arg.with_(**numbers)))
    return Graph.build(nodes, graph.outputs)


def check(
    cover: Cover, view: EGraphView, graph: Graph, inputs: Mapping[str, Array], constants: tuple[str, ...] = ()
) -> AssembledModule:
    """Assemble, verify, play: equal to the graph's playback in fp64, where no rounding hides a difference."""
    assembly = assemble(cover, view, graph, constants)
    verify_module(assembly.module)
    outputs = play_module(assembly.module, inputs, wide=True)
    wanted = playback(with_held_numbers(graph), inputs, wide=True)
    for name, got, want in zip(graph.outputs, outputs, wanted, strict=True):
        assert got.shape == want.shape, name
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9, err_msg=name)
    return assembly
