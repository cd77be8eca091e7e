"""Shared libraries: the engine, built once per compiler and loaded once per process, and the kernels that call it."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
from importlib import resources

from codegen.compile.library import Library, build
from codegen.compile.machine import machine
from codegen.compile.toolchain import Compiler, compile_flags, find_compiler, plain_environment, probe
from codegen.simt.abi import LAYOUT
from ir.diagnostics import Kind, fail

_STAGE = "simt"
_ENGINE = (
    "interface",
    "fiber",
    "state",
    "findings",
    "requests",
    "shared",
    "blocks",
    "global",
    "tickets",
    "copies",
    "numbers",
    "matrices",
    "warpgroup",
    "collectives",
    "schedule",
    "launch",
)
_PRELUDE = ("types", "convert", "scalar", "cuda/plain", "random", "memory", "warp", "warpgroup")
"""The headers of the device functions; the one in `cuda/` is plain C++ that GPUs read too."""
_UNINITIALISED_PATTERN = {"gcc": 12, "clang": 13, "zig": 18}
"""The first versions that can fill uninitialised locals with a pattern."""


def engine_source() -> str:
    """The engine as one translation unit."""
    return "".join(_text("engine", name) for name in _ENGINE)


@functools.cache
def prelude_source() -> str:
    """The device functions on a CPU, as text to stand above the kernels of a translation unit."""
    return _text("engine", "interface") + "".join(map(_header, _PRELUDE))


def _header(name: str) -> str:
    if name.startswith("cuda/"):
        return (resources.files("codegen.text") / "prelude" / f"{name}.h").read_text(encoding="utf-8")
    return _text("prelude", name)


def _text(folder: str, name: str) -> str:
    return (resources.files("codegen.simt") / folder / f"{name}.h").read_text(encoding="utf-8")


@functools.cache
def engine() -> Library:
    """The loaded engine.

    Raises:
        EqsatError: NoCompiler or CompileFailed.
    """
    compiler, on = cxx_compiler(), machine()
    vector = [flag for flag in compile_flags(compiler, on) if flag.startswith("-m")]
    library = build({"engine": engine_source()}, on, compiler=compiler, flags=[*_flags(compiler), "-O3", *vector])
    layout = library.function("eq_simt_layout", (ctypes.c_int,), ctypes.c_uint32)
    sizes = [layout(position) for position in range(len(LAYOUT))]
    if sizes != [ctypes.sizeof(struct) for struct in LAYOUT]:
        fail(Kind.COMPILE_FAILED, _STAGE, "the engine and abi.py disagree on their structs", sizes=sizes)
    return library


def kernel_library(source: str) -> Library:
    """The loaded library of `source`, which includes the prelude, bound to the engine.

    Raises:
        EqsatError: NoCompiler or CompileFailed.
    """
    compiler, on = cxx_compiler(), machine()
    library = build({"kernels": source}, on, compiler=compiler, flags=(*_flags(compiler), *_checking_flags(compiler)))
    table = engine().function("eq_simt_engine", (), ctypes.c_void_p)()
    library.function("eq_simt_bind", (ctypes.c_void_p,))(table)
    return library


def _flags(compiler: Compiler) -> tuple[str, ...]:
    """Flags with which no C++ runtime is needed, and two loaded libraries share nothing."""
    own = ("-fno-gnu-unique",) if compiler.family == "gcc" else ("-fno-sanitize=undefined",)
    return (
        *("-x", "c++", "-std=gnu++17", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-w"),
        *("-fwrapv", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
        *own,
    )


def _checking_flags(compiler: Compiler) -> tuple[str, ...]:
    """Flags that check indices of register arrays, and that fill uninitialised registers with the same pattern in every
    run."""
    bounds = "bounds" if compiler.family == "gcc" else "array-bounds"
    able = compiler.major >= _UNINITIALISED_PATTERN[compiler.family]
    pattern = ("-ftrivial-auto-var-init=pattern",) if able else ()
    return "-Og", f"-fsanitize={bounds}", f"-fno-sanitize-recover={bounds}", *pattern


def cxx_compiler() -> Compiler:
    """The C compiler of `find_compiler` where it compiles C++ too, else g++ or clang++.

    Raises:
        EqsatError: NoCompiler where none does.
    """
    return _cxx(find_compiler())


@functools.cache
def _cxx(first: Compiler) -> Compiler:
    others = (probe((name,)) for name in ("g++", "clang++"))
    for compiler in (first, *others):
        if compiler and not compiler.too_old and _compiles_cxx(compiler):
            return compiler
    fail(
        Kind.NO_COMPILER,
        _STAGE,
        f"{first} compiles no C++, which the emulator needs",
        hint="install g++ or clang++, or `pip install 'eqsat[cc]'`",
    )


def _compiles_cxx(compiler: Compiler) -> bool:
    command = [*compiler.command, "-x", "c++", "-std=gnu++17", "-fsyntax-only", os.devnull]
    return subprocess.run(command, capture_output=True, check=False, env=plain_environment()).returncode == 0
