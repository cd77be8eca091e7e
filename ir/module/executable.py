"""The protocols between code generator and runtime: a program's machine code, and the runner of its module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ir.diagnostics import Diagnostic
from ir.kernel.resources import KernelResources


class Code(Protocol):
    """The machine code of a program, loaded or ready to be."""

    @property
    def code(self) -> bytes:
        """The bytes that are saved and loaded again; empty if the program is emulated."""
        ...

    @property
    def resources(self) -> Mapping[str, KernelResources]:
        """The resources of kernels by function, if the compiler reports them."""
        ...

    @property
    def diagnostics(self) -> Sequence[Diagnostic]: ...


class Executable(Protocol):
    """Runs a module."""

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> None:
        """Makes one call: reads the inputs and fills the outputs, in the module's order."""
        ...

    def profile(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int, repeats: int
    ) -> np.ndarray:
        """Times of the kernels in ns: an array [repeats, launches]."""
        ...


@runtime_checkable
class OnDevice(Protocol):
    """An executable that takes memory of a device."""

    def require_device(self) -> None:
        """Raises EqsatError, NoDevice, if there is no device."""
        ...

    def run_on_device(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One call on flat arrays of bytes, in the module's order, on the current stream."""
        ...


@runtime_checkable
class ByAddress(Protocol):
    """An executable that takes the addresses of arguments and results."""

    @property
    def takes_addresses(self) -> bool:
        """Whether `run_at` does all that `run` does."""
        ...

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int], threads: int) -> None:
        """As `Executable.run`, on C-contiguous, aligned host memory at these addresses."""
        ...
