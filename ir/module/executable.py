"""The protocols between code generator and runtime: a program's machine code, and the runner of its module."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
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
class TakesObjects(Protocol):
    """An executable that takes Python's objects as they are."""

    @property
    def takes_objects(self) -> bool:
        """Whether `run_if_direct` does all that `run` does."""
        ...

    def run_if_direct(
        self, arguments: tuple[Any, ...], results: tuple[np.ndarray, ...], pattern: array[int], threads: int
    ) -> bool:
        """As `Executable.run`, if the arguments are the arrays of a pattern (`ir.host.array_pattern`); else nothing
        happens, and the answer is False."""
        ...

    def bind(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> Callable[[], None]:
        """A function that does what `Executable.run` does on these arrays. Only one call may run at a time."""
        ...
