"""On a GPU: whichever of the blocks that share a result comes last, the bits are the same; the counters are 0 again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bench.device.launch import Device, launch
from codegen.text.gpu_to_cuda import cuda_text
from ir.kernel.gpu.kernel import GpuKernel
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.playback import play_region
from ir.region.region import Region
from tests.support.cpu.played import Array
from tests.support.gpu.devices import DEVICES
from tests.support.gpu.emulated import lowered, plans_of, values_of
from tests.support.gpu.nest_kernels import gpu_cases
from tests.support.gpu.workspace import workspace_of
from tests.support.programs.regions import matmul, total

RUNS = 20


def shared_product(one: Region) -> GpuKernel:
    return lowered(one, next(plan for plan, _ in plans_of(one) if plan_to_schedule(plan).layout_hints.get("split_k")))


def shared_rows(one: Region) -> GpuKernel:
    return next(case.kernel for case in gpu_cases([one]) if plan_to_schedule(case.plan).layout_hints.get("split_k"))


CASES = [
    (matmul((), 128, 136, 2000, dtype="bf16"), shared_product, 1e-2),
    (matmul((), 33, 40, 1500), shared_product, 1e-5),
    (total((50021,)), shared_rows, 1e-5),
]


@pytest.mark.slow
@pytest.mark.parametrize("make", DEVICES)
@pytest.mark.parametrize(("one", "kernel_of", "tolerance"), CASES, ids=["halves", "floats", "sum"])
def test_every_run_gives_the_same_bits(
    one: Region, kernel_of: Callable[[Region], GpuKernel], tolerance: float, make: Callable[[], Device]
) -> None:
    kernel, inputs, device = kernel_of(one), values_of(one), make()
    wanted = play_region(one, inputs, wide=True)["Y"].reshape(-1)
    results: list[Array] = []
    for _ in range(RUNS if device.name != "emulator" else 2):
        out, workspace = np.zeros(wanted.size, inputs[one.inputs[0].name].dtype), workspace_of(kernel)
        arrays = [*inputs.values(), out, *workspace]
        launch(device, cuda_text(kernel), kernel.name, kernel.grid, kernel.threads, arrays, kernel.shared_bytes)
        assert not workspace[-1].any()
        results.append(out)
    assert all(np.array_equal(result, results[0]) for result in results[1:])
    assert np.linalg.norm(results[0].astype(np.float64) - wanted) <= tolerance * np.linalg.norm(wanted)
