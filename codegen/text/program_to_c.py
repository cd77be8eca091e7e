"""A module and its kernels → the C translation units of one library, and the table that launches them.

    void eq_program(void *const *table, int32_t threads)
    void eq_program_timed(void *const *table, int32_t threads, uint64_t *ns)
    void eq_pack(void *const *table, int32_t threads)
    const char eq_contract[]

`table` holds, launch after launch, the addresses of the launch's buffers and of the workspace. `ns` receives one time
per launch. `eq_contract` identifies the launches and buffers for which the library was written.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import or_

from codegen.compile.library import POOL, pool_declarations, pool_source, vector_prelude
from codegen.text.cpu_to_c import ENTRY, SUPPORT, c_text
from ir.kernel.cpu.kernel import CpuKernel
from ir.kernel.cpu.lowered_kernel import LoweredCpuKernel
from ir.kernel.workspace import Workspace
from ir.module.launch import UNBOUND, Launch, LaunchTable, Packing
from ir.module.module import KernelCall, Module

UNITS = 2
"""Translation units for the kernels, which are compiled in parallel."""

_CLOCK = """\
#define EQ_EXPORT __attribute__((visibility("default")))
#include <time.h>
static uint64_t eq_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
"""


def launch_table(module: Module, lowered: Mapping[str, LoweredCpuKernel]) -> LaunchTable:
    """The launches of the run-time calls. `lowered` is by region name, which is unique in a module."""
    packings: dict[tuple[str, tuple[str, ...]], Packing] = {}
    launches = []
    for call in module.calls:
        if call.when == "run":
            args = _arguments(call, lowered[call.region.name], packings)
            launches.append(Launch(lowered[call.region.name].kernel.name, args))
    workspace = functools.reduce(or_, (kernel.workspace for kernel in _kernels(lowered.values())), Workspace())
    return LaunchTable(tuple(launches), tuple(packings.values()), workspace)


def c_units(lowered: Iterable[LoweredCpuKernel], table: LaunchTable, flush: bool) -> dict[str, str]:
    """The translation units by name: the kernels, the program's entries, the thread pool.

    `flush` lets kernels treat denormals as 0.
    """
    kernels = list(_kernels(lowered))
    units = {}
    for number, part in enumerate(_spread(kernels)):
        head = vector_prelude() + pool_declarations() + SUPPORT
        units[f"kernels{number}"] = head + "\n" + "\n".join(part)
    units["program"] = _entries(kernels, table, flush)
    units[POOL] = pool_source()
    return units


def kernel_texts(lowered: Iterable[LoweredCpuKernel]) -> dict[str, str]:
    """The text of every kernel by function name, without the prelude, for people to read."""
    return {kernel.name: c_text(kernel) for kernel in _kernels(lowered)}


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


def _spread(kernels: Sequence[CpuKernel]) -> list[list[str]]:
    """The texts in `UNITS` parts of about the same length, in a fixed order."""
    parts: list[list[str]] = [[] for _ in range(UNITS)]
    for text in sorted(map(c_text, kernels), key=lambda text: (-len(text), text)):
        min(parts, key=lambda part: sum(map(len, part))).append(text)
    return [part for part in parts if part]


def _entries(kernels: Sequence[CpuKernel], table: LaunchTable, flush: bool) -> str:
    lines = [pool_declarations(), _CLOCK]
    lines += [f"{ENTRY.format(name=kernel.name)};" for kernel in kernels]
    runs = [(launch.function, len(launch.args) + 1) for launch in table.launches]
    packs = [(packing.function, len(packing.sources) + 2) for packing in table.packings]
    lines += _entry("eq_program(void *const *table, int32_t threads)", runs, flush, timed=False)
    lines += _entry("eq_program_timed(void *const *table, int32_t threads, uint64_t *ns)", runs, flush, timed=True)
    lines += _entry("eq_pack(void *const *table, int32_t threads)", packs, False, timed=False)
    lines.append(f'EQ_EXPORT const char eq_contract[{len(UNBOUND) + 1}] = "{UNBOUND}";')
    return "\n".join(lines) + "\n"


def _entry(head: str, calls: Sequence[tuple[str, int]], flush: bool, timed: bool) -> list[str]:
    lines = [f"EQ_EXPORT void {head} {{", "  eq_run run;", f"  eq_run_begin(&run, {int(flush)});"]
    if timed:
        lines.append("  uint64_t before = eq_now(), after;")
    at = 0
    for number, (function, count) in enumerate(calls):
        lines.append(f"  {function}(table + {at}, threads);")
        if timed:
            lines.append(f"  after = eq_now(); ns[{number}] = after - before; before = after;")
        at += count
    return [*lines, "  eq_run_end(&run);", "}"]
