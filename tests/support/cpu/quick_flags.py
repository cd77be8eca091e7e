"""The compiler's flags for libraries of very many kernels."""

from __future__ import annotations

from codegen.compile.machine import Machine
from codegen.compile.toolchain import compile_flags, find_compiler


def quick_flags(machine: Machine) -> tuple[str, ...]:
    """The flags of programs at -Og, for tests that try every plan: half the time. The flags that decide about bits are
    the same. Tests of programs compile as users do."""
    return (*compile_flags(find_compiler(), machine), "-Og")
