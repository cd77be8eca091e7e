"""C text → a loaded shared library, built once per text, compiler and CPU."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from codegen.compile.cache import damage_note, lock, recall, store, store_apart, store_loaded
from codegen.compile.compile_units import Units
from codegen.compile.machine import Machine
from codegen.compile.toolchain import Compiler, compile_flags, find_compiler, link_flags, link_libraries
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.host.cache_folder import writable_cache
from ir.kernel.resources import KernelResources
from ir.module.launch import UNBOUND

_STAGE = "library"

_VECTOR_HEADERS = (
    "base",
    "memory",
    "cast",
    "ops",
    "reduce",
    "scan",
    "tables",
    "vmath_tables",
    "vmath",
    "vmath64",
    "random",
    "transpose",
    "cells",
    "matrix",
)
OPTIONAL_HEADERS = {
    "reduce": r"\beq_h(sum|prod|max|min)_",
    "scan": r"\beq_(last_|(run|prefix)[a-z]+_)",
    "vmath64": r"\beq_(far_)?((exp|log|sin|cos|tanh|sigmoid|power_of_2|scale)\w*_f64h?|pow_(f32|half))\b",
    "random": r"\beq_(far_)?(random_|philox\b|product_of_words\b)",
    "transpose": r"\beq_transpose_",
    "cells": r"\beq_(pair|quad|dot_pairs|dot_quads)_",
    "matrix": r"\b(eq_matrix|EQ_MATRIX)_",
}
"""Headers that no other header needs, with a pattern of the names of all their functions. A compiler takes as long to
read them as to compile a small kernel."""


def vector_prelude(text: str | None = None, flush: bool = False) -> str:
    """The vector functions of `prelude/c/`, as text to stand at the top of a translation unit: those that the unit's
    text may call, or all. With `flush`, they may return 0 in place of denormals, and other last bits than with other
    instruction sets."""
    headers = [_header(name) for name in _VECTOR_HEADERS if text is None or _may_call(text, name)]
    return "".join((f"#define EQ_FLUSH {int(flush)}\n", *headers))


def _may_call(text: str, header: str) -> bool:
    return header not in OPTIONAL_HEADERS or re.search(OPTIONAL_HEADERS[header], text) is not None


POOL = "pool"
"""The name of the translation unit of `pool_source`."""
ARGUMENTS = "arguments"
"""The name of the translation unit of `arguments_source`."""
POOL_THREADS = 256
"""The most threads that the pool starts: EQ_MAX_THREADS of its source."""


def pool_declarations() -> str:
    """The declarations with which a translation unit can call `eq_parallel_for`."""
    return _header("pool")


def pool_source() -> str:
    """The thread pool: one translation unit of each library that calls it."""
    return "#define EQ_POOL_IMPLEMENTATION\n" + _header("pool")


def arguments_source() -> str:
    """The function that reads a call's arguments: one translation unit of each program's library."""
    return _header("arguments")


@functools.cache
def _header(name: str) -> str:
    return (resources.files("codegen.text") / "prelude" / "c" / f"{name}.h").read_text(encoding="utf-8")


class Library:
    """A loaded shared library. It is unloaded when nothing refers to it or to one of its functions.

    `code`: the bytes that `load_library` takes, kept even if the file is deleted. `diagnostics`: problems with the
    cache. `resources`: none, as C compilers report none.
    """

    resources: Mapping[str, KernelResources] = MappingProxyType({})

    def __init__(self, path: Path, code: bytes, diagnostics: Sequence[Diagnostic] = ()) -> None:
        self.path = path
        self.code = code
        self.diagnostics = tuple(diagnostics)
        try:
            self._dll = ctypes.CDLL(str(path))
        except OSError as error:
            fail(Kind.INPUT_MISMATCH, _STAGE, f"{path} is no library for this machine: {error}")
        _unload_with(self._dll)

    @property
    def contract(self) -> str:
        """The contract for which the library was written, `ir.module.launch.UNBOUND`; "" where the library has none."""
        try:
            contract = (ctypes.c_char * (len(UNBOUND) + 1)).in_dll(self._dll, "eq_contract")
        except ValueError:
            return ""
        return contract.value.decode("ascii", "replace")

    def function(self, name: str, argtypes: Sequence[Any] = (), restype: Any = None) -> Callable[..., Any]:
        """The C function `name` as a ctypes function, which releases the GIL while it runs."""
        try:
            function = self._dll[name]  # a function object of its own, so that argtypes are not shared
        except AttributeError:
            fail(Kind.INPUT_MISMATCH, _STAGE, f"{self.path.name} has no function {name!r}", at=name)
        function.argtypes = list(argtypes)
        function.restype = restype
        return function

    def python_function(self, name: str, argtypes: Sequence[Any], restype: Any) -> Callable[..., Any]:
        """The C function `name`, which may read Python's objects: it holds the GIL while it runs."""
        at = ctypes.cast(self._dll[name], ctypes.c_void_p).value
        assert at is not None
        function = ctypes.PYFUNCTYPE(restype, *argtypes)(at)
        function.library = self._dll  # type: ignore[attr-defined]  # stays loaded
        return function


def _unload_with(dll: ctypes.CDLL) -> None:
    """Close the handle when `dll` is collected: every function object holds it, so no call can be under way.

    The pool's destructor joins the workers. On Linux only: elsewhere a handler of `pthread_atfork` outlives its
    library, and a later fork would call into nothing.
    """
    if sys.platform == "linux":
        import _ctypes

        weakref.finalize(dll, _ctypes.dlclose, dll._handle).atexit = False


def build(
    sources: Mapping[str, str],
    machine: Machine,
    *,
    compiler: Compiler | None = None,
    flags: Sequence[str] | None = None,
    cache: Path | None = None,
    common: frozenset[str] = frozenset(),
) -> Library:
    """The library of `sources` (name → C text, one translation unit each), from the cache or built.

    `flags` replace those of `compile_flags`. `common`: the names of units that many libraries contain.

    Raises:
        EqsatError: NoCompiler if there is none, CompileFailed if it rejects a unit or nothing can be stored.
    """
    compiler = compiler or find_compiler()
    flags = compile_flags(compiler, machine) if flags is None else flags
    folder, notes = (cache, ()) if cache else writable_cache()
    key = _key(sources, compiler, flags, machine)
    target = folder / key[:2] / f"{key}.so"
    with lock(target) as (target, more):
        notes += more
        state, code = recall(target)
        if state != "whole":
            units = Units(sources, compiler, tuple(flags), folder / "rejected" / key, common)
            code = units.shared_object(machine.cores)
            target, more = store(target, code)
            notes += more
        if state == "damaged":
            notes += (damage_note(target),)
        return _load(target, code, notes)


def load_library(code: bytes) -> Library:
    """The library of a shared object's bytes: kept in the cache under their hash, and loaded from there.

    Raises:
        EqsatError: CompileFailed if it cannot be stored, InputMismatch if it is no library for this machine.
    """
    path, notes = store_loaded(code)
    return _load(path, code, notes)


def _load(path: Path, code: bytes, notes: Sequence[Diagnostic]) -> Library:
    """The library at `path`, which holds `code`; from the folder of this process where the cache has lost the file, or
    allows no execution."""
    try:
        return Library(path, code, notes)
    except EqsatError:
        return Library(store_apart(path, code), code, notes)


def _key(sources: Mapping[str, str], compiler: Compiler, flags: Sequence[str], machine: Machine) -> str:
    parts = [compiler.version, *flags, *link_flags(), *link_libraries(), machine.arch, *machine.features]
    parts += [part for name in sorted(sources) for part in (name, sources[name])]
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
