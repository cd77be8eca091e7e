"""A module and its kernels → the C translation units of one library, and the table that launches them.

    void eq_program(void *const *table, int32_t threads)
    void eq_program_timed(void *const *table, int32_t threads, uint64_t *ns)
    void eq_pack(void *const *table, int32_t threads)
    int32_t eq_take_arrays(arguments, results, pattern, places, table)
    const char eq_contract[]

`table` holds, launch after launch, the addresses of the launch's buffers and of the workspace; then those of the slots
of loops (`ir.module.loop.slots_of_loops`). The address of a window is not in it. `eq_take_arrays`
(`prelude/c/arguments.h`) writes the addresses of a call's arguments and results into it. `ns` receives one time per
launch: the sum over all its runs. `eq_contract` identifies the launches and buffers for which the library was written.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import or_

from codegen.compile.library import (
    ARGUMENTS,
    POOL,
    arguments_source,
    pool_declarations,
    pool_source,
    vector_prelude,
)
from codegen.text.cpu_to_c import ENTRY, SUPPORT, c_text
from codegen.text.launches_to_c import program_text
from ir.kernel.cpu.kernel import CpuKernel
from ir.kernel.cpu.lowered_kernel import LoweredCpuKernel
from ir.kernel.workspace import Workspace
from ir.module.launch import Launch, LaunchTable, Packing
from ir.module.module import KernelCall, Module

UNITS = 2
"""Translation units for the kernels, which are compiled in parallel."""
UNIT_CHARACTERS = 6000
"""The least text of kernels in each of several units: a compiler takes as long for it as for the prelude."""


def launch_table(module: Module, lowered: Mapping[str, LoweredCpuKernel]) -> LaunchTable:
    """The launches of the run-time calls. `lowered` is by region name, which is unique in a module."""
    packings: dict[tuple[str, tuple[str, ...]], Packing] = {}
    launches = []
    for call in module.calls:
        if call.when == "run":
            args = _arguments(call, lowered[call.region.name], packings)
            launches.append(Launch(lowered[call.region.name].kernel.name, args))
    workspace = functools.reduce(or_, (kernel.workspace for kernel in _kernels(lowered.values())), Workspace())
    return LaunchTable(tuple(launches), tuple(packings.values()), workspace, module.loops)


def kernel_texts(lowered: Iterable[LoweredCpuKernel]) -> dict[str, str]:
    """The text of every kernel by function name, without the prelude."""
    return {kernel.name: c_text(kernel) for kernel in _kernels(lowered)}


def c_units(texts: Mapping[str, str], table: LaunchTable, flush: bool) -> dict[str, str]:
    """The translation units by name: the kernels, the first of them with the program's entries; the thread pool; the
    function that reads a call's arguments.

    texts: of the kernels, by function name. `flush` lets kernels treat denormals as 0.
    """
    parts = enumerate(_spread(texts.values()))
    units = {f"kernels{number}": _unit("\n".join(part), flush) for number, part in parts}
    entries = program_text(sorted(ENTRY.format(name=name) for name in texts), table, flush)
    units["kernels0"] = units.get("kernels0", pool_declarations()) + "\n" + entries
    return {**units, POOL: pool_source(), ARGUMENTS: arguments_source()}


def _unit(text: str, flush: bool) -> str:
    """A translation unit with this text of kernels."""
    return vector_prelude(text, flush) + pool_declarations() + SUPPORT + "\n" + text


def _kernels(lowered: Iterable[LoweredCpuKernel]) -> Iterator[CpuKernel]:
    for region in lowered:
        yield from (region.kernel, *(packed.kernel for packed in region.packed))


def _arguments(
    call: KernelCall, lowered: LoweredCpuKernel, packings: dict[tuple[str, tuple[str, ...]], Packing]
) -> tuple[str, ...]:
    slots = {buffer.name: slot for buffer, slot in zip(call.region.buffers, call.args, strict=True)}
    for packed in lowered.packed:
        sources = tuple(slots[name] for name in packed.sources)
        key = (packed.kernel.name, sources)
        if key not in packings:
            name = f"packed{len(packings)}"
            packings[key] = Packing(name, packed.dtype, packed.elements, packed.kernel.name, sources)
        slots[packed.name] = packings[key].slot
    return tuple(slots[arg] for arg in lowered.args)


def _spread(texts: Collection[str]) -> list[list[str]]:
    """The texts in at most `UNITS` parts of about the same length, in a fixed order."""
    count = min(UNITS, max(1, sum(map(len, texts)) // UNIT_CHARACTERS))
    parts: list[list[str]] = [[] for _ in range(count)]
    for text in sorted(texts, key=lambda text: (-len(text), text)):
        min(parts, key=lambda part: sum(map(len, part))).append(text)
    return [part for part in parts if part]
