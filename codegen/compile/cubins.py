"""The machine code of a GPU program: one cubin per kernel, compiled in parallel or read from a saved program."""

from __future__ import annotations

import zlib
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
    """Cubins as one piece of data. Keys of `modules` and of `ptx`, whose texts zlib compressed, are the names of the
    kernels."""

    arch: str
    modules: dict[str, bytes]
    ptx: dict[str, bytes]
    resources: dict[str, KernelResources]


_STORED = msgspec.msgpack.Decoder(StoredCubins)
"""Built at import, since only one thread at a time may build a decoder (see `ir.serde`)."""


class Cubins(msgspec.Struct, frozen=True):
    """One module per kernel, for `arch` ("sm80"): its file, its PTX, which the drivers of newer architectures compile,
    and the resources of an SM that its kernel takes. `diagnostics`: problems with the cache."""

    arch: str
    paths: dict[str, Path]
    ptx: dict[str, Path]
    resources: dict[str, KernelResources]
    diagnostics: Notes = ()

    @property
    def code(self) -> bytes:
        """The cubins as the data that `load_cubins` takes."""
        modules = {name: path.read_bytes() for name, path in self.paths.items()}
        ptx = {name: zlib.compress(path.read_bytes()) for name, path in self.ptx.items()}
        return msgspec.msgpack.encode(StoredCubins(self.arch, modules, ptx, self.resources))


def build_cubins(texts: Mapping[str, str], arch: str) -> Cubins:
    """The cubins of kernels' texts by name, from the cache or compiled.

    Raises:
        EqsatError: the error of `codegen.compile.nvrtc.build` for the first kernel that fails.
    """

    def build_one(text: str) -> nvrtc.Cubin:
        return nvrtc.build(text, arch)

    with ThreadPoolExecutor(max_workers=machine().cores) as pool:
        cubins = dict(zip(texts, pool.map(build_one, texts.values()), strict=True))
    return Cubins(
        arch,
        {name: cubin.path for name, cubin in cubins.items()},
        {name: cubin.ptx for name, cubin in cubins.items()},
        {kernel.name: kernel for cubin in cubins.values() for kernel in cubin.kernels},
        _without_repeats([note for cubin in cubins.values() for note in cubin.diagnostics]),
    )


def load_cubins(code: bytes) -> Cubins:
    """The cubins of `Cubins.code`, stored in the cache under their hashes. NVRTC is not needed.

    Raises:
        EqsatError: InputMismatch where `code` holds no cubins, CompileFailed where they cannot be stored.
    """
    try:
        stored = _STORED.decode(code)
        texts = {name: zlib.decompress(text) for name, text in stored.ptx.items()}
    except (msgspec.DecodeError, zlib.error) as error:
        fail(Kind.INPUT_MISMATCH, _STAGE, f"no cubins: {error}")
    notes: list[Diagnostic] = []

    def kept(modules: Mapping[str, bytes], suffix: str) -> dict[str, Path]:
        paths = {}
        for name, module in modules.items():
            paths[name], loaded_notes = store_loaded(module, suffix)
            notes.extend(loaded_notes)
        return paths

    modules, ptx = kept(stored.modules, ".cubin"), kept(texts, ".ptx")
    return Cubins(stored.arch, modules, ptx, stored.resources, _without_repeats(notes))


def _without_repeats(notes: Sequence[Diagnostic]) -> Notes:
    """The notes without repetitions: all modules report the same cache."""
    return tuple(note for place, note in enumerate(notes) if note not in notes[:place])
