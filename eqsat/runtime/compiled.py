"""One compiled variant of a program: its module, its plans and prices, its text, and what runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from eqsat.extraction.kernel_term import KernelTerm
from eqsat.extraction.selection import UNCONTESTED, Selection
from eqsat.model import BoundModel
from eqsat.options import Running
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.device_call import OnDevice
from eqsat.runtime.dump import Stages
from ir.diagnostics import Diagnostic
from ir.dtype import TensorType
from ir.host.memory import memory_for
from ir.kernel.resources import KernelResources
from ir.module.executable import Code, Executable
from ir.module.launch import Geometry, Launch
from ir.module.module import KernelCall
from ir.pricer import Price, Work

if TYPE_CHECKING:
    from eqsat.explanation.history import History
    from eqsat.explanation.setting import Setting


class KernelReport(msgspec.Struct, frozen=True):
    """One kernel launch, of a name of its own. `function` names its text in `program.source()`; `reads` and `writes`
    are buffers; times are in ns, sizes in bytes; `work` is what its plan makes the machine do, `selection` says
    which other candidates there were for its output. Of a GPU's kernel, `geometry` is what a launch asks for,
    `resources` what NVRTC says that it takes (None where it was not asked)."""

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


def report_of(
    call: KernelCall,
    price: Price,
    selection: Selection,
    launch: Launch | None = None,
    resources: KernelResources | None = None,
) -> KernelReport:
    """The report of a call by its price; `launch` is that of its kernel, where there is one."""
    return KernelReport(
        name=call.name,
        function=launch.function if launch else "",
        reads=call.reads,
        writes=call.writes,
        uops=call.uops,
        rules=call.rules,
        flops=price.work.flops,
        bytes=price.work.bytes,
        occupancy=price.work.occupancy,
        efficiency=price.work.efficiency,
        bound=price.bound,
        work=price.work,
        estimated_ns=price.time_ns,
        selection=selection,
        geometry=launch.geometry if launch else None,
        resources=resources,
    )


@dataclass(frozen=True)
class Compiled:
    """All there is to know of one variant.

    kernels: one report per launch. seconds: of each stage of this compilation. features: the instruction sets that
    the code may use. running: emulated or not. stages: the dumps.
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
        """What takes arrays on a device, where the program runs on one."""
        return self.executable if isinstance(self.executable, OnDevice) else None

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """What the module calls at each launch."""
        return self.artifact.module.running

    @property
    def terms(self) -> tuple[KernelTerm, ...]:
        """The term of each launch."""
        return self.artifact.terms

    @property
    def history(self) -> History:
        """How the kernels came about."""
        return self.stages.history

    @property
    def setting(self) -> Setting:
        """What was compiled, and how."""
        from eqsat.explanation.setting import Setting

        return Setting(self.bound, self.artifact.target, self.artifact.options)

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """What the caller passes, by name, in order."""
        return self.bound.signature

    @property
    def outputs(self) -> list[tuple[str, TensorType]]:
        """Name and type of each result, in order."""
        return self.bound.outputs

    def run(self, inputs: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The results in arrays of their own."""
        outputs = self._outputs()
        self.executable.run(inputs, outputs, threads)
        return outputs

    def profile(self, inputs: Sequence[np.ndarray], threads: int, repeats: int) -> tuple[KernelReport, ...]:
        """The kernel reports with the median of `repeats` measured runs."""
        with memory_for(
            8 * repeats * len(self.kernels), "profile", "a time of each kernel and repetition", repeats=repeats
        ):
            measured = np.median(self.executable.profile(inputs, self._outputs(), threads, repeats), axis=0)
        return tuple(
            msgspec.structs.replace(report, measured_ns=float(ns))
            for report, ns in zip(self.kernels, measured, strict=True)
        )

    def _outputs(self) -> list[np.ndarray]:
        nbytes = sum(each.nbytes for _, each in self.outputs)
        sizes = {name: str(type_) for name, type_ in self.outputs}
        with memory_for(nbytes, "call", "an array for every output", outputs=sizes):
            return [np.empty(each.shape, each.dtype.numpy) for _, each in self.outputs]
