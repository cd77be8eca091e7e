"""The C compiler, its version, and the flags with which all compilers compute the same numbers."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from codegen.compile.machine import ARCHES, Machine
from ir.diagnostics import Kind, fail

_STAGE = "toolchain"
_HINT = "install gcc or clang, or `pip install 'eqsat[cc]'` (a compiler as a wheel), or point EQSAT_CC at one"
_ISA_FLAGS = {
    "avx2": "-mavx2",
    "fma": "-mfma",
    "f16c": "-mf16c",
    "avx512f": "-mavx512f",
    "avx512bw": "-mavx512bw",
    "avx512vl": "-mavx512vl",
    "avx512dq": "-mavx512dq",
    "avx512_bf16": "-mavx512bf16",
    "avx512_vnni": "-mavx512vnni",
    "avx_vnni": "-mavxvnni",
    "amx_tile": "-mamx-tile",
    "amx_bf16": "-mamx-bf16",
    "amx_int8": "-mamx-int8",
}


Family = Literal["gcc", "clang", "zig"]
"""Whose command line the compiler understands; zig is clang under a driver of its own."""


OLDEST = {"gcc": 11, "clang": 13, "zig": 18}
"""The least major versions with which the prelude is tested; zig's is that of its clang."""
_ZIG_WITHOUT_EVEX512 = 20
"""Up to this version of clang, `zig cc` turns the 512-bit registers of AVX-512 off by default."""


class Compiler(msgspec.Struct, frozen=True):
    """A C compiler that `command` starts. version: the line in which it names itself, a part of every cache key. major:
    the major version of gcc, or of the clang inside."""

    command: tuple[str, ...]
    family: Family
    version: str
    major: int

    def __str__(self) -> str:
        return f"{shlex.join(self.command)} ({self.version})"

    @property
    def too_old(self) -> bool:
        """Whether the compiler does not understand the prelude's C."""
        return self.major < OLDEST[self.family]


def find_compiler() -> Compiler:
    """$EQSAT_CC, $CC, gcc, clang, cc or the `ziglang` wheel, the first that answers and is not too old.

    EqsatError NoCompiler if none does, or if $EQSAT_CC does not: a choice made by name is not passed over.
    """
    return _find(os.environ.get("EQSAT_CC"), os.environ.get("CC"), os.environ.get("PATH"))


@functools.cache
def _find(chosen: str | None, conventional: str | None, path: str | None) -> Compiler:
    if chosen:
        compiler = probe(_words(chosen))
        if compiler is None:
            fail(Kind.NO_COMPILER, _STAGE, f"EQSAT_CC={chosen!r} starts no C compiler like gcc or clang", hint=_HINT)
        if compiler.too_old:
            fail(Kind.NO_COMPILER, _STAGE, f"EQSAT_CC={chosen!r} is too old", hint=_HINT, **_ages([compiler]))
        return compiler
    commands = [_words(conventional)] if conventional else []
    commands += [(name,) for name in ("gcc", "clang", "cc")]
    if importlib.util.find_spec("ziglang"):
        commands.append((sys.executable, "-m", "ziglang", "cc"))
    old = []
    for command in commands:
        compiler = probe(command)
        if compiler and not compiler.too_old:
            return compiler
        old += [compiler] if compiler else []
    return fail(Kind.NO_COMPILER, _STAGE, "there is no C compiler on this machine", hint=_HINT, **_ages(old))


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:  # quotes that do not close
        return ()


def _ages(compilers: Sequence[Compiler]) -> dict[str, Any]:
    """The details of a diagnostic about compilers that are too old."""
    if not compilers:
        return {}
    return {
        "too_old": [str(compiler) for compiler in compilers],
        "needed": [f"{name} {age}" for name, age in OLDEST.items()],
    }


def probe(command: tuple[str, ...]) -> Compiler | None:
    """The compiler that `command` starts, or None if it starts none of our families."""
    if not command or shutil.which(command[0]) is None:
        return None
    asked = [*command, "-v", "-dM", "-E", "-x", "c", os.devnull]
    try:
        answer = subprocess.run(
            asked, capture_output=True, text=True, errors="replace", timeout=60, check=False, env=plain_environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    macros = dict(re.findall(r"^#define (__GNUC__|__clang_major__) (\d+)$", answer.stdout, re.MULTILINE))
    named = re.search(r"^(?:\S+ )*(?:gcc|clang) version \d.*$", answer.stderr, re.MULTILINE)
    if answer.returncode or not macros or not named:
        return None
    major = macros.get("__clang_major__") or macros["__GNUC__"]  # clang defines both
    return Compiler(command, _family(command, "__clang_major__" in macros), named[0].strip(), int(major))


def _family(command: tuple[str, ...], is_clang: bool) -> Family:
    if not is_clang:
        return "gcc"
    return "zig" if any(os.path.basename(part).startswith("zig") for part in command) else "clang"


def plain_environment() -> dict[str, str]:
    """This process's environment with a compiler's messages in English."""
    return {**os.environ, "LC_ALL": "C"}


def compile_flags(compiler: Compiler, machine: Machine) -> tuple[str, ...]:
    """Flags that turn one file of C into an object for `machine`.

    No fast-math: the e-graph decides what may be reassociated. The compiler may not fuse a·b + c: a value would have
    other bits where the product is also read.
    """
    common = (
        *(
            "-O2",
            "-std=gnu11",
            "-fPIC",
            "-fvisibility=hidden",
            "-fwrapv",
            "-fno-math-errno",
            "-fno-trapping-math",
        ),
        "-ffp-contract=off",
        "-w",
    )
    # `zig cc` takes the native CPU otherwise, and a gcc may be configured with another default.
    baseline = "-march=x86_64" if compiler.family == "zig" else "-march=x86-64"
    base = (baseline,) if machine.arch in ARCHES else ()
    isa = (
        *base,
        *(_ISA_FLAGS[feature] for feature in machine.features if feature in _ISA_FLAGS),
        f"-DEQ_VL={machine.lanes}",
    )
    width = ["-mprefer-vector-width=512"] if machine.lanes == 16 else []
    if width and compiler.family == "zig" and compiler.major <= _ZIG_WITHOUT_EVEX512:
        width.append("-mevex512")
    # gcc 12.2 miscompiles lanes of integer vectors in its pass "pre", or crashes there (tests/found/cpu_400_1446.json).
    own = ("-Wno-psabi", "-fno-tree-pre") if compiler.family == "gcc" else ("-fno-sanitize=undefined", "-g0")
    return (*common, *isa, *width, *own)


def link_flags() -> tuple[str, ...]:
    """Flags that turn objects into a shared library."""
    return ("-shared", "-pthread")


def link_libraries() -> tuple[str, ...]:
    """Libraries, which follow the objects on the command line."""
    return ("-lm",)
