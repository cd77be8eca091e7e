"""Checks a launch table against the module that it is of: each launch runs its call, on memory that is there.

What a kernel itself asks for (the elements of a packed constant, the bytes of a workspace) only its code knows: the
contract that the code names (`ir.module.launch.UNBOUND`) ties the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.module.launch import Geometry, Launch, LaunchTable, Packing, WorkspacePiece
from ir.module.module import MOST_BYTES, KernelCall, Module

STAGE = "launch"
_MOST_GRID, _MOST_THREADS, _MOST_SHARED = (2**31 - 1, 2**16 - 1, 2**16 - 1), 1024, 1 << 20


def verify(table: LaunchTable, module: Module, is_gpu: bool) -> None:
    """Check a table from nothing; the module is verified already. `is_gpu`: launches are those of a GPU.

    Raises:
        EqsatError: MalformedGraph naming the launch or the packed constant that is wrong.
    """
    space = table.workspace
    for name, nbytes in (("shared", space.shared), ("private", space.private), ("counters", space.counters)):
        _require(0 <= nbytes < MOST_BYTES, "workspace", f"{nbytes} bytes of {name} memory")
    packings = _packings(table.packings, module, is_gpu)
    calls = module.running
    _require(len(table.launches) == len(calls), module.name, f"{len(table.launches)} launches for {len(calls)} calls")
    for launch, call in zip(table.launches, calls, strict=True):
        _verify_args(launch, call, packings)
        _require((launch.geometry is not None) == is_gpu, call.name, "only a GPU's launch has a geometry, and each has")
        if launch.geometry is not None:
            _verify_geometry(launch.geometry, call)
        _require(is_gpu or not launch.pieces, call.name, "a CPU's launch takes pieces of a workspace")
        for piece in launch.pieces:
            _verify_piece(piece, space.counters if piece.counts else space.shared, call)


def _packings(packings: Sequence[Packing], module: Module, is_gpu: bool) -> dict[str, Packing]:
    """The packed constants by slot."""
    known = {each.name: each for each in module.slots}
    found: dict[str, Packing] = {}
    for each in packings:
        _require(not is_gpu, each.slot, "a GPU's constants are not packed")
        _require(each.slot not in known and each.slot not in found, each.slot, "the name of a packed constant is taken")
        _require(each.dtype in DTYPES, each.slot, f"no dtype {each.dtype!r}")
        _require(0 <= each.elements < MOST_BYTES, each.slot, f"a packed constant of {each.elements} elements")
        for source in each.sources:
            constant = source in known and known[source].role == "constant"
            _require(constant, each.slot, f"is packed from {source!r}, which is no constant")
        found[each.slot] = each
    return found


def _verify_args(launch: Launch, call: KernelCall, packings: Mapping[str, Packing]) -> None:
    """A kernel takes the inputs that it reads, its packed constants, then its outputs; in the call's order. An input
    that it does not take is one that a constant of the kernel's was packed from."""
    outputs = len(call.writes)
    before, written = launch.args[: len(launch.args) - outputs], launch.args[len(launch.args) - outputs :]
    _require(written == call.writes, call.name, f"writes {', '.join(written)} instead of {', '.join(call.writes)}")
    packed = [name for name in before if name in packings]
    kept = [name for name in before if name not in packings]
    _require(before == (*kept, *packed), call.name, "packed constants come after the inputs")
    sources = {source for name in packed for source in packings[name].sources}
    _require(sources <= set(call.reads), call.name, "takes a constant that was packed from what it does not read")
    waiting = iter(kept)
    name = next(waiting, None)
    for read in call.reads:
        if read == name:
            name = next(waiting, None)
        else:
            _require(read in sources, call.name, f"does not take {read!r}")
    _require(name is None, call.name, f"takes {name!r}, which it does not read, or in another order")


def _verify_geometry(found: Geometry, call: KernelCall) -> None:
    fits = all(1 <= size <= most for size, most in zip(found.grid, _MOST_GRID, strict=True))
    _require(fits, call.name, f"a grid of {'x'.join(map(str, found.grid))} blocks")
    _require(1 <= found.threads <= _MOST_THREADS, call.name, f"a block of {found.threads} threads")
    _require(0 <= found.shared_bytes <= _MOST_SHARED, call.name, f"{found.shared_bytes} bytes of shared memory")


def _verify_piece(piece: WorkspacePiece, whole: int, call: KernelCall) -> None:
    inside = piece.start >= 0 and piece.nbytes >= 0 and piece.start + piece.nbytes <= whole
    _require(inside, call.name, f"takes bytes {piece.start} to {piece.start + piece.nbytes} of a workspace of {whole}")


def _require(holds: bool, at: str, message: str) -> None:
    if not holds:
        fail(Kind.MALFORMED_GRAPH, STAGE, message, at=at)
