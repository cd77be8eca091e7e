"""What differs between families of targets: how a region is planned and lowered, and how the kernels become code that
runs. Everything else on the path is one for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from codegen.compile import library
from codegen.compile.cubins import build_cubins, load_cubins
from codegen.compile.machine import machine, restricted
from codegen.lower.gpu import lower as gpu_lower
from codegen.lower.lower import lower
from codegen.plan.candidates import candidates
from codegen.plan.gpu import candidates as gpu_candidates
from codegen.run.cuda_executable import CudaExecutable
from codegen.run.emulated import EmulatedExecutable, emulated_kernels
from codegen.run.executable import Executable
from codegen.text import program_to_c, program_to_cuda
from ir.diagnostics import Diagnostic
from ir.kernel_resources import KernelResources
from ir.launch import LaunchTable
from ir.module import Module
from ir.plan import Plan
from ir.poly_core import PolyCore
from ir.pricer import Work
from ir.region import Region
from ir.target import Target

Lowered = Any
"""A region's kernel in the family's own dialect."""
Texts = Mapping[str, str]


class Code(Protocol):
    """The machine code of a program, loaded or ready to be."""

    @property
    def code(self) -> bytes:
        """What the family's `load` takes."""
        ...

    @property
    def resources(self) -> Mapping[str, KernelResources]:
        """What the compiler says that kernels take, by function, where it does."""
        ...

    @property
    def diagnostics(self) -> Sequence[Diagnostic]: ...


class Runs(Protocol):
    """What runs a module on NumPy arrays."""

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> None: ...

    def profile(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int, repeats: int
    ) -> np.ndarray: ...


@dataclass(frozen=True)
class Backend:
    """One family of targets.

    candidates: the plans of a region, each with its work.
    lower: region, facts, plan, name → kernel in the family's dialect.
    launches: a module, the kernels of its regions by name → which runs when, on what.
    units: kernels, launches, relaxed → texts to compile, by name; texts: those that people read, by function.
    build: units, the target's arch, relaxed, cache folder → code. load: what `Code.code` gave, and the units → code.
    executable: module, launches, code, constants, units of the target, graph → what runs.
    features: the CPU's instruction sets that code for an arch may use.
    `relaxed` allows what "exact" forbids: a·b + c rounded once, denormals taken for 0.
    """

    candidates: Callable[..., Sequence[tuple[Plan, Work]]]
    lower: Callable[[Region, PolyCore, Plan, str], Lowered]
    launches: Callable[[Module, Mapping[str, Lowered]], LaunchTable]
    units: Callable[[Iterable[Lowered], LaunchTable, bool], dict[str, str]]
    texts: Callable[[Iterable[Lowered]], dict[str, str]]
    build: Callable[[Texts, str, bool, Path], Code]
    load: Callable[[bytes, Texts, str], Code]
    executable: Callable[[Module, LaunchTable, Any, Mapping[str, np.ndarray], int, bool], Runs]
    features: Callable[[str], tuple[str, ...]]


CPU = Backend(
    candidates=candidates,
    lower=lower,
    launches=program_to_c.launch_table,
    units=program_to_c.c_units,
    texts=program_to_c.kernel_texts,
    build=lambda units, arch, relaxed, cache: library.build(units, restricted(machine(), arch), cache=cache),
    load=lambda code, units, arch: library.load_library(code),
    executable=lambda module, table, code, constants, units, graph: Executable(module, table, code, constants, units),
    features=lambda arch: restricted(machine(), arch).features,
)
GPU = Backend(
    candidates=gpu_candidates.candidates,
    lower=gpu_lower.lower,
    launches=program_to_cuda.launch_table,
    units=lambda lowered, table, relaxed: program_to_cuda.kernel_texts(lowered),
    texts=program_to_cuda.kernel_texts,
    build=lambda units, arch, relaxed, cache: build_cubins(units, arch, contract=relaxed),
    load=lambda code, units, arch: load_cubins(code),
    executable=lambda module, table, code, constants, units, graph: CudaExecutable(
        module, table, code, constants, graph
    ),
    features=lambda arch: (),
)
EMULATED = replace(
    GPU,
    build=lambda units, arch, relaxed, cache: emulated_kernels(units, arch),
    load=lambda code, units, arch: emulated_kernels(units, arch),
    executable=lambda module, table, code, constants, units, graph: EmulatedExecutable(module, table, code, constants),
)


def backend_of(target: Target, emulate: bool = False) -> Backend:
    """The family of a target; `emulate`: of a GPU that is not there."""
    if not target.is_gpu:
        return CPU
    return EMULATED if emulate else GPU
