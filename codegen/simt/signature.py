"""The kernels that a text defines: their names, threads and parameters, read from their first lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import numpy as np

from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.kernel.gpu.device_functions import CELLS

_STAGE = "simt"
_KERNEL = re.compile(r'extern\s+"C"\s+EQ_KERNEL\(\s*(\d+)\s*,\s*\d+\s*\)\s*void\s+(\w+)\s*\(([^)]*)\)\s*\{')
_PARAMETER = re.compile(r"(?:(const)\s+)?(\w+(?:\s\w+)*?)\s*(\*)?\s*(?:__restrict__\s*)?(\w+)")
_COUNTER = "eq_counter"
_CELL_DTYPES = {f"eq_{cell}": DTYPES[name].numpy for name, cell in CELLS.items()} | {_COUNTER: np.dtype(np.uint32)}
_SCALARS: Mapping[str, np.dtype] = MappingProxyType(
    {
        "int": np.dtype(np.int32),
        "unsigned": np.dtype(np.uint32),
        "long long": np.dtype(np.int64),
        "float": np.dtype(np.float32),
        "double": np.dtype(np.float64),
        **_CELL_DTYPES,
    }
)
MOST_THREADS = 1024
"""Threads of a block, at most."""


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of a kernel.

    c_type    the C type of the argument
    dtype     of the value, or of the elements behind a pointer
    writable  whether the elements may be stored to
    counts    whether the elements are counters
    """

    name: str
    c_type: str
    dtype: np.dtype
    is_pointer: bool
    writable: bool
    counts: bool = False


class KernelSignature(msgspec.Struct, frozen=True):
    """A kernel's name, threads of a block, parameters, and the line of the text where it starts."""

    name: str
    threads: int
    parameters: tuple[Parameter, ...]
    line: int


def signatures(text: str) -> tuple[KernelSignature, ...]:
    """The kernels of `text`, in its order.

    Raises:
        EqsatError: CompileFailed where there is none, or a parameter or a number of threads is not understood.
    """
    parameters = tuple(
        KernelSignature(
            match[2], _threads(match[2], int(match[1])), _parameters(match[2], match[3]), _line(text, match.start())
        )
        for match in _KERNEL.finditer(text)
    )
    if not parameters:
        fail(Kind.COMPILE_FAILED, _STAGE, 'the text defines no kernel `extern "C" EQ_KERNEL(…) void name(…) {`')
    return parameters


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _threads(kernel: str, threads: int) -> int:
    if threads % 32 or not 0 < threads <= MOST_THREADS:
        fail(
            Kind.COMPILE_FAILED,
            _STAGE,
            f"{threads} threads a block: a multiple of 32 up to {MOST_THREADS} is needed",
            at=kernel,
        )
    return threads


def _parameters(kernel: str, text: str) -> tuple[Parameter, ...]:
    return tuple(_parameter(kernel, piece.strip()) for piece in text.split(",") if piece.strip())


def _parameter(kernel: str, text: str) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    if match:
        const, base, star, name = match.groups()
        if star and base in _CELL_DTYPES:
            return Parameter(
                name, f"{'const ' if const else ''}{base} *", _CELL_DTYPES[base], True, not const, base == _COUNTER
            )
        if not star and base in _SCALARS:
            return Parameter(name, base, _SCALARS[base], False, False)
    fail(Kind.COMPILE_FAILED, _STAGE, f"the parameter `{text}` is neither a pointer to cells nor a number", at=kernel)
