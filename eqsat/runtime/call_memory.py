"""What a call of a program takes of the host's memory, looked at before there is a call."""

from __future__ import annotations

from eqsat.model import BoundModel
from ir.diagnostics import Diagnostic, Kind, Severity, note
from ir.dtype import TensorType
from ir.host.memory import check_memory, host_bytes, too_large
from ir.module.module import Module

STAGE = "load"


def memory_of_a_call(bound: BoundModel, module: Module) -> tuple[Diagnostic, ...]:
    """A warning where the arguments and results of a call are larger than the memory: they may be mapped files.

    Raises:
        EqsatError: ResourceExceeded where what the program keeps between its kernels is larger.
    """
    memrefs = {slot.name: slot.memref for slot in module.slots if slot.role == "arena"}
    kept = {name: TensorType.of(each.dtype, each.shape) for name, each in memrefs.items()}
    largest = sorted(kept, key=lambda name: kept[name].nbytes, reverse=True)[:3]
    what = "what a call keeps between its kernels"
    check_memory(module.arena_bytes, STAGE, what, largest={name: str(kept[name]) for name in largest})
    types = {**bound.signature, **dict(bound.outputs)}
    nbytes = sum(each.nbytes for each in types.values())
    if nbytes <= host_bytes():
        return ()
    large = {name: str(each) for name, each in types.items() if each.nbytes > host_bytes() // len(types)}
    message = too_large(nbytes, "a call with its arguments and results")
    return (note(Kind.RESOURCE_EXCEEDED, STAGE, message, severity=Severity.WARNING, largest=large),)
