"""What the code generator gives and the runtime takes: a program's machine code, and what runs its module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ir.diagnostics import Diagnostic
from ir.kernel.resources import KernelResources


class Code(Protocol):
    """The machine code of a program, loaded or ready to be."""

    @property
    def code(self) -> bytes:
        """What is saved, and loaded again; empty where the program is emulated."""
        ...

    @property
    def resources(self) -> Mapping[str, KernelResources]:
        """What the compiler says that kernels take, by function, where it does."""
        ...

    @property
    def diagnostics(self) -> Sequence[Diagnostic]: ...


class Executable(Protocol):
    """What runs a module."""

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> None:
        """One call: reads the inputs, fills the outputs, in the module's order."""
        ...

    def profile(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int, repeats: int
    ) -> np.ndarray:
        """ns per kernel launch: an array [repeats, launches]."""
        ...
