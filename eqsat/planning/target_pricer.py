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
    """The inputs, of those that the program is given, that prices on a target take from memory. On a CPU none, if its
    caches hold the arguments of a call."""
    is_cold = target.is_gpu or target.argument_bytes > target.last_level_bytes
    return frozenset(given) if is_cold else frozenset()


def with_inputs(target: Target, bound: BoundModel) -> Target:
    """The target of a program with its constants and its arguments: a CPU's caches may not hold these from call to
    call."""
    if target.is_gpu:
        return target
    nbytes = {name: bound.graph.types[node.id].nbytes for name, node in bound.graph.inputs.items()}
    constants = sum(size for name, size in nbytes.items() if name in bound.constants)
    return msgspec.structs.replace(target, constant_bytes=constants, argument_bytes=sum(nbytes.values()) - constants)


def pricer_for(target: Target, options: Options, *graphs: Graph) -> PlanPricer:
    """The cost of kernels on a target; of the kernels of some graphs, bounds of times are closer."""
    planner = partial(backend_of(target).candidates, exactness=options.exactness, tf32=options.tf32)
    priced = peaks_for(graphs, target) if graphs else target
    return PlanPricer(priced, analyse, planner, options.cost_model, ordered=options.ordered)
