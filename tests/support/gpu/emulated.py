"""GPU kernels of regions under the emulator, against region playback: many kernels in one text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codegen.lower.gpu.lower import lower
from codegen.plan.fit_plan import fit_plan
from codegen.plan.gpu.candidates import candidates
from codegen.poly.analyse import checked_core
from codegen.simt import Order, Report, compile_kernels
from codegen.simt.compile import Kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import A100
from eqsat.runtime.verify import TOLERANCE
from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.limits import LIMITS
from ir.plan.gpu import GpuContractionPlan, GpuStreamPlan
from ir.plan.plan import Plan
from ir.pricer import Work
from ir.region.playback import play_region
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness
from tests.support.cpu.played import Array, Arrays, unwritten
from tests.support.gpu.workspace import workspace_of
from tests.support.stages.plan_class import plan_of


def plans_of(
    region: Region, target: Target = A100, exactness: Exactness = Exactness.ROUNDING, *, tf32: bool = False
) -> list[tuple[Plan, Work]]:
    """The candidates, best first."""
    return list(candidates(region, checked_core(region), target, exactness, tf32))


def contraction_plans_of(
    region: Region, target: Target = A100, exactness: Exactness = Exactness.ROUNDING, *, tf32: bool = False
) -> list[tuple[GpuContractionPlan, Work]]:
    """The same, where all are plans of contractions."""
    return [(plan_of(plan, GpuContractionPlan), work) for plan, work in plans_of(region, target, exactness, tf32=tf32)]


def stream_plans_of(
    region: Region, target: Target = A100, exactness: Exactness = Exactness.ROUNDING, *, tf32: bool = False
) -> list[tuple[GpuStreamPlan, Work]]:
    """The same, where all are plans of streams in tiles."""
    return [(plan_of(plan, GpuStreamPlan), work) for plan, work in plans_of(region, target, exactness, tf32=tf32)]


def lowered(region: Region, plan: Plan, name: str = "eq_k") -> GpuKernel:
    """The kernel, verified."""
    return lower(fit_plan(region, checked_core(region), plan), plan, name)


def arguments_of(region: Region, kernel: GpuKernel, inputs: Arrays) -> tuple[list[Array], dict[str, Array]]:
    """What a launch is given, and the outputs among it."""
    outputs = unwritten(region)
    given = [np.ascontiguousarray(inputs[buffer.name]) for buffer in region.inputs]
    return [*given, *outputs.values(), *workspace_of(kernel)], outputs


def launched(
    kernels: Kernels, region: Region, kernel: GpuKernel, inputs: Arrays, order: Order = Order.FORWARD, seed: int = 5
) -> tuple[Report, dict[str, Array]]:
    """What was found in one of the compiled kernels, and its outputs by name."""
    arguments, outputs = arguments_of(region, kernel, inputs)
    limit = LIMITS[kernel.arch].shared_bytes
    report = kernels[kernel.name].launch(
        kernel.grid, arguments, shared_bytes=kernel.shared_bytes, shared_limit=limit, order=order, seed=seed
    )
    return report, outputs


def order_matters(report: Report) -> bool:
    """Whether threads met: those that never do are alike in every order, and stores to one place are found in any."""
    count = report.counters
    return count.barriers + count.warp_syncs + count.shuffles > 0


class Emulated:
    """Kernels compiled in one text."""

    def __init__(self, cases: Sequence[tuple[Region, Plan]]) -> None:
        self.regions = [region for region, _ in cases]
        self.kernels = [lowered(region, plan, f"eq_k{i}") for i, (region, plan) in enumerate(cases)]
        self.compiled = compile_kernels("\n".join(map(cuda_text, self.kernels)))

    def run(self, i: int, inputs: Arrays, order: Order = Order.FORWARD) -> tuple[Report, dict[str, Array]]:
        """The report of kernel i, and its outputs by name."""
        return launched(self.compiled, self.regions[i], self.kernels[i], inputs, order)

    def assert_all_play(self, orders: Sequence[Order] = (Order.RANDOM,), often: Sequence[Order] = ()) -> None:
        """As `assert_plays`, of all kernels; every fourth one in the orders `often`, where there are any."""
        for i in range(len(self.kernels)):
            self.assert_plays(i, (often or orders) if i % 4 == 0 else orders)

    def assert_plays(self, i: int, orders: Sequence[Order] = (Order.RANDOM,)) -> Report:
        """Kernel i has no finding and computes what its region does, the same in all orders."""
        region = self.regions[i]
        inputs = values_of(region)
        actual: list[dict[str, Array]] = []
        for order in orders:
            report, outputs = self.run(i, inputs, order)
            report.require_clean()
            actual.append(outputs)
            if not order_matters(report):
                break
        for output in region.outputs:
            kind = DTYPES[output.memref.dtype]
            wanted = play_region(region, inputs, wide=kind.is_float)[output.name]
            got = actual[0][output.name]
            assert all(np.array_equal(got, other[output.name], equal_nan=kind.is_float) for other in actual[1:])
            if not kind.is_float:
                np.testing.assert_array_equal(got, wanted)
            elif wanted.size:
                assert_near(got.astype(np.float64), wanted, tolerance_of(region, kind.name), str(region))
        return report


def tolerance_of(region: Region, dtype: str) -> float:
    """That of the coarsest dtype to which something is rounded on the way to a `dtype`."""
    rounded = [dtype, *(let.op.dtype for let in region.body)]
    return max(TOLERANCE.get(dtype, 0.0) for dtype in rounded)


def assert_near(got: Array, wanted: Array, tolerance: float, what: str) -> None:
    """All finite numbers within the tolerance of the greatest, all others the same."""
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(got[~finite], wanted[~finite], err_msg=what)
    if finite.any():
        error = np.abs(got[finite] - wanted[finite]).max()
        assert error <= tolerance * max(np.abs(wanted[finite]).max(), 1e-30), f"{what}: {error}"


def values_of(region: Region, seed: int = 0) -> dict[str, Array]:
    """Random inputs; integers span their dtype, so that sums wrap."""
    rng = np.random.default_rng(seed)
    results: dict[str, Array] = {}
    for buffer in region.inputs:
        kind, shape = DTYPES[buffer.memref.dtype], buffer.memref.shape
        if kind.is_float:
            results[buffer.name] = rng.standard_normal(shape).astype(kind.numpy)
        elif kind.is_bool:
            results[buffer.name] = rng.integers(0, 2, shape).astype(np.bool_)
        else:
            limits = np.iinfo(kind.numpy)
            results[buffer.name] = rng.integers(limits.min, limits.max, shape, kind.numpy, endpoint=True)
    return results
