"""One compiled variant of a program: its module, its plans and prices, its text, and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np

from eqsat.saturate import SaturationStats
from ir.diagnostics import Diagnostic, Kind, fail
from ir.dtype import TensorType
from ir.module import Module
from ir.pricer import Price
from ir.target import Target


class Executable(Protocol):
    """What runs a module."""

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> None:
        """One call: reads the inputs, fills the outputs, in the module's order."""
        ...

    def profile(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int, repeats: int
    ) -> np.ndarray:
        """ns per kernel launch: an array [repeats, launches]."""
        ...


class KernelReport(msgspec.Struct, frozen=True):
    """One kernel launch. `function` names its text in `program.source()`; times are in ns, sizes in bytes."""

    name: str
    function: str
    uops: tuple[str, ...]
    rules: tuple[str, ...]
    flops: float
    bytes: float
    occupancy: float
    efficiency: float
    bound: str
    estimated_ns: float
    measured_ns: float | None = None


class Stats(msgspec.Struct, frozen=True):
    """How a program came about. seconds: stage → wall clock; candidates: kernels priced by extraction."""

    uops: int
    kernels_before: int
    kernels_after: int
    candidates: int
    estimated_before_ns: float
    saturation: SaturationStats
    seconds: dict[str, float]
    cached: bool = False


Stage = Callable[[], Any]


@dataclass(frozen=True)
class Compiled:
    """All there is to know of one variant. `stages` computes each dump when it is asked for."""

    inputs: Mapping[str, TensorType]
    outputs: Sequence[tuple[str, TensorType]]
    target: Target
    module: Module
    prices: Sequence[Price]
    kernels: tuple[KernelReport, ...]
    sources: Mapping[str, str]
    stats: Stats
    notes: tuple[Diagnostic, ...]
    executable: Executable
    stages: Mapping[str, Stage]

    def dump(self, stage: str) -> Any:
        """A stage of the path, JSON-ready. Raises EqsatError for a stage that this program has not."""
        if stage not in self.stages:
            fail(
                Kind.UNSUPPORTED_OP,
                "dump",
                f"no stage {stage!r} in a program for {self.target.name}",
                hint=", ".join(self.stages),
            )
        return self.stages[stage]()

    def profile(self, inputs: Sequence[np.ndarray], threads: int, repeats: int) -> tuple[KernelReport, ...]:
        """The kernel reports with the median of `repeats` measured runs."""
        outputs = [np.empty(each.shape, each.dtype.numpy) for _, each in self.outputs]
        measured = np.median(self.executable.profile(inputs, outputs, threads, repeats), axis=0)
        return tuple(
            msgspec.structs.replace(report, measured_ns=float(ns))
            for report, ns in zip(self.kernels, measured, strict=True)
        )
