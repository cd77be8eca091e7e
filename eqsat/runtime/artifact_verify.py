"""Checks an artifact that was read from a file: its parts agree with each other, and with the model.

A program runs only on what was checked here: slots lie inside the memory, launches take the arguments of their calls,
and the contract shows that graph, module, launches and texts belong to one program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from eqsat.looping.parts import Steps, parts_of, values_of
from eqsat.model import BoundModel
from eqsat.runtime.artifact import Artifact, Recipe, contract_of
from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.module.launch_verify import verify as verify_table
from ir.module.module import Module, Slot
from ir.module.module_verify import verify as verify_module
from ir.target import LANES, Target

STAGE = "artifact"


def verify(artifact: Artifact, bound: BoundModel) -> None:
    """Check an artifact with its texts: all that a run relies on. What `verify_parts` checks is only shown to people.

    Raises:
        EqsatError: MalformedGraph that names the part that is wrong or does not fit.
    """
    verify_recipe(artifact, bound)
    verify_table(artifact.table, artifact.module, artifact.target.is_gpu)
    for launch in artifact.table.launches:
        _require(launch.function in artifact.kernels, launch.function, "a launch of a kernel that is not there")
    if artifact.target.is_gpu:
        _require(artifact.units == artifact.kernels, "units", "the texts to compile are not those of the kernels")
    else:
        has_contract = any(artifact.contract in text for text in artifact.units.values())
        _require(has_contract, "units", "the texts name no contract, or another one")
    _require(
        artifact.contract == contract_of(artifact),
        "contract",
        "graph, module, launches and texts are not of one program",
    )


def verify_recipe(recipe: Recipe, bound: BoundModel) -> None:
    """Check what kernels are written from.

    Raises:
        EqsatError: as `verify`.
    """
    _verify_target(recipe.target)
    _require(recipe.tiny == bound.graph.to_json(), "tiny", "is the graph of another model")
    verify_module(recipe.module)
    _verify_interface(recipe.module, bound)
    calls = len(recipe.module.running)
    for name in ("prices", "selections", "terms", "parts"):
        count = len(getattr(recipe, name))
        _require(count == calls, name, f"{count} for {calls} calls")


def verify_parts(recipe: Recipe, steps: Steps) -> None:
    """Check that each call belongs to a part of the program, and computes uops of the program. steps: of the program.

    Raises:
        EqsatError: as `verify`.
    """
    _verify_uops(recipe.module, values_of(steps))
    parts = len(list(parts_of(steps)))
    _require(all(0 <= part < parts for part in recipe.parts), "parts", f"a call of a part beyond the {parts} parts")


def _verify_target(target: Target) -> None:
    """Check that kernels can be written for the target, and that its rates and sizes are usable numbers."""
    _require(target.is_gpu or target.arch in LANES, "target", f"no instruction set {target.arch!r}")
    rates = {"bandwidth": target.bandwidth, "cache_bandwidth": target.cache_bandwidth, **target.peak_flops}
    if target.is_gpu:
        rates |= {"clock_hz": target.clock_hz, "issue": target.issue, "shared_bytes": target.shared_bytes}
    for name, rate in rates.items():
        _require(math.isfinite(rate) and rate > 0, "target", f"{name} = {rate}")
    _require("fp32" in target.peak_flops, "target", "no peak of fp32")
    for name, least in (("units", 1), ("lanes", 1), ("l1_bytes", 0), ("l2_bytes", 0), ("l3_bytes", 0)):
        size = getattr(target, name)
        _require(least <= size < 2**40, "target", f"{name} = {size}")


def _verify_interface(module: Module, bound: BoundModel) -> None:
    """Check that inputs, outputs and constants of the module are those of the graph."""
    graph = bound.graph
    types = {name: graph.types[node.id] for name, node in graph.inputs.items()}
    _require(bound.constants.keys() <= types.keys(), "constants", "a constant that is no input of the graph")
    for name, array in bound.constants.items():
        fits = (array.shape, array.dtype) == (types[name].shape, types[name].dtype.numpy)
        _require(fits, name, f"a constant of {array.dtype}{list(array.shape)}, the graph takes {types[name]}")
    _require(module.inputs == tuple(bound.signature), "inputs", f"{module.inputs} are not those of the graph")
    slots = {slot.name: slot for slot in module.slots}
    for name in (*module.inputs, *module.constants):
        _require(name in types, name, "is no input of the graph")
        _require(name in bound.signature or name in bound.constants, name, "there is no constant of this name")
        _verify_type(slots[name], types[name].shape, types[name].dtype.name)
    _require(not bound.results or len(bound.results) == len(graph.outputs), "results", "other results than outputs")
    _require(tuple(name for name, _ in module.outputs) == graph.outputs, "outputs", "are not those of the graph")
    for name, slot in module.outputs:
        _verify_type(slots[slot], graph.types[name].shape, graph.types[name].dtype.name)
        _require(slots[slot].order is None, slot, "an output that is not row-major")


def _verify_uops(module: Module, types: Mapping[str, TensorType]) -> None:
    """Check that calls compute uops of the graph, and that a buffer named after a uop has the uop's type."""
    for call in module.calls:
        unknown = [uop for uop in call.uops if uop not in types]
        _require(not unknown, call.name, f"computes {', '.join(unknown)}, which the graph does not have")
    written = {name for call in module.calls for name in call.writes}
    for slot in module.slots:
        if slot.name in written and slot.name in types:
            _verify_type(slot, types[slot.name].shape, types[slot.name].dtype.name)


def _verify_type(slot: Slot, shape: tuple[int, ...], dtype: str) -> None:
    stored = shape if slot.order is None else tuple(shape[axis] for axis in slot.order)
    fits = len(slot.memref.shape) == len(shape) and slot.memref.shape == stored and slot.memref.dtype == dtype
    _require(fits, slot.name, f"{slot.memref} in the module, {dtype}{list(shape)} in the graph")


def _require(holds: bool, at: str, message: str) -> None:
    if not holds:
        fail(Kind.MALFORMED_GRAPH, STAGE, message, at=at)
