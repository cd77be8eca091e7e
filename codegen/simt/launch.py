"""Launches a kernel in the emulator: from NumPy arrays to findings and counters."""

from __future__ import annotations

import ctypes
import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen.simt.abi import MOST_FINDINGS, CBuffer, CFinding, CLaunch
from codegen.simt.findings import finding
from codegen.simt.libraries import engine
from codegen.simt.report import Counters, Report
from codegen.simt.signature import KernelSignature, Parameter
from ir.diagnostics import Kind, fail

_STAGE = "simt"
SM80_SHARED_BYTES = 163 * 1024
"""Bytes of shared memory of a block on compute capability 8.0, at most (CUDA programming guide, table of technical
specifications)."""
FUEL = 1 << 30
"""Memory accesses of a block after which it counts as running away: minutes."""
_MOST_GRID = (2**31 - 1, 65535, 65535)


class Order(enum.StrEnum):
    """The order in which warps, lanes and blocks run. A correct kernel gives the same results in all orders."""

    FORWARD = "forward"
    REVERSE = "reverse"
    RANDOM = "random"


_ORDERS = tuple(Order)


def run(
    signature: KernelSignature,
    entry: ctypes.c_void_p,
    lines: Sequence[str],
    grid: Sequence[int],
    arguments: Sequence[Any],
    *,
    shared_bytes: int,
    order: Order,
    seed: int,
    shared_limit: int,
    fuel: int,
) -> Report:
    """`EmulatedKernel.launch`, for the kernel with this entry."""
    bound = _Bound(signature, arguments)
    sizes = _grid(signature, grid)
    written = (CFinding * MOST_FINDINGS)()
    request = CLaunch(
        entry=entry,
        arguments=ctypes.addressof(bound.addresses),
        buffers=bound.buffers,
        buffer_count=len(bound.buffers),
        grid=sizes,
        threads=signature.threads,
        shared_bytes=shared_bytes,
        shared_limit=shared_limit,
        order=_ORDERS.index(Order(order)),
        seed=seed,
        fuel=fuel,
        findings=written,
        finding_capacity=MOST_FINDINGS,
    )
    if engine().function("eq_simt_launch", (ctypes.POINTER(CLaunch),), ctypes.c_int)(request):
        fail(Kind.RESOURCE_EXCEEDED, _STAGE, "there is no memory for the emulated threads", at=signature.name)
    findings = tuple(
        finding(written[index], signature.name, lines, bound.names, sizes) for index in range(request.finding_count)
    )
    counters = Counters(*(getattr(request.counters, name) for name in Counters.__struct_fields__))
    return Report(signature.name, findings, counters)


def _grid(signature: KernelSignature, grid: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(grid) <= 3 or any(not 0 <= size <= most for size, most in zip(grid, _MOST_GRID, strict=False)):
        fail(
            Kind.INPUT_MISMATCH,
            _STAGE,
            f"a grid of {tuple(grid)}: one to three sizes up to {_MOST_GRID} are needed",
            at=signature.name,
        )
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z


class _Bound:
    """Arguments as the kernel reads them, and the buffers behind its pointers. An array given twice is one buffer."""

    def __init__(self, signature: KernelSignature, arguments: Sequence[Any]) -> None:
        if len(arguments) != len(signature.parameters):
            fail(
                Kind.INPUT_MISMATCH,
                _STAGE,
                f"{len(arguments)} arguments for {len(signature.parameters)} parameters",
                at=signature.name,
            )
        self._arrays: list[np.ndarray] = []
        self._writable: list[bool] = []
        self._counts: list[bool] = []
        self.names: list[str] = []
        self._values = list(map(self._value, signature.parameters, arguments))
        self.addresses = (ctypes.c_void_p * max(1, len(self._values)))(*(value.ctypes.data for value in self._values))
        self.buffers = (CBuffer * len(self._arrays))(
            *(
                CBuffer(array.ctypes.data, array.nbytes, array.itemsize, writable, counts)
                for array, writable, counts in zip(self._arrays, self._writable, self._counts, strict=True)
            )
        )

    def _value(self, parameter: Parameter, argument: Any) -> np.ndarray:
        """An array of one element: the number, or the emulated address of the buffer."""
        if not parameter.is_pointer:
            return np.array([argument], parameter.dtype)
        array = _check_argument(parameter, argument)
        place = self._place(parameter, array)
        address = engine().function("eq_simt_address", (ctypes.c_uint32,), ctypes.c_uint64)
        return np.array([address(place)], np.uint64)

    def _place(self, parameter: Parameter, array: np.ndarray) -> int:
        for place, known in enumerate(self._arrays):
            if known.ctypes.data == array.ctypes.data and known.nbytes == array.nbytes:
                self._writable[place] |= parameter.writable
                self.names[place] += f", {parameter.name}"
                return place
            if np.may_share_memory(known, array):
                names = f"{self.names[place]} and {parameter.name}"
                fail(Kind.INPUT_MISMATCH, _STAGE, f"{names} overlap without being one array", at=parameter.name)
        self._arrays.append(array)
        self._writable.append(parameter.writable)
        self._counts.append(parameter.counts)
        self.names.append(parameter.name)
        return len(self._arrays) - 1


def _check_argument(parameter: Parameter, argument: Any) -> np.ndarray:
    """Raises:
    EqsatError: InputMismatch unless the argument is an array with the dtype and layout of the parameter.
    """
    if not isinstance(argument, np.ndarray) or argument.dtype != parameter.dtype:
        given = argument.dtype if isinstance(argument, np.ndarray) else type(argument).__name__
        fail(Kind.INPUT_MISMATCH, _STAGE, f"an array of {parameter.dtype} is needed, not {given}", at=parameter.name)
    if not argument.flags.c_contiguous or (parameter.writable and not argument.flags.writeable):
        fail(Kind.INPUT_MISMATCH, _STAGE, "the array is not contiguous, or may not be written", at=parameter.name)
    if math.prod(argument.shape) * argument.itemsize >= 1 << 39:
        fail(Kind.INPUT_MISMATCH, _STAGE, "the array is beyond what the emulator addresses", at=parameter.name)
    return argument
