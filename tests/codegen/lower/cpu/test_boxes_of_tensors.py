"""Kernels whose buffers are boxes of larger tensors: the results are the same, and what lies between is untouched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from codegen.backends.cpu import CpuBackend
from codegen.compile.library import ARGUMENTS, POOL, build
from codegen.compile.machine import machine
from codegen.plan.cpu.candidates import candidates
from codegen.poly.analyse import analyse
from codegen.run.executable import CpuExecutable
from eqsat.find_target import find_target
from ir.backend import function_name
from ir.dtype import DTYPES
from ir.index.strides import row_major
from ir.module.module import KernelCall, Module, Role, Slot
from ir.plan.plan import Plan
from ir.region.playback import play_region
from ir.region.region import Buffer, MemRef, Region
from tests.support.cpu.played import Array, assert_played, random_inputs, unwritten
from tests.support.cpu.quick_flags import quick_flags
from tests.support.programs.regions import conv, corpus, gemm_bias_relu, matmul, maxpool, softmaxes

BETWEEN = 55
"""What lies between the elements of a box, where no kernel may write."""


def boxed(region: Region, rng: np.random.Generator) -> Region:
    """The region over buffers in frames that are up to 3 elements larger along every axis."""

    def box(buffer: Buffer) -> Buffer:
        frame = tuple(size + int(rng.integers(4)) for size in buffer.memref.shape)
        return msgspec.structs.replace(buffer, memref=msgspec.structs.replace(buffer.memref, box_of=frame))

    inputs, outputs = (tuple(map(box, buffers)) for buffers in (region.inputs, region.outputs))
    return msgspec.structs.replace(region, inputs=inputs, outputs=outputs)


def in_frame(array: Array, memref: MemRef) -> tuple[Array, Array]:
    """Memory of a box that holds an array, with a number between the elements; and the view of the box."""
    memory = np.full(memref.span, BETWEEN).astype(DTYPES[memref.dtype].numpy)
    steps = [step * memory.itemsize for step in row_major(memref.frame)]
    view = np.lib.stride_tricks.as_strided(memory, memref.shape, steps)
    view[...] = array
    return memory, view


class Trial:
    """Kernels of several regions, each by a plan of its own, in one program."""

    def __init__(self, several: Sequence[tuple[Region, Plan]], cache: Path) -> None:
        self.calls: list[KernelCall] = []
        self.slots: list[Slot] = []
        self.memories: dict[str, tuple[Array, Array]] = {}
        backend, lowered = CpuBackend(), {}
        for number, (region, plan) in enumerate(several):
            named = msgspec.structs.replace(region, name=f"{region.name}_{number}")
            self._add(named, number)
            lowered[named.name] = backend.lower(named, analyse(named).core, plan, function_name(named))
        inputs, outputs, constants = (
            [slot.name for slot in self.slots if slot.role == role] for role in ("input", "output", "constant")
        )
        results = tuple(zip(outputs, outputs, strict=True))
        module = Module("boxes", tuple(self.slots), tuple(self.calls), tuple(inputs), results)
        table, where = backend.launches(module, lowered), machine()
        units, common = backend.units(backend.texts(lowered.values()), table, False), frozenset([POOL, ARGUMENTS])
        library = build(units, where, cache=cache, flags=quick_flags(where), common=common)
        known = {name: self.memories[name][0] for name in constants}
        executable = CpuExecutable(module, table, library, known, 2)
        given, written = ([self.memories[name][0] for name in names] for names in (inputs, outputs))
        executable.run(given, written, 2)

    def _add(self, region: Region, number: int) -> None:
        """A call of the region, with memory of its own."""
        arrays = {**random_inputs(region, number), **unwritten(region)}
        names = [f"{buffer.name}@{number}" for buffer in region.buffers]
        self.calls.append(KernelCall(region.name, region, tuple(names)))
        for name, buffer in zip(names, region.buffers, strict=True):
            role: Role = "output" if buffer in region.outputs else "constant" if buffer.constant else "input"
            self.slots.append(Slot(name, buffer.memref, role))
            self.memories[name] = in_frame(arrays[buffer.name], buffer.memref)

    def check(self) -> None:
        for call in self.calls:
            region = call.region
            views = {buffer.name: self.memories[arg] for buffer, arg in zip(region.buffers, call.args, strict=True)}
            inputs = {buffer.name: views[buffer.name][1].copy() for buffer in region.inputs}
            got = {output.name: views[output.name][1] for output in region.outputs}
            assert_played(region, inputs, got, play_region(region, inputs), region)
            for memory, view in views.values():
                view[...] = np.array(BETWEEN).astype(view.dtype)
                assert (memory == np.array(BETWEEN).astype(view.dtype)).all(), f"{region}: what lies between is written"


def trial(regions: Sequence[Region], plans_of_each: int, seed: int, cache: Path) -> Trial:
    """Some plans of all regions, over boxes."""
    rng, target = np.random.default_rng(seed), find_target("cpu")
    several = []
    for region in regions:
        over = boxed(region, rng)
        plans = [plan for plan, _ in candidates(over, analyse(over).core, target)]
        assert plans, region.name
        several += [(over, plans[place]) for place in {int(rng.integers(len(plans))) for _ in range(plans_of_each)}]
    return Trial(several, cache)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_kernels_of_all_kinds(seed: int, tmp_path: Path) -> None:
    trial(corpus(), 2, seed, tmp_path).check()


@pytest.mark.slow
def test_products_in_several_blocks(tmp_path: Path) -> None:
    """Large enough for tiles, panels and several tasks, in all dtypes that registers of matrices take, too."""
    regions = [
        gemm_bias_relu(70, 130, 65),
        *(gemm_bias_relu(70, 130, 66, dtype) for dtype in ("fp16", "bf16")),
        matmul((3,), 33, 65, 17, out_t=True),
        matmul((3,), 33, 65, 17, lhs_t=True, rhs_t=True),
        conv(c_in=19, c_out=37, size=(13, 13)),
        conv(c_in=16, c_out=32, size=(14, 14), stride=1, epilogue=True),
        maxpool(),
        softmaxes(33, 70),
    ]
    trial(regions, 4, 7, tmp_path).check()
