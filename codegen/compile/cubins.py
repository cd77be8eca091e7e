"""The machine code of a GPU program: a cubin for each kernel, compiled side by side, or read from a saved program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from codegen.compile import nvrtc
from codegen.compile.cache import store_loaded
from codegen.compile.machine import machine
from ir.diagnostics import Diagnostic, Kind, fail
from ir.host.cache_folder import Notes
from ir.kernel.resources import KernelResources

_STAGE = "cubins"


class StoredCubins(msgspec.Struct, frozen=True):
    """Cubins as one piece of data, each by the name of its kernel."""

    arch: str
    modules: dict[str, bytes]
    resources: dict[str, KernelResources]


class Cubins(msgspec.Struct, frozen=True):
    """One module for each kernel, all for `arch` ("sm80"): where it lies, and what its kernel takes of an SM.
    `diagnostics` says what was wrong with the cache."""

    arch: str
    paths: dict[str, Path]
    resources: dict[str, KernelResources]
    diagnostics: Notes = ()

    @property
    def code(self) -> bytes:
        """What `load_cubins` takes."""
        modules = {name: path.read_bytes() for name, path in self.paths.items()}
        return msgspec.msgpack.encode(StoredCubins(self.arch, modules, self.resources))


def build_cubins(texts: Mapping[str, str], arch: str) -> Cubins:
    """The cubins of kernels' texts by name, from the cache or compiled.

    Raises:
        EqsatError: what `codegen.compile.nvrtc.build` raises, of the first kernel that it raises for.
    """

    def built(text: str) -> nvrtc.Cubin:
        return nvrtc.build(text, arch)

    with ThreadPoolExecutor(max_workers=machine().cores) as pool:
        made = dict(zip(texts, pool.map(built, texts.values()), strict=True))
    return Cubins(
        arch,
        {name: each.path for name, each in made.items()},
        {found.name: found for each in made.values() for found in each.kernels},
        _once([note for each in made.values() for note in each.diagnostics]),
    )


def load_cubins(code: bytes) -> Cubins:
    """The cubins that `Cubins.code` made data of: kept in the cache under their hashes. NVRTC is not needed.

    Raises:
        EqsatError: InputMismatch for what is no such data, CompileFailed where it cannot be stored.
    """
    try:
        stored = msgspec.msgpack.decode(code, type=StoredCubins)
    except msgspec.DecodeError as error:
        fail(Kind.INPUT_MISMATCH, _STAGE, f"no cubins: {error}")
    kept = {name: store_loaded(module, ".cubin") for name, module in stored.modules.items()}
    notes = _once([note for _, found in kept.values() for note in found])
    return Cubins(stored.arch, {name: path for name, (path, _) in kept.items()}, stored.resources, notes)


def _once(notes: Sequence[Diagnostic]) -> Notes:
    """Each note once: all modules meet the same cache."""
    return tuple(note for place, note in enumerate(notes) if note not in notes[:place])
