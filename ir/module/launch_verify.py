"""Checks a launch table against its module: every launch runs its call, on memory that exists.

Only a kernel's code knows what the kernel needs: the elements of a packed constant, the bytes of a workspace. The
contract named in the code (`ir.module.launch.UNBOUND`) ties the code to the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.module.launch import Geometry, Launch, LaunchTable, Packing, WorkspacePiece
from ir.module.module import MOST_BYTES, KernelCall, Module

STAGE = "launch"
_MOST_GRID, _MOST_THREADS, _MOST_SHARED = (2**31 - 1, 2**16 - 1, 2**16 - 1), 1024, 1 << 20
"""Limits of launches that any GPU could run; `ir.kernel.gpu.limits` has those of an architecture."""


def verify(table: LaunchTable, module: Module, is_gpu: bool) -> None:
    """Checks a table from scratch; the module must be verified already. `is_gpu`: the launches are those of a GPU.

    Raises:
        EqsatError: MalformedGraph that names the wrong launch or packed constant.
    """
    space = table.workspace
    for name, nbytes in (("shared", space.shared), ("private", space.private), ("counters", space.counters)):
        _require(0 <= nbytes < MOST_BYTES, "workspace", f"{nbytes} bytes of {name} memory")
    packings = _verify_packings(table.packings, module, is_gpu)
    calls = module.running
    _require(len(table.launches) == len(calls), module.name, f"{len(table.launches)} launches for {len(calls)} calls")
    _require(table.loops == module.loops, module.name, "the launches repeat in other loops than the calls")
    for launch, call in zip(table.launches, calls, strict=True):
        _verify_args(launch, call, packings)
        message = "a launch must have a geometry on a GPU, and none on a CPU"
        _require((launch.geometry is not None) == is_gpu, call.name, message)
        if launch.geometry is not None:
            _verify_geometry(launch.geometry, call)
        _require(is_gpu or not launch.pieces, call.name, "a CPU's launch takes pieces of a workspace")
        for piece in launch.pieces:
            _verify_piece(piece, space.counters if piece.counts else space.shared, call)


def _verify_packings(packings: Sequence[Packing], module: Module, is_gpu: bool) -> dict[str, Packing]:
    """The packed constants by slot."""
    known = {slot.name: slot for slot in module.slots}
    by_slot: dict[str, Packing] = {}
    for packing in packings:
        name = packing.slot
        _require(not is_gpu, name, "a GPU's constants are not packed")
        _require(name not in known and name not in by_slot, name, "the name of a packed constant is taken")
        _require(packing.dtype in DTYPES, name, f"no dtype {packing.dtype!r}")
        _require(0 <= packing.elements < MOST_BYTES, name, f"a packed constant of {packing.elements} elements")
        for source in packing.sources:
            constant = source in known and known[source].role == "constant"
            _require(constant, name, f"is packed from {source!r}, which is no constant")
        by_slot[name] = packing
    return by_slot


def _verify_args(launch: Launch, call: KernelCall, packings: Mapping[str, Packing]) -> None:
    """A kernel takes the inputs that it reads, then its packed constants, then its outputs, in the call's order. An
    input may be missing only if one of the kernel's packed constants was packed from it."""
    outputs = len(call.writes)
    before, written = launch.args[: len(launch.args) - outputs], launch.args[len(launch.args) - outputs :]
    _require(written == call.writes, call.name, f"writes {', '.join(written)} instead of {', '.join(call.writes)}")
    packed = [name for name in before if name in packings]
    kept = [name for name in before if name not in packings]
    _require(before == (*kept, *packed), call.name, "packed constants come after the inputs")
    sources = {source for name in packed for source in packings[name].sources}
    _require(sources <= set(call.reads), call.name, "takes a constant packed from a slot that it does not read")
    waiting = iter(kept)
    name = next(waiting, None)
    for read in call.reads:
        if read == name:
            name = next(waiting, None)
        else:
            _require(read in sources, call.name, f"does not take {read!r}")
    _require(name is None, call.name, f"takes {name!r}, which it does not read, or in another order")


def _verify_geometry(geometry: Geometry, call: KernelCall) -> None:
    fits = all(1 <= size <= most for size, most in zip(geometry.grid, _MOST_GRID, strict=True))
    _require(fits, call.name, f"a grid of {'x'.join(map(str, geometry.grid))} blocks")
    _require(1 <= geometry.threads <= _MOST_THREADS, call.name, f"a block of {geometry.threads} threads")
    _require(0 <= geometry.shared_bytes <= _MOST_SHARED, call.name, f"{geometry.shared_bytes} bytes of shared memory")


def _verify_piece(piece: WorkspacePiece, whole: int, call: KernelCall) -> None:
    inside = piece.start >= 0 and piece.nbytes >= 0 and piece.start + piece.nbytes <= whole
    _require(inside, call.name, f"takes bytes {piece.start} to {piece.start + piece.nbytes} of a workspace of {whole}")


def _require(holds: bool, at: str, message: str) -> None:
    if not holds:
        fail(Kind.MALFORMED_GRAPH, STAGE, message, at=at)
