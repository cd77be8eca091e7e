"""What kernels' speed stands on, counted without a GPU and golden: instructions in PTX, bank conflicts and sectors in
the emulator; no spill and no lint on either architecture. `pytest --update-golden` of this file records
what the planner chooses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache

import pytest

from codegen.backends.gpu import GpuBackend
from codegen.compile.nvrtc import NvrtcResult, assemble, nvrtc_version
from codegen.compile.nvrtc_log import resources
from codegen.poly.analyse import checked_core
from codegen.simt import Report, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import A100, H100
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.resources import KernelResources
from ir.plan.gpu import TF32
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness
from tests.codegen.lower.cpu.test_lower_nest import softmax
from tests.codegen.lower.gpu.test_contraction import nhwc
from tests.codegen.lower.gpu.test_gpu_nests import layer_norm, permuted
from tests.support.gpu.instruction_counts import disassembler, main_loop, ptx_counts, sass
from tests.support.gpu.kernels import kind_of, small_kernels
from tests.support.gpu.nvrtc import ARCHES, needs_nvrtc
from tests.support.programs import regions as r
from tests.support.programs import stream_regions
from tests.support.programs.golden_files import compare

PINNED = (13, 0)
"""The NVRTC of pyproject.toml, whose PTX the golden files count."""
LARGE: Mapping[str, Region] = {
    "gemm 4096³ bf16": r.gemm_bias_relu(4096, 4096, 4096, "bf16"),
    "gemm 4096³ bf16 transposed": r.matmul((), 4096, 4096, 4096, rhs_t=True, dtype="bf16"),
    "gemm 1024³ fp32": r.matmul((), 1024, 1024, 1024),
    "row times matrix 4096": r.matmul((), 1, 4096, 4096, rhs_t=True, dtype="bf16"),
    "gemm 256×256×16384 bf16": r.matmul((), 256, 256, 16384, dtype="bf16"),
    "conv 3×3 64→64 @56 ×32": nhwc(32, 64, 64, 56),
    "conv 1×1 256→64 @56 ×32": nhwc(32, 256, 64, 56, 1, 1, 0),
    "attention 64×4096×128": stream_regions.attention(64, 4096, 4096, 128, 128, dtype="bf16"),
    "attention 64×4096×64 causal": stream_regions.attention(64, 4096, 4096, 64, 64, causal=True, dtype="bf16"),
    "decode 32×1×8192×128": stream_regions.attention(32, 1, 8192, 128, 128, dtype="bf16"),
    "softmax 16384×4096 fp16": softmax(16384, 4096, "fp16"),
    "layer norm 16384×4096 bf16": layer_norm(16384, 4096, "bf16"),
    "pointwise 8192² fp16": r.pointwise((8192, 8192), "fp16"),
    "transpose 4096²": permuted((4096, 4096), (1, 0)),
    "sum of columns 65536×1024": r.column_reduce(65536, 1024),
    "gemm 4096³ tf32": r.matmul((), 4096, 4096, 4096),
    "gemm 4096³ tf32 transposed": r.matmul((), 4096, 4096, 4096, rhs_t=True),
    "conv 3×3 64→64 @56 ×32 tf32": nhwc(32, 64, 64, 56, dtype="fp32"),
    "attention 64×4096×128 tf32": stream_regions.attention(64, 4096, 4096, 128, 128),
    "attention 64×4096×64 tf32": stream_regions.attention(64, 4096, 4096, 64, 64),
    "cumsum 2²⁰": r.cumsum(1, 1 << 20),
}
"""At the sizes that are measured; those named so may round to tf32."""


@cache
def large_kernels() -> dict[str, GpuKernel]:
    """The best plan of each on an A100, by its name and kind."""
    backend, result = GpuBackend(), dict[str, GpuKernel]()
    for name, region in LARGE.items():
        core = checked_core(region)
        plan = backend.candidates(region, core, A100, Exactness.ROUNDING, tf32="tf32" in name)[0][0]
        result[f"{name}: {kind_of(plan)}"] = backend.lower(region, core, plan, f"eq_large{len(result)}")
    return result


@cache
def assembled_large() -> list[NvrtcResult]:
    """Each of them for sm_80, apart: the disassembler takes one kernel at a time."""
    return [assemble(cuda_text(kernel), "sm_80") for kernel in large_kernels().values()]


def by_kernel(ptx: str) -> dict[str, str]:
    """The PTX of each kernel."""
    parts = re.split(r"\.visible \.entry (\w+)\(", ptx)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def assembled(kernels: Mapping[str, GpuKernel], arch: str) -> list[NvrtcResult]:
    """All of them as one module."""
    return [assemble("\n".join(map(cuda_text, kernels.values())), arch)]


def counted(
    kernels: Mapping[str, GpuKernel], modules: Sequence[NvrtcResult]
) -> tuple[dict[str, dict[str, int]], list[str]]:
    """How often each kernel names the instructions, and who spills or is warned of."""
    results: dict[str, KernelResources] = {
        resource.name: resource for module in modules for resource in resources(module.log)
    }
    texts = {name: text for module in modules for name, text in by_kernel(module.ptx).items()}
    counts = {name: {k: n for k, n in ptx_counts(texts[one.name]).items() if n} for name, one in kernels.items()}
    bad = [f"{name}: {results[one.name]}" for name, one in kernels.items() if not _is_clean(results[one.name])]
    return counts, bad


def _is_clean(resources: KernelResources) -> bool:
    return not (resources.spills or resources.stack or resources.lints)


def as_text(rows: Mapping[str, object]) -> str:
    """A row a line."""
    lines = (f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(row)}" for name, row in rows.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


@needs_nvrtc
@pytest.mark.slow
def test_instructions_and_conflicts_are_as_recorded(request: pytest.FixtureRequest) -> None:
    if nvrtc_version() != PINNED:
        pytest.skip(f"the golden counts are of NVRTC {PINNED}, this is {nvrtc_version()}")
    small = {kernel.name: kernel.kernel for kernel in small_kernels()}
    of_small, bad = counted(small, assembled(small, "sm_80"))
    of_large, worse = counted(large_kernels(), assembled_large())
    assert not bad + worse
    reports = emulated()
    files = {
        "instructions_small.json": as_text(of_small),
        "instructions_large.json": as_text(of_large),
        "emulator_small.json": as_text({name: _counted(report) for name, report in reports.items()}),
    }
    compare("gpu", files, request.config)


@needs_nvrtc
@pytest.mark.exhaustive
def test_main_loops_are_as_recorded(request: pytest.FixtureRequest) -> None:
    """Instructions of a warp in a turn: those beside the mma are what the tensor cores may wait for."""
    command = disassembler()
    if command is None or nvrtc_version() != PINNED:
        pytest.skip("the golden counts are of the SASS of another compiler, or there is no nvdisasm")
    rows: dict[str, object] = {}
    for name, module in zip(large_kernels(), assembled_large(), strict=True):
        loop = main_loop(sass(module.cubin, command))
        if loop is not None:
            rows[name] = loop._asdict()
    compare("gpu_loops", {"main_loops.json": as_text(rows)}, request.config)


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("target", [A100, H100], ids=lambda target: target.arch)
def test_attention_waits_for_tensor_cores_not_for_instructions(target: Target) -> None:
    """A turn of 128 mma takes 1,024 clocks of an A100's tensor core; a scheduler starts an instruction per clock."""
    command = disassembler()
    if command is None or nvrtc_version() != PINNED:
        pytest.skip("the SASS is of another compiler, or there is no nvdisasm")
    region = LARGE["attention 64×4096×128"]
    backend, core = GpuBackend(), checked_core(region)
    plan = backend.candidates(region, core, target, Exactness.ROUNDING)[0][0]
    text = cuda_text(backend.lower(region, core, plan, "eq_attention"))
    arch = f"sm_{target.arch.removeprefix('sm')}"
    loop = main_loop(sass(assemble(text, arch).cubin, command))
    assert loop is not None
    assert loop.mma == 128
    assert loop.instructions <= 605


