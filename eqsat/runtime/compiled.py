"""One compiled variant of a program: its module, plans and prices, its text, and its executable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from eqsat.extraction.selection import UNCONTESTED, Selection
from eqsat.model import BoundModel
from eqsat.options import Running
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.direct_call import DirectCall, can_be_direct
from eqsat.runtime.dump import Stages
from eqsat.runtime.kernel_term import KernelTerm
from eqsat.runtime.result_arrays import ResultArrays, interleave
from ir.diagnostics import Diagnostic
from ir.dtype import TensorType
from ir.host.memory import memory_for
from ir.kernel.resources import KernelResources
from ir.module.executable import Code, Executable, OnDevice, TakesObjects
from ir.module.launch import Geometry, Launch
from ir.module.module import KernelCall
from ir.pricer import Price, Work

if TYPE_CHECKING:
    from eqsat.explanation.history import History
    from eqsat.explanation.setting import Setting

T = TypeVar("T")


class KernelReport(msgspec.Struct, frozen=True):
    """One kernel launch; its name is unique. Times are in ns, sizes in bytes.

    tags: the parts of the model that its uops belong to, if these have names: ONNX's nodes, torch's modules, `tagged`.
    runs: how often it runs in one call of the program, which is more than once in a loop; flops, bytes and times are
    sums over all its runs, `work` is of one run. function: names its text in `program.source()`. reads, writes:
    buffers. fills: the buffers of which its results are parts, in place. work: what its plan makes the machine do.
    selection: the other candidates for its output. For a GPU only: geometry, what a launch asks for; resources, what
    the kernel takes as NVRTC reports it (None if NVRTC was not asked)."""

    name: str
    function: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    uops: tuple[str, ...]
    rules: tuple[str, ...]
    flops: float
    bytes: float
    occupancy: float
    efficiency: float
    bound: str
    work: Work
    estimated_ns: float
    measured_ns: float | None = None
    selection: Selection = UNCONTESTED
    geometry: Geometry | None = None
    resources: KernelResources | None = None
    runs: int = 1
    tags: tuple[str, ...] = ()
    fills: tuple[str, ...] = ()

    @property
    def gflop_per_s(self) -> float:
        """The measured rate of arithmetic in GFLOP/s; 0 of a kernel that was not measured."""
        return self._per_ns(self.flops)

    @property
    def gb_per_s(self) -> float:
        """The measured rate of memory traffic in GB/s; 0 of a kernel that was not measured."""
        return self._per_ns(self.bytes)

    def _per_ns(self, amount: float) -> float:
        return 0.0 if self.measured_ns is None else amount / max(self.measured_ns, 1.0)


def report_of(
    call: KernelCall,
    price: Price,
    selection: Selection,
    launch: Launch | None = None,
    resources: KernelResources | None = None,
    runs: int = 1,
) -> KernelReport:
    """The report of a kernel call with this price, which is that of one of its runs."""
    return KernelReport(
        name=call.name,
        function=launch.function if launch else "",
        reads=call.reads,
        writes=call.writes,
        uops=call.uops,
        rules=call.rules,
        flops=price.work.flops * runs,
        bytes=price.work.bytes * runs,
        occupancy=price.work.occupancy,
        efficiency=price.work.efficiency,
        bound=price.bound,
        work=price.work,
        estimated_ns=price.time_ns * runs,
        selection=selection,
        geometry=launch.geometry if launch else None,
        resources=resources,
        runs=runs,
        tags=call.tags,
        fills=call.fills,
    )


@dataclass(frozen=True)
class Compiled:
    """All that is known of one variant.

    kernels: one report per launch. seconds: wall time by stage of this compilation. features: the instruction sets
    that the code may use. running: emulated or not. stages: the dumps.
    """

    bound: BoundModel
    artifact: Artifact
    kernels: tuple[KernelReport, ...]
    seconds: Mapping[str, float]
    notes: tuple[Diagnostic, ...]
    executable: Executable
    code: Code
    running: Running
    features: tuple[str, ...]
    stages: Stages

    @cached_property
    def on_device(self) -> OnDevice | None:
        """The executable, if it takes arrays on a device."""
        return self.executable if isinstance(self.executable, OnDevice) else None

    @cached_property
    def result_arrays(self) -> ResultArrays:
        """Makes the arrays for the results of calls, but for those that lie over arguments."""
        return ResultArrays([one for place, one in enumerate(self.outputs) if place not in self.overwritten])

    @cached_property
    def overwritten(self) -> Mapping[int, int]:
        """Place of a result that kernels write over an argument → the place of the argument."""
        module = self.artifact.module
        over = {slot.name: slot.over for slot in module.slots}
        lies = [over[slot] for _, slot in module.outputs]
        return {place: module.inputs.index(name) for place, name in enumerate(lies) if name is not None}

    @cached_property
    def direct(self) -> DirectCall | None:
        """The short way of a call, if the executable and the types of the variant allow it."""
        inputs, outputs = [*self.inputs.values()], [type_ for _, type_ in self.outputs]
        if not isinstance(self.executable, TakesObjects) or not self.executable.takes_objects:
            return None
        if self.bound.lengths or not can_be_direct(inputs, outputs):
            return None
        return DirectCall(self.executable, inputs, self.result_arrays, self.updated, self.overwritten)

    @cached_property
    def updated(self) -> Mapping[int, int]:
        """Place of a result that updates an argument → the place of the argument."""
        arguments, updates = [*self.inputs], dict(self.artifact.options.updates)
        names = enumerate(name for name, _ in self.outputs)
        return {place: arguments.index(updates[name]) for place, name in names if name in updates}

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """The kernel call of each launch."""
        return self.artifact.module.running

    @cached_property
    def setting(self) -> Setting:
        """The model, target and options of the compilation."""
        from eqsat.explanation.setting import Setting

        return Setting(self.bound, self.artifact.target, self.artifact.options)

    def part_at(self, place: int) -> tuple[CompiledPart, int]:
        """The part of the program that a launch belongs to, and the place of the launch among the part's launches."""
        numbers = self.artifact.parts
        number = numbers[place]
        return CompiledPart(self, number), numbers[:place].count(number)

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """Types of the caller's arguments by name, in order."""
        return self.bound.arguments

    @property
    def outputs(self) -> list[tuple[str, TensorType]]:
        """Name and type of each result, in order."""
        return self.bound.outputs

    def run(self, inputs: Sequence[np.ndarray], threads: int) -> tuple[np.ndarray, ...]:
        """The results in new arrays, or in the inputs over which they lie."""
        outputs = self.output_arrays(inputs)
        self.executable.run(inputs, outputs, threads)
        return outputs

    def without_updates(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The inputs, with copies of those that a run overwrites."""
        written = set(self.overwritten.values())
        return [array.copy() if place in written else array for place, array in enumerate(inputs)]

    def output_arrays(
        self, inputs: Sequence[np.ndarray], given: Mapping[int, np.ndarray] | None = None
    ) -> tuple[np.ndarray, ...]:
        """An array for each result: the input over which the result lies, the given one, or a new one."""
        over = {place: inputs[position] for place, position in self.overwritten.items()}
        known = {**over, **(given or {})}
        if len(known) == len(self.outputs):
            return interleave((), known)
        new = interleave(self.result_arrays.take(), over)
        return tuple(known.get(place, array) for place, array in enumerate(new))

    def profile(self, inputs: Sequence[np.ndarray], threads: int, repeats: int) -> tuple[KernelReport, ...]:
        """The kernel reports with the median of `repeats` measured runs."""
        with memory_for(
            8 * repeats * len(self.kernels), "profile", "a time of each kernel and repetition", repeats=repeats
        ):
            inputs = self.without_updates(inputs)
            times = self.executable.profile(inputs, self.output_arrays(inputs), threads, repeats)
            measured = np.median(times, axis=0)
        return tuple(
            msgspec.structs.replace(report, measured_ns=float(ns))
            for report, ns in zip(self.kernels, measured, strict=True)
        )


@dataclass(frozen=True)
class CompiledPart:
    """The launches of one part of a program: of a program of one part, all of them."""

    whole: Compiled
    number: int

    def _mine(self, values: Sequence[T]) -> tuple[T, ...]:
        """The values that belong to launches of this part, of values that stand once per launch."""
        numbers = self.whole.artifact.parts
        return tuple(one for one, number in zip(values, numbers, strict=True) if number == self.number)

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """The kernel call of each launch."""
        return self._mine(self.whole.calls)

    @property
    def terms(self) -> tuple[KernelTerm, ...]:
        """The term of each launch."""
        return self._mine(self.whole.artifact.terms)

    @property
    def kernels(self) -> tuple[KernelReport, ...]:
        """One report per launch, of one run of it."""
        artifact = self.whole.artifact
        return tuple(map(report_of, self.calls, self._mine(artifact.prices), self._mine(artifact.selections)))

    @property
    def history(self) -> History:
        """The rewrites that led to the kernels."""
        return self.whole.stages.history(self.number)

    @property
    def setting(self) -> Setting:
        """The part as a model of its own, with target and options of the compilation."""
        return self.whole.setting.of_part(self.whole.stages.parts[self.number])
