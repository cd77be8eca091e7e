"""Generated C under sanitizers: memory and undefined behaviour, or races between the tasks of a loop.

For memory the kernels run twice, and the results must be the same bits. The first run has one thread, memory filled
with ones, and callers' arrays at the start of their allocations; the second has three threads, memory filled with
zeros, and arrays that start one element later. Whatever depends on memory that nobody wrote, on an address, or on who
runs a task differs between the two.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

from codegen.backends.cpu import CpuBackend
from codegen.compile.library import pool_declarations, pool_source, vector_prelude
from codegen.compile.machine import machine, restrict
from codegen.compile.toolchain import compile_flags, find_compiler
from codegen.plan.cpu import contraction_blocks, contraction_work, nest_candidates, stream_work
from codegen.poly.analyse import checked_core
from codegen.text.cpu_to_c import SUPPORT, c_text
from codegen.text.program_to_c import launch_table
from eqsat.assembly.assemble import assemble
from eqsat.assembly.fold import fold
from eqsat.extraction.extract import extract
from eqsat.find_target import find_target
from eqsat.options import Options
from eqsat.pipeline import lower_module
from eqsat.planning.target_pricer import pricer_for
from ir.dtype import dtype
from ir.kernel.cpu.lowered_kernel import LoweredCpuKernel
from ir.module.launch import LaunchTable
from ir.module.module import Module
from ir.plan.plan import Plan
from ir.pricer import Price
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness
from ir.tiny.graph import Graph
from rules import select
from tests.stress.driver import DEALING_POOL, Memory, Step, driver_text, with_gaps
from tests.stress.programs import Batch
from tests.support.oracles.canary import saturate
from tests.support.stages.random_covers import random_cover

_COMMON = ("-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1", "-O1", "-DEQ_PLAIN_MEMORY")
_MEMORY = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-wrapv", *_COMMON)
_RACES = ("-fsanitize=thread", *_COMMON)
_MEMORY_RUNS = (("1", "255", "0"), ("3", "0", "1"))
"""Threads, the byte that memory is filled with, and the shift of callers' arrays in elements."""
_RACES_RUNS = (("3", "255", "0"),)
SECONDS = 300
UNITS = 8
"""Cores that plans count on."""
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66:die_after_fork=0",
}
_FILES = 2

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Checked:
    """`complaint` is what the sanitizers said, or where two runs differ; empty where there is nothing to say."""

    kernels: int
    complaint: str
    results: tuple[np.ndarray, ...] = ()


def check(batch: Batch, races: bool = False) -> Checked:
    """The kernels of a batch, run on its inputs under the sanitizers of memory, or under that of races: the kernels
    that extraction chooses, or those of a random cover with random plans. Results are those that kernels write, in the
    order of the module's slots."""
    with _eager_threads() if races or batch.cover is not None else contextlib.nullcontext():
        module = _made(batch.graph, sorted(batch.constants), Exactness[batch.level.upper()], batch.cover)
    lowered = lower_module(module.module, module.prices, CpuBackend())
    table = launch_table(module.module, lowered)
    given = {**fold(module.module, batch.constants, ordered=module.level < Exactness.REASSOCIATE), **batch.inputs}
    with tempfile.TemporaryDirectory(prefix="eqsat-sanitized-") as name:
        return _run(module, lowered, table, given, Path(name), races)