@needs_nvrtc
@pytest.mark.exhaustive
def test_sm90_compiles_the_same_kernels_as_well() -> None:
    kernels = {**{kernel.name: kernel.kernel for kernel in small_kernels()}, **large_kernels()}
    assert not counted(kernels, assembled(kernels, ARCHES[1]))[1]


@cache
def emulated() -> dict[str, Report]:
    """Every small kernel run once, without a finding."""
    kernels = compile_kernels("\n".join(cuda_text(kernel.kernel) for kernel in small_kernels()))
    results = {}
    for kernel in small_kernels():
        arguments, _ = kernel.arguments()
        one = kernel.kernel
        results[kernel.name] = kernels[one.name].launch(one.grid, arguments, shared_bytes=one.shared_bytes)
        results[kernel.name].require_clean()
    return results


def _counted(report: Report) -> dict[str, int]:
    """Conflicts always, work where there is any."""
    count = report.counters
    conflicts = {
        "shared conflicts": count.shared_bank_conflicts,
        "copy conflicts": count.copy_bank_conflicts,
        "ldmatrix conflicts": count.matrix_bank_conflicts,
    }
    work = {
        "mma": count.mma,
        "ldmatrix": count.ldmatrix,
        "copied bytes": count.copy_bytes,
        "load sectors": count.global_load_sectors,
        "store sectors": count.global_store_sectors,
        "barriers": count.barriers,
    }
    return conflicts | {name: number for name, number in work.items() if number}


@pytest.mark.slow
def test_tensor_core_kernels_meet_no_conflicts() -> None:
    """Neither ldmatrix nor cp.async."""
    for name, report in emulated().items():
        if report.counters.mma:
            assert report.counters.matrix_bank_conflicts == report.counters.copy_bank_conflicts == 0, name


def test_every_template_is_counted() -> None:
    kinds = {kernel.name.partition(": ")[2] for kernel in small_kernels()}
    firsts = {kind.split()[0] for kind in kinds}
    assert firsts >= {"matmul", "conv", "attention", "rows", "points", "tile"}
    assert any(kind.endswith("split") for kind in kinds)
    assert {kind.split()[1] for kind in kinds if kind.startswith(("matmul", "attention"))} == {"mma", TF32, "fma"}
