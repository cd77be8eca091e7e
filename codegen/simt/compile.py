"""Kernel text → kernels that can be launched."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codegen.compile.library import Library
from codegen.simt.launch import FUEL, SM80_SHARED_BYTES, Order, run
from codegen.simt.libraries import kernel_library, prelude_source
from codegen.simt.report import Report
from codegen.simt.signature import KernelSignature, signatures
from ir.diagnostics import Kind, fail

_STAGE = "simt"


class EmulatedKernel:
    """One kernel of a compiled text."""

    def __init__(self, signature: KernelSignature, library: Library, lines: Sequence[str]) -> None:
        self.signature = signature
        self.lines = lines
        self._library = library  # keeps the code loaded
        entry: Any = library.function(_entry_name(signature.name))
        self._entry = ctypes.cast(entry, ctypes.c_void_p)

    def __repr__(self) -> str:
        return f"Kernel({self.signature.name!r}, {self.signature.threads} threads)"

    def launch(
        self,
        grid: Sequence[int],
        arguments: Sequence[Any],
        *,
        shared_bytes: int = 0,
        order: Order = Order.FORWARD,
        seed: int = 0,
        shared_limit: int = SM80_SHARED_BYTES,
        fuel: int = FUEL,
    ) -> Report:
        """Runs the grid of at most three sizes on NumPy arrays and numbers, in the order of the parameters. Arrays
        behind pointers that are not const are stored to in place.

        seed          of the random order
        shared_limit  bytes of shared memory that a block may have
        fuel          memory accesses of one block after which it counts as running away

        Raises:
            EqsatError: InputMismatch where an argument does not fit its parameter. Errors of the kernel are in the
                report.
        """
        return run(
            self.signature,
            self._entry,
            self.lines,
            grid,
            arguments,
            shared_bytes=shared_bytes,
            order=order,
            seed=seed,
            shared_limit=shared_limit,
            fuel=fuel,
        )


class Kernels(Mapping[str, EmulatedKernel]):
    """The kernels of a text, by name."""

    def __init__(self, kernels: Sequence[EmulatedKernel]) -> None:
        self._kernels = {kernel.signature.name: kernel for kernel in kernels}

    def __getitem__(self, name: str) -> EmulatedKernel:
        if name not in self._kernels:
            fail(Kind.INPUT_MISMATCH, _STAGE, f"the text defines no kernel {name!r}", defined=list(self._kernels))
        return self._kernels[name]

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)


def compile_kernels(text: str) -> Kernels:
    """The kernels of `text`, ready to launch; compiled once per text and compiler.

    Many kernels in one text cost less than many texts: starting the compiler takes about 0.3 s.

    Raises:
        EqsatError: CompileFailed where the text is no text of kernels, NoCompiler where nothing compiles C++.
    """
    kernels = signatures(text)
    library = kernel_library("\n".join([prelude_source(), '#line 1 "kernel"', text, *map(_entry, kernels)]) + "\n")
    lines = text.splitlines()
    return Kernels([EmulatedKernel(signature, library, lines) for signature in kernels])


def _entry_name(kernel: str) -> str:
    return f"eq_simt_entry_{kernel}"


def _entry(signature: KernelSignature) -> str:
    """The function that takes the addresses of all arguments and calls the kernel with the arguments."""
    arguments = (f"*({parameter.c_type} *)arguments[{place}]" for place, parameter in enumerate(signature.parameters))
    head = f"EQ_EXPORT void {_entry_name(signature.name)}(void *const *arguments)"
    return f"{head} {{ {signature.name}({', '.join(arguments)}); }}"
