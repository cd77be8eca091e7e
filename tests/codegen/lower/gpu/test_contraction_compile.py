"""The GPU template of contractions through NVRTC: no spill, no lint, and the instructions that its speed stands on."""

from __future__ import annotations

import pytest

from codegen.compile.nvrtc import assemble, build
from codegen.text.gpu_to_cuda import cuda_text
from ir.kernel.resources import KernelResources
from ir.plan.plan import Plan
from ir.region.region import Region
from tests.codegen.lower.gpu.test_contraction import nhwc, prologue, residual
from tests.support.cpu.changed_plan import sizes
from tests.support.gpu.emulated import contraction_plans_of as plans_of
from tests.support.gpu.emulated import lowered
from tests.support.gpu.instruction_counts import ptx_counts
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.programs import regions

pytestmark = needs_nvrtc

MODELS = {
    "gemm": regions.gemm_bias_relu(4096, 4096, 4096, "bf16"),
    "odd": regions.matmul((), 1000, 999, 1001, dtype="fp16"),
    "transposed": regions.matmul((), 1024, 1024, 1024, lhs_t=True, rhs_t=True, dtype="bf16"),
    "floats": regions.matmul((), 1024, 1024, 1024),
    "doubles": regions.matmul((), 500, 500, 500, dtype="fp64"),
    "bytes": regions.matmul((), 200, 200, 200, dtype="i8"),
    "residual": residual(1024, 4096, 1024),
    "prologue": prologue(512, 512, 512),
    "scores": regions.matmul((8, 16), 512, 512, 64, rhs_t=True, dtype="fp16"),
    "vector": regions.matmul((), 1, 4096, 4096, rhs_t=True, dtype="bf16"),
    "resnet 7x7": nhwc(8, 3, 64, 224, 7, 2, 3),
    "resnet 3x3": nhwc(8, 64, 64, 56),
    "resnet 1x1": nhwc(8, 256, 64, 56, 1, 1, 0),
    "resnet stride": nhwc(8, 128, 256, 28, 3, 2),
    "resnet NCHW": regions.conv(8, 64, 64, (56, 56), 3, 1, 1, epilogue=True),
    "depthwise": regions.conv(1, 32, 32, (56, 56), 3, 1, 1, groups=32),
}


@pytest.fixture(scope="module", params=["sm_80", pytest.param("sm_90", marks=pytest.mark.exhaustive)])
def compiled(request: pytest.FixtureRequest) -> dict[str, KernelResources]:
    """What the kernels of the models take by their best plans."""
    kernels = [lowered(one, plans_of(one)[0][0], f"eq_k{i}") for i, one in enumerate(MODELS.values())]
    results = {kernel.name: kernel for kernel in build("\n".join(map(cuda_text, kernels)), request.param).kernels}
    return {name: results[kernel.name] for kernel, name in zip(kernels, MODELS, strict=True)}


@pytest.mark.slow
def test_kernels_of_models_compile_without_spills(compiled: dict[str, KernelResources]) -> None:
    for name, result in compiled.items():
        assert (result.spills, result.stack, result.lints) == (False, 0, ()), name


@pytest.mark.slow
def test_registers_are_about_as_estimated(compiled: dict[str, KernelResources]) -> None:
    estimates = {name: plans_of(one)[0][1].thread_registers for name, one in MODELS.items()}
    errors = {name: estimates[name] - result.registers for name, result in compiled.items()}
    assert sum(map(abs, errors.values())) / len(errors) < 16, errors
    assert all(abs(error) <= 60 for error in errors.values()), errors


@pytest.mark.exhaustive
def test_no_candidate_spills() -> None:
    cases = [(name, plan, lowered(one, plan)) for name, one in MODELS.items() for plan, _ in plans_of(one)]
    text = "\n".join(cuda_text(kernel).replace(" eq_k(", f" eq_k{i}(") for i, (_, _, kernel) in enumerate(cases))
    spilling = {kernel.name for kernel in build(text, "sm_80").kernels if kernel.spills}
    assert not {(name, sizes(plan)) for i, (name, plan, _) in enumerate(cases) if f"eq_k{i}" in spilling}


def _plan(one: Region, tile: tuple[int, int, int], stages: int) -> Plan:
    return next(plan for plan, _ in plans_of(one) if (sizes(plan), plan.tile.stages) == (tile, stages))


def test_instructions_of_the_main_loop() -> None:
    """A turn of 128 × 128 × 32 by warps of 64 × 32: 2 steps of 4 × 4 mma, each step 4 + 2 ldmatrix; 4 copies of 16
    bytes a thread, and as many before it. The last turns stand apart, without copies."""
    one = regions.gemm_bias_relu(1024, 1024, 1024, "bf16")
    counts = ptx_counts(assemble(cuda_text(lowered(one, _plan(one, (128, 128, 32), 4))), "sm_80").ptx)
    assert (counts["mma"], counts["ldmatrix"], counts["cp_async_16"]) == (2 * 32, 2 * 12, 2 * 4)
    assert (counts["barrier"], counts["st_global_16"], counts["local"]) == (4, 8, 0)


@pytest.mark.slow
def test_a_convolution_is_the_same_main_loop() -> None:
    one = nhwc(8, 64, 128, 56)
    counts = ptx_counts(assemble(cuda_text(lowered(one, _plan(one, (128, 128, 32), 3))), "sm_80").ptx)
    assert (counts["mma"], counts["ldmatrix"], counts["cp_async_16"]) == (2 * 64, 2 * 16, 2 * 8)
    assert (counts["cp_async"], counts["local"]) == (counts["cp_async_16"], 0)
