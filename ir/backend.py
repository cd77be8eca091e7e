"""The differences between families of targets: how a region is planned and lowered, and how the kernels become code
that runs. Everything else on the path is one for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ir.module.executable import Code, Executable
from ir.module.launch import LaunchTable
from ir.module.module import Module
from ir.plan.plan import Plan
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness

Lowered = Any
"""A region's kernel in the dialect of the family: a `LoweredCpuKernel` or a `GpuKernel`."""
Texts = Mapping[str, str]


def function_name(region: Region) -> str:
    """The name of the function that a region's kernel becomes."""
    return f"eq_{region.name}"


class Backend(Protocol):
    """One family of targets. `flush` lets kernels take denormals for 0."""

    def candidates(
        self, region: Region, core: PolyCore, target: Target, exactness: Exactness, *, tf32: bool = False
    ) -> Sequence[tuple[Plan, Work]]:
        """The plans of a region, each with its work. `exactness`: the highest level that a plan may use; `tf32`:
        products of fp32 may round their operands to it, where the family can."""
        ...

    def lower(self, region: Region, core: PolyCore, plan: Plan, name: str) -> Lowered:
        """The kernel `name` of a region. Raises EqsatError where the plan does not fit the region."""
        ...

    def launches(self, module: Module, lowered: Mapping[str, Lowered]) -> LaunchTable:
        """Which kernel runs when, on what. `lowered`: by region name."""
        ...

    def texts(self, lowered: Iterable[Lowered]) -> dict[str, str]:
        """The text of every kernel, by function."""
        ...

    def units(self, texts: Texts, table: LaunchTable, flush: bool) -> dict[str, str]:
        """The texts to compile, by name, from those of the kernels."""
        ...

    def build(self, units: Texts, arch: str, cache: Path) -> Code:
        """The code of the units for a target's arch."""
        ...

    def load(self, code: bytes, units: Texts, arch: str) -> Code:
        """The code whose bytes `Code.code` gave, loaded."""
        ...

    def executable(
        self,
        module: Module,
        table: LaunchTable,
        code: Any,
        constants: Mapping[str, np.ndarray],
        units: int,
        graph: bool,
    ) -> Executable:
        """The executable that runs the module on `units` cores or multiprocessors, or as a CUDA graph."""
        ...

    def contract(self, code: Any) -> str | None:
        """The contract that the code names: which launches and buffers it was written for; None where the family's code
        names none."""
        ...

    def features(self, arch: str) -> tuple[str, ...]:
        """The CPU's instruction sets that code for an arch may use."""
        ...

    def reporter(self) -> str:
        """The compiler that reports the resources of a kernel, by which plans are corrected; "" where none
        does."""
        ...

    def device(self, arch: str) -> str:
        """The device on which plans are measured: all that their times depend on beside the target.

        Raises:
            EqsatError: NoDevice where there is none that runs code for an arch.
        """
        ...
