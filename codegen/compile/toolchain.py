"""The C compiler: which one, its version, and the flags that give the same numbers with each."""

from __future__ import annotations

import functools
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from typing import Literal

import msgspec

from codegen.compile.machine import ARCHES, Machine
from ir.diagnostics import Kind, fail

_STAGE = "toolchain"
_HINT = "install gcc (11 or later) or clang, or `pip install ziglang`, or point EQSAT_CC at a compiler"
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
}


Family = Literal["gcc", "clang", "zig"]
"""Whose command line it understands; zig is clang under a driver of its own."""


class Compiler(msgspec.Struct, frozen=True):
    """`command` starts it; `version` is the first line of its --version, a part of every cache key."""

    command: tuple[str, ...]
    family: Family
    version: str

    def __str__(self) -> str:
        return f"{shlex.join(self.command)} ({self.version})"


def find_compiler() -> Compiler:
    """$EQSAT_CC, $CC, gcc, clang, cc or the `ziglang` wheel, the first that answers.

    EqsatError NoCompiler if none does, or if $EQSAT_CC does not: a choice made by name is not passed over.
    """
    return _found(os.environ.get("EQSAT_CC"), os.environ.get("CC"), os.environ.get("PATH"))


@functools.cache
def _found(chosen: str | None, conventional: str | None, path: str | None) -> Compiler:
    if chosen:
        compiler = probe(tuple(shlex.split(chosen)))
        return compiler or fail(Kind.NO_COMPILER, _STAGE, f"EQSAT_CC={chosen!r} does not run", hint=_HINT)
    commands = [tuple(shlex.split(conventional))] if conventional else []
    commands += [(name,) for name in ("gcc", "clang", "cc")]
    if importlib.util.find_spec("ziglang"):
        commands.append((sys.executable, "-m", "ziglang", "cc"))
    for command in commands:
        compiler = probe(command)
        if compiler:
            return compiler
    return fail(Kind.NO_COMPILER, _STAGE, "there is no C compiler on this machine", hint=_HINT)


def probe(command: tuple[str, ...]) -> Compiler | None:
    """The compiler that `command` starts, or None if it starts none."""
    if not command or shutil.which(command[0]) is None:
        return None
    try:
        answer = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode or not answer.stdout:
        return None
    return Compiler(command, _family(command, answer.stdout), answer.stdout.splitlines()[0].strip())


def _family(command: tuple[str, ...], version: str) -> Family:
    if "clang" not in version:
        return "gcc"
    return "zig" if any(os.path.basename(part).startswith("zig") for part in command) else "clang"


def compile_flags(compiler: Compiler, machine: Machine, *, contract: bool = False) -> tuple[str, ...]:
    """Flags that turn one file of C into an object for `machine`.

    No fast-math: the e-graph decides what may be reassociated. `contract` lets a*b + c fuse.
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
        f"-ffp-contract={'fast' if contract else 'off'}",
        "-w",
    )
    # `zig cc` takes the native CPU otherwise, and a gcc may be configured with another default.
    baseline = "-march=x86_64" if compiler.family == "zig" else "-march=x86-64"
    base = (baseline,) if machine.arch in ARCHES else ()
    isa = (
        *base,
        *(_ISA_FLAGS[each] for each in machine.features if each in _ISA_FLAGS),
        f"-DEQ_VL={machine.lanes}",
    )
    width = ("-mprefer-vector-width=512",) if machine.arch == "avx512" else ()
    own = ("-Wno-psabi",) if compiler.family == "gcc" else ("-fno-sanitize=undefined", "-g0")
    return (*common, *isa, *width, *own)


def link_flags() -> tuple[str, ...]:
    """Flags that turn objects into a shared library."""
    return ("-shared", "-pthread")


def link_libraries() -> tuple[str, ...]:
    """Libraries, which follow the objects on the command line."""
    return ("-lm",)
