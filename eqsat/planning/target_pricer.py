"""The cost of kernels on a target: the prices of the plans that the code generator makes for them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from codegen.backends.backend_of import backend_of
from codegen.poly.analyse import analyse
from eqsat.cost.pricing import PlanPricer
from eqsat.cost.roofline import peaks_for
from eqsat.model import BoundModel
from eqsat.options import Options
from ir.target import Target
from ir.tiny.graph import Graph


def cold_inputs(given: Iterable[str], target: Target) -> frozenset[str]:
    """The inputs, of those that the program is given, that prices on a target take from memory. None on a CPU, whose
    prices agree with the times of runs on inputs that its caches hold."""
    return frozenset(given) if target.is_gpu else frozenset()


def with_constants(target: Target, bound: BoundModel) -> Target:
    """The target of a program with its constants: a CPU's caches may not hold these from call to call."""
    if target.is_gpu:
        return target
    constants = (node for name, node in bound.graph.inputs.items() if name in bound.constants)
    nbytes = sum(bound.graph.types[node.id].nbytes for node in constants)
    return msgspec.structs.replace(target, constant_bytes=nbytes)


def pricer_for(target: Target, options: Options, *graphs: Graph) -> PlanPricer:
    """The cost of kernels on a target; of the kernels of some graphs, bounds of times are closer."""
    planner = partial(backend_of(target).candidates, exactness=options.exactness, tf32=options.tf32)
    priced = peaks_for(graphs, target) if graphs else target
    return PlanPricer(priced, analyse, planner, options.cost_model, ordered=options.ordered)
