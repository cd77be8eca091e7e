"""GPUs: kernels are CUDA C++, compiled by NVRTC; or, where there is no GPU, in the emulator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ir.backend import Lowered, Texts
from ir.module.executable import Code, Executable
from ir.module.launch import LaunchTable
from ir.module.module import Module
from ir.plan.plan import Plan
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness


class GpuBackend:
    def candidates(
        self, region: Region, core: PolyCore, target: Target, exactness: Exactness, *, tf32: bool = False
    ) -> Sequence[tuple[Plan, Work]]:
        from codegen.plan.gpu.candidates import candidates

        return candidates(region, core, target, exactness, tf32)

    def lower(self, region: Region, core: PolyCore, plan: Plan, name: str) -> Lowered:
        from codegen.lower.gpu.lower import lower
        from codegen.plan.fit_plan import fit_plan

        return lower(fit_plan(region, core, plan), plan, name)

    def launches(self, module: Module, lowered: Mapping[str, Lowered]) -> LaunchTable:
        from codegen.text.program_to_cuda import launch_table

        return launch_table(module, lowered)

    def texts(self, lowered: Iterable[Lowered]) -> dict[str, str]:
        from codegen.text.program_to_cuda import kernel_texts

        return kernel_texts(lowered)

    def units(self, texts: Texts, table: LaunchTable, flush: bool) -> dict[str, str]:
        return dict(texts)

    def build(self, units: Texts, arch: str, cache: Path) -> Code:
        from codegen.compile.cubins import build_cubins

        return build_cubins(units, arch)

    def load(self, code: bytes, units: Texts, arch: str) -> Code:
        from codegen.compile.cubins import load_cubins

        return load_cubins(code)

    def executable(
        self,
        module: Module,
        table: LaunchTable,
        code: Any,
        constants: Mapping[str, np.ndarray],
        units: int,
        graph: bool,
    ) -> Executable:
        from codegen.run.cuda_executable import CudaExecutable

        return CudaExecutable(module, table, code, constants, graph)

    def contract(self, code: Any) -> str | None:
        return None

    def features(self, arch: str) -> tuple[str, ...]:
        return ()

    def reporter(self) -> str:
        from codegen.compile.nvrtc import nvrtc_version

        major, minor = nvrtc_version()
        return f"NVRTC {major}.{minor}"

    def device(self, arch: str) -> str:
        from codegen.run.device import device_for

        device = device_for(arch)
        return f"{device.name}, {device.units} SMs, driver {device.driver}, {self.reporter()}"


class EmulatedBackend(GpuBackend):
    def build(self, units: Texts, arch: str, cache: Path) -> Code:
        from codegen.run.emulated import emulated_kernels

        return emulated_kernels(units, arch)

    def load(self, code: bytes, units: Texts, arch: str) -> Code:
        from codegen.run.emulated import emulated_kernels

        return emulated_kernels(units, arch)

    def executable(
        self,
        module: Module,
        table: LaunchTable,
        code: Any,
        constants: Mapping[str, np.ndarray],
        units: int,
        graph: bool,
    ) -> Executable:
        from codegen.run.emulated import EmulatedExecutable

        return EmulatedExecutable(module, table, code, constants)

    def reporter(self) -> str:
        return ""
