"""The host memory that a call of a program needs, checked before the first call."""

from __future__ import annotations

from eqsat.model import BoundModel
from ir.diagnostics import Diagnostic, Kind, Severity, note
from ir.dtype import TensorType
from ir.host.memory import check_memory, host_bytes, too_large
from ir.module.module import Module

STAGE = "load"


def memory_of_a_call(bound: BoundModel, module: Module) -> tuple[Diagnostic, ...]:
    """A warning if arguments and results of a call exceed the host's memory; they may still be mapped files.

    Raises:
        EqsatError: ResourceExceeded if the buffers between kernels exceed the memory.
    """
    buffers = {
        slot.name: TensorType.of(slot.memref.dtype, slot.memref.shape)
        for slot in module.slots
        if slot.role == "arena" and slot.inside is None
    }
    largest = sorted(buffers, key=lambda name: buffers[name].nbytes, reverse=True)[:3]
    what = "a call, for the buffers between its kernels,"
    check_memory(module.arena_bytes, STAGE, what, largest={name: str(buffers[name]) for name in largest})
    types = {**bound.signature, **dict(bound.outputs)}
    nbytes = sum(type_.nbytes for type_ in types.values())
    if nbytes <= host_bytes():
        return ()
    large = {name: str(type_) for name, type_ in types.items() if type_.nbytes > host_bytes() // len(types)}
    message = too_large(nbytes, "a call with its arguments and results")
    return (note(Kind.RESOURCE_EXCEEDED, STAGE, message, severity=Severity.WARNING, largest=large),)