@contextlib.contextmanager
def _eager_threads() -> Iterator[None]:
    """Plans share the work of any kernel among threads, however small it is."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (nest_candidates, contraction_work, contraction_blocks, stream_work):
            patch.setattr(module, "SMALL_FLOPS", 0)
        patch.setattr(nest_candidates, "SMALL_BYTES", 0)
        yield


class _Made(NamedTuple):
    module: Module
    prices: tuple[Price, ...]
    target: Target
    level: Exactness


def _made(graph: Graph, constants: Sequence[str], level: Exactness, seed: int | None) -> _Made:
    target = msgspec.structs.replace(find_target("cpu"), units=UNITS)
    view, _ = saturate(graph, select(None, level), level, constants=constants)
    pricer = pricer_for(target, Options(exactness=level))
    if seed is None:
        module, prices = assemble(extract(view, graph.outputs, pricer, constants=constants), view, graph, constants)
        return _Made(module, prices, target, level)
    rng = random.Random(seed)
    cover = random_cover(view, graph.outputs, pricer, rng, constants=constants)
    module, prices = assemble(cover, view, graph, constants)
    plans = {call.region.name: _any_plan(call.region, target, level, rng) for call in module.running}
    shuffled = (
        msgspec.structs.replace(price, plan=plans[call.region.name])
        for call, price in zip(module.running, prices, strict=True)
    )
    return _Made(module, tuple(shuffled), target, level)


def _any_plan(region: Region, target: Target, level: Exactness, rng: random.Random) -> Plan:
    plan, _ = rng.choice(CpuBackend().candidates(region, checked_core(region), target, level))
    return plan


def _run(
    prepared: _Made,
    lowered: Mapping[str, LoweredCpuKernel],
    table: LaunchTable,
    given: Arrays,
    folder: Path,
    races: bool,
) -> Checked:
    memories, steps = _plan(prepared, lowered, table, given)
    kernels = len({step.kernel.name for step in steps})
    program = folder / "program"
    complaint = _built(steps, driver_text(list(memories.values()), steps), program, prepared.target.arch, races)
    if complaint:
        return Checked(kernels, complaint)
    data = folder / "given"
    data.write_bytes(b"".join(np.ascontiguousarray(given[name]).tobytes() for name, m in memories.items() if m.given))
    outcomes = []
    for number, arguments in enumerate(_RACES_RUNS if races else _MEMORY_RUNS):
        results = folder / f"results{number}"
        command = [str(program), str(data), str(results), *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            env={**os.environ, **ENVIRONMENT},
            check=False,
        )
        if done.returncode:
            return Checked(kernels, f"exit status {done.returncode} with {' '.join(arguments)}\n{done.stderr[:6000]}")
        outcomes.append(results.read_bytes())
    results_of = {slot.name: slot.memref for slot in prepared.module.slots}
    arrays, at = [], 0
    for name, memory in memories.items():
        if memory.result:
            kind, shape = dtype(results_of[name].dtype).numpy, results_of[name].shape
            actual = [np.frombuffer(outcome[at : at + memory.nbytes], kind).reshape(shape) for outcome in outcomes]
            at += memory.nbytes
            if not _same(actual[0], actual[-1]):
                return Checked(kernels, f"{name} differs between two runs")
            arrays.append(actual[0])
    return Checked(kernels, "", tuple(arrays))


def _plan(
    prepared: _Made, lowered: Mapping[str, LoweredCpuKernel], table: LaunchTable, given: Arrays
) -> tuple[dict[str, Memory], list[Step]]:
    """The memories by slot, and the calls: constants are packed first."""
    module = prepared.module
    used = {name for launch in table.launches for name in launch.args}
    used |= {name for packing in table.packings for name in packing.sources}
    outputs = {slot for _, slot in module.outputs}
    memories = {}
    for slot in module.slots:
        if slot.name in used:
            itemsize = dtype(slot.memref.dtype).bytes
            is_given = slot.name in given
            is_result = slot.name in outputs and not is_given
            own = slot.role == "arena"
            memories[slot.name] = Memory(slot.memref.nbytes, itemsize, is_given, is_result, own)
    for packing in table.packings:
        itemsize = dtype(packing.dtype).bytes
        memories[packing.slot] = Memory(packing.elements * itemsize, itemsize, False, False, True)
    place = {name: number for number, name in enumerate(memories)}
    kernels = {lowered_kernel.kernel.name: with_gaps(lowered_kernel.kernel) for lowered_kernel in lowered.values()}
    kernels |= {
        packed.kernel.name: with_gaps(packed.kernel)
        for lowered_kernel in lowered.values()
        for packed in lowered_kernel.packed
    }
    flush = prepared.level > Exactness.EXACT
    steps = [
        Step(kernels[packing.function], tuple(place[name] for name in (*packing.sources, packing.slot)), False)
        for packing in table.packings
    ]
    steps += [
        Step(kernels[launch.function], tuple(place[name] for name in launch.args), flush) for launch in table.launches
    ]
    return memories, steps


def _built(steps: Sequence[Step], driver: str, program: Path, arch: str, races: bool) -> str:
    """Compile the kernels and the driver to one program; what the compiler said if it failed."""
    compiler = find_compiler()
    sanitizers = _RACES if races else _MEMORY
    flags = [*compile_flags(compiler, restrict(machine(), arch)), *sanitizers]
    texts = [c_text(kernel) for kernel in {step.kernel.name: step.kernel for step in steps}.values()]
    head = _wrapping(vector_prelude()) + pool_declarations() + SUPPORT + "\n"
    units = [head + "\n".join(texts[number::_FILES]) for number in range(_FILES)]
    units.append((pool_declarations() + DEALING_POOL if races else pool_source()) + driver)

    def compiled(item: tuple[int, str]) -> tuple[str, str]:
        number, text = item
        source = program.with_name(f"unit{number}.c")
        source.write_text(text)
        result = str(source.with_suffix(".o"))
        return result, _said([*compiler.command, *flags, "-c", str(source), "-o", result])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, enumerate(units)))
    complaints = "".join(said for _, said in objects)
    linked = [*compiler.command, *sanitizers, *(result for result, _ in objects), "-pthread", "-lm", "-o", str(program)]
    return complaints or _said(linked)


def _wrapping(prelude: str) -> str:
    """The vector functions without the check of overflow: the integers of a program wrap, those of an index do not."""
    for head in ("#define EQ_FN static inline ", "#define EQ_CALL static "):
        assert head in prelude
        prelude = prelude.replace(head, f'{head}__attribute__((no_sanitize("signed-integer-overflow"))) ')
    return prelude


def _said(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return done.stderr[:6000] or "the compiler failed" if done.returncode else ""


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether they hold the same bits; any NaN is like another."""
    if dtype(one.dtype).is_float:
        nan = np.isnan(one) & np.isnan(other)
        return bool(((one.view(f"u{one.itemsize}") == other.view(f"u{one.itemsize}")) | nan).all())
    return bool((one == other).all())
