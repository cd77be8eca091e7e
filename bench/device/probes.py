"""Probes of every device function on random arguments: kernels that call them, and their results on a device."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bench.device.launch import Device, launch
from bench.device.probes_memory import memory_probes
from bench.device.probes_warp import warp_probes
from bench.device.probes_warpgroup import warpgroup_probes
from bench.device.samples import Probe, cell_of, numpy_of, samples
from ir.dtype import DTYPES
from ir.kernel.gpu.device_functions import DEVICE_FUNCTIONS, DeviceFunction, Effect, parameters

PAIRS = 512
"""Arguments that an elementwise function is tried on, a multiple of 32."""


@dataclass(frozen=True)
class Recorded:
    """The result of a function, and a checksum of its arguments."""

    result: np.ndarray
    given: int


def probes() -> list[Probe]:
    """All probes; every function of the table occurs in at least one."""
    return [*_elementwise(), _places(), *memory_probes(), *warp_probes(), *warpgroup_probes()]


def run(device: Device, tried: list[Probe] | None = None) -> dict[str, Recorded]:
    """The results of all functions that a device has, by name; for a template by name and parameter."""
    tried = [probe for probe in (probes() if tried is None else tried) if device.has_warpgroups or not probe.warpgroups]
    text = "\n".join(dict.fromkeys(probe.text for probe in tried))
    recorded: dict[str, Recorded] = {}
    for probe in tried:
        given, results = [a.copy() for a in probe.given], [a.copy() for a in probe.results.values()]
        arguments: list[np.ndarray | int] = [*given, *results, *probe.numbers]
        launch(device, text, probe.kernel, probe.grid, probe.threads, arguments, probe.shared_bytes)
        checksum = zlib.crc32(b"".join(array.tobytes() for array in probe.given))
        for name, result in zip(probe.results, results, strict=True):
            recorded[name] = Recorded(_bits(result), checksum)
    return recorded


def _bits(result: np.ndarray) -> np.ndarray:
    """The bits of bf16, which NumPy's files do not support; other arrays as they are."""
    return result.view(np.uint16) if result.dtype == DTYPES["bf16"].numpy else result


def _elementwise() -> Iterator[Probe]:
    """Functions on registers alone; functions of one type share a kernel, and `which` selects one."""
    groups: dict[tuple[str, ...], list[tuple[str, DeviceFunction]]] = defaultdict(list)
    for function in DEVICE_FUNCTIONS.values():
        result, types = parameters(function)
        shuffles = function.effect is Effect.WARP and len(types) > 1
        if (function.effect is Effect.PLAIN or shuffles) and not any("*" in type_ for type_ in types):
            groups[result, *types].extend((call, function) for call in _calls(function))
    for (result, *types), members in groups.items():
        kernel = "eq_try_" + re.sub(r"\W", "_", "_".join((result, *types)))
        text = _elementwise_text(kernel, result, types, [call for call, _ in members])
        for which, (call, function) in enumerate(members):
            given = samples(call, types, PAIRS)
            if function.effect is Effect.WARP:
                given[1] = given[1] % 32
            results = {call: np.zeros(PAIRS, numpy_of(result))}
            yield Probe(kernel, text, tuple(given), results, numbers=(which, PAIRS))


def _calls(function: DeviceFunction) -> list[str]:
    """A function's name; for a template the names of its instances."""
    if not function.signature.startswith("template"):
        return [function.name]
    return [f"{function.name}<{bits}>" for bits in range(4)]


def _elementwise_text(kernel: str, result: str, types: list[str], calls: list[str]) -> str:
    heads = [f"const eq_{cell_of(type_)} *x{place}" for place, type_ in enumerate(types)]
    values = ", ".join(f"({type_})eq_ld_global_{cell_of(type_)}(x{place} + i)" for place, type_ in enumerate(types))
    carried = "int" if result == "unsigned" else result
    store = f"eq_st_global_{cell_of(result)}(y + i, ({carried})"
    cases = "\n".join(f"      case {place}: {store}{call}({values})); break;" for place, call in enumerate(calls))
    return f"""
extern "C" EQ_KERNEL(32, 1) void {kernel}({", ".join([*heads, f"eq_{cell_of(result)} *y"])}, int which, int n) {{
  for (int i = eq_thread(); i < n; i += 32) {{
    switch (which) {{
{cases}
    }}
  }}
}}"""


def _places() -> Probe:
    """The ids of 64 threads in 3 × 2 × 2 blocks."""
    names = [function.name for function in DEVICE_FUNCTIONS.values() if function.effect is Effect.ID]
    heads = ", ".join(f"eq_i32 *y{place}" for place in range(len(names)))
    stores = "\n".join(f"  eq_st_global_i32(y{place} + at, {name}());" for place, name in enumerate(names))
    text = f"""
extern "C" EQ_KERNEL(64, 1) void eq_places({heads}) {{
  const int at = eq_thread() + 64 * (eq_block_x() + 3 * (eq_block_y() + 2 * eq_block_z()));
{stores}
}}"""
    results = {name: np.full(64 * 12, -1, np.int32) for name in names}
    return Probe("eq_places", text, (), results, grid=(3, 2, 2), threads=64)


def functions_of(names: Mapping[str, object]) -> set[str]:
    """The functions of the names of results."""
    return {name.partition("<")[0] for name in names}
