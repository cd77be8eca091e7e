"""CPUs: kernels are C, compiled for the machine that runs them. A program from the cache needs no planner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codegen.compile import library
from codegen.compile.library import Library
from codegen.compile.machine import machine, restrict
from codegen.compile.toolchain import find_compiler
from codegen.run.executable import CpuExecutable
from ir.backend import Lowered, Texts
from ir.module.launch import LaunchTable
from ir.module.module import Module
from ir.plan.plan import Plan
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness


class CpuBackend:
    def candidates(
        self, region: Region, core: PolyCore, target: Target, exactness: Exactness, *, tf32: bool = False
    ) -> Sequence[tuple[Plan, Work]]:
        from codegen.plan.cpu.candidates import candidates

        return candidates(region, core, target, exactness)

    def lower(self, region: Region, core: PolyCore, plan: Plan, name: str) -> Lowered:
        from codegen.lower.cpu.lower import lower
        from codegen.plan.fit_plan import fit_plan

        return lower(fit_plan(region, core, plan), plan, name)

    def launches(self, module: Module, lowered: Mapping[str, Lowered]) -> LaunchTable:
        from codegen.text.program_to_c import launch_table

        return launch_table(module, lowered)

    def texts(self, lowered: Iterable[Lowered]) -> dict[str, str]:
        from codegen.text.program_to_c import kernel_texts

        return kernel_texts(lowered)

    def units(self, texts: Texts, table: LaunchTable, flush: bool) -> dict[str, str]:
        from codegen.text.program_to_c import c_units

        return c_units(texts, table, flush)

    def build(self, units: Texts, arch: str, cache: Path) -> Library:
        common = frozenset([library.POOL, library.ARGUMENTS])
        return library.build(units, restrict(machine(), arch), cache=cache, common=common)

    def load(self, code: bytes, units: Texts, arch: str) -> Library:
        return library.load_library(code)

    def executable(
        self,
        module: Module,
        table: LaunchTable,
        code: Any,
        constants: Mapping[str, np.ndarray],
        units: int,
        graph: bool,
    ) -> CpuExecutable:
        return CpuExecutable(module, table, code, constants, units)

    def contract(self, code: Any) -> str | None:
        return str(code.contract)

    def features(self, arch: str) -> tuple[str, ...]:
        return restrict(machine(), arch).features

    def reporter(self) -> str:
        return ""

    def device(self, arch: str) -> str:
        here = restrict(machine(), arch)
        return f"{here.cpu}, {here.cores} cores, {' '.join(here.features)}, {find_compiler()}"
