"""Optimizes programs one by one and compiles them into one library; a kernel that several share is priced once.

Each program has the cover that its users would get. `tests.support.fuzz.batch` makes one program of many instead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codegen.backends.backend_of import backend_of
from codegen.compile.library import arguments_source, pool_declarations, pool_source, vector_prelude
from codegen.compile.machine import machine
from codegen.poly.analyse import checked_core
from codegen.text.cpu_to_c import ENTRY, SUPPORT
from eqsat.assembly.assemble import assemble
from eqsat.assembly.fold import fold
from eqsat.egraph.saturation_stats import SaturationStats
from eqsat.extraction.extract import extract
from eqsat.find_target import find_target
from eqsat.model import BoundModel
from eqsat.options import Options
from eqsat.planning.target_pricer import pricer_for
from ir.backend import Backend, Lowered
from ir.host.cache_folder import writable_cache
from ir.module.launch import LaunchTable
from ir.module.module import Module
from ir.pricer import Price, Pricer, Rejected
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness
from rules import select
from tests.support.oracles.canary import saturate

Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays, int], list[np.ndarray]]
"""Inputs (constants left out) and threads → outputs in order."""


@dataclass(frozen=True)
class Setting:
    """What a caller may choose. target: "cpu", or a GPU, which is emulated. isa: of a CPU; "" for the machine's own."""

    target: str = "cpu"
    exactness: str = "rounding"
    extractor: str = "pareto"
    isa: str = ""

    @property
    def level(self) -> Exactness:
        return next(level for level in Exactness if str(level) == self.exactness)

    @property
    def is_relaxed(self) -> bool:
        """Whether a·b + c may round once, and denormals may count as 0."""
        return self.level > Exactness.EXACT

    @contextmanager
    def chosen(self) -> Iterator[Target]:
        """The target, while $EQSAT_ISA holds the machine to the instruction set."""
        before = os.environ.get("EQSAT_ISA")
        if self.isa:
            os.environ["EQSAT_ISA"] = self.isa
        try:
            yield find_target(self.target)
        finally:
            if self.isa:
                os.environ.pop("EQSAT_ISA")
                os.environ.update({} if before is None else {"EQSAT_ISA": before})


class SharedPrices:
    """A pricer that remembers what it said of every region, for all programs of a setting."""

    def __init__(self, inner: Pricer) -> None:
        self._inner, self.ordered = inner, inner.ordered
        self._known: dict[Region, Price | Rejected] = {}

    def price(self, region: Region) -> Price | Rejected:
        if region not in self._known:
            self._known[region] = self._inner.price(region)
        return self._known[region]

    def lower_bound(self, flops: float, bytes_moved: float, narrow: bool = True) -> float:
        return self._inner.lower_bound(flops, bytes_moved, narrow)


@dataclass(frozen=True)
class Optimized:
    """A program whose kernels are written but not compiled; `number` is a part of their names. seconds: of CPU, until
    its kernels were written."""

    number: int
    bound: BoundModel
    setting: Setting
    module: Module
    lowered: Mapping[str, Lowered]
    table: LaunchTable
    saturation: SaturationStats
    seconds: float


class Optimizer:
    """Optimizes programs under one setting, and compiles any number of them together."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        with setting.chosen() as target:
            self.target = target
            self.backend: Backend = backend_of(target, emulate=target.is_gpu)
            self.pricer = SharedPrices(pricer_for(target, Options(exactness=setting.level)))

    def optimized(self, bound: BoundModel, number: int = 0) -> Optimized:
        """As `eqsat.pipeline.optimize` does it."""
        began, setting = time.process_time(), self.setting
        constants = sorted(bound.constants)
        with setting.chosen():
            view, stats = saturate(bound.graph, select(None, setting.level), setting.level, constants=constants)
            cover = extract(view, bound.graph.outputs, self.pricer, constants=constants, extractor=setting.extractor)
            module, prices = assemble(cover, view, bound.graph, constants)
            lowered = self._lowered(module, prices, number)
            table = self.backend.launches(module, lowered)
        return Optimized(number, bound, setting, module, lowered, table, stats, time.process_time() - began)

    def compiled(self, programs: Sequence[Optimized]) -> list[Run]:
        """What runs each of these programs, whose numbers differ."""
        with self.setting.chosen() as target:
            if target.is_gpu:
                kernels = [kernel for program in programs for kernel in program.lowered.values()]
                code: Any = self.backend.build(self.backend.texts(kernels), target.arch, Path())
                codes = [code] * len(programs)
            else:
                folder, _ = writable_cache()
                code = self.backend.build(_units(programs), target.arch, folder)
                codes = [_Part(code, program.number) for program in programs]
            return [self._runner(program, part) for program, part in zip(programs, codes, strict=True)]

    def _lowered(self, module: Module, prices: Sequence[Price], number: int) -> dict[str, Lowered]:
        lowered: dict[str, Lowered] = {}
        for call, price in zip(module.running, prices, strict=True):
            region = call.region
            if region.name not in lowered:
                name = f"eq_p{number}_{region.name}"
                lowered[region.name] = self.backend.lower(region, checked_core(region), price.plan, name)
        return lowered

    def _runner(self, program: Optimized, code: Any) -> Run:
        bound, module = program.bound, program.module
        constants = fold(module, bound.constants, ordered=not self.setting.level >= Exactness.REASSOCIATE)
        executable = self.backend.executable(module, program.table, code, constants, machine().cores, False)
        types = [bound.graph.types[ref] for ref in bound.graph.outputs]

        def run(inputs: Arrays, threads: int = 1) -> list[np.ndarray]:
            outputs = [np.empty(type_.shape, type_.dtype.numpy) for type_ in types]
            given = [np.ascontiguousarray(inputs[name]).reshape(np.shape(inputs[name])) for name in module.inputs]
            executable.run(given, outputs, threads)
            return outputs

        return run


class _Part:
    """One program's entries of a library that holds those of several."""

    def __init__(self, library: Any, number: int) -> None:
        self._library, self._number = library, number

    def function(self, name: str, *types: Any) -> Callable[..., Any]:
        results: Callable[..., Any] = self._library.function(_entry(name, self._number), *types)
        return results

    def python_function(self, *function: Any) -> Callable[..., Any]:
        results: Callable[..., Any] = self._library.python_function(*function)  # one for all programs
        return results


ENTRIES = ("eq_program_timed(", "eq_program(", "eq_pack(", "eq_now(", "eq_contract[")
"""The names that each program's own translation unit defines."""


def _entry(name: str, number: int) -> str:
    return f"p{number}_{name}"


def _units(programs: Sequence[Optimized]) -> dict[str, str]:
    """The kernels of all programs in one translation unit, their entries in another."""
    from codegen.text.launches_to_c import program_text
    from codegen.text.program_to_c import kernel_texts

    kernels, entries = [vector_prelude(), pool_declarations(), SUPPORT], [pool_declarations()]
    for program in programs:
        texts = kernel_texts(program.lowered.values())
        kernels += texts.values()
        declarations = [ENTRY.format(name=name) for name in texts]
        entries.append(_renamed(program_text(declarations, program.table, program.setting.is_relaxed), program.number))
    own = {"kernels": "\n".join(kernels), "program": "\n".join(entries)}
    return {**own, "pool": pool_source(), "arguments": arguments_source()}


def _renamed(text: str, number: int) -> str:
    for name in ENTRIES:
        text = text.replace(name, _entry(name, number))
    return text
