"""Products of fp32 on tensor cores, operands rounded to tf32: only where asked, in any shape and layout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from codegen.compile.nvrtc import build
from codegen.plan.contraction_view import contraction_of
from codegen.plan.gpu.contraction_candidates import contraction_plan, fitting_tiles
from codegen.plan.gpu.contraction_work import MMA_SYNC
from codegen.poly.analyse import checked_core
from codegen.simt import Order
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import A100, H100
from ir.diagnostics import EqsatError, Kind
from ir.kernel.gpu.nodes import CpAsync, LdMatrix, LdSharedVec, MmaSync
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import walk
from ir.plan.gpu import TF32, GpuContractionPlan
from ir.plan.plan import rounds_to_tf32
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.playback import play_region
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness
from ir.tiny.tf32 import to_tf32
from tests.codegen.lower.gpu.test_contraction import nhwc, prologue, residual, widened
from tests.support.cpu.changed_plan import with_fields
from tests.support.cpu.played import Array
from tests.support.gpu.edit import changed
from tests.support.gpu.emulated import Emulated, assert_near, lowered, values_of
from tests.support.gpu.emulated import contraction_plans_of as plans_of
from tests.support.gpu.nvrtc import ARCHES, needs_nvrtc
from tests.support.programs import regions
from tests.support.programs.regions import buffer, contraction, ewise, read, region, same

matmul = regions.matmul
_FLAGS = (False, True)
COARSE = 2.0**-10
"""Of the greatest element: each of two operands is rounded by up to 2⁻¹¹, and sums of many are off by less."""


def mixed(m: int, n: int, k: int) -> Region:
    """Y = A·fp32(B): floats by halves."""
    over = (m, n, k)
    body = [
        ewise("Q", "cast", (k, n), same("B", (k, n))),
        contraction("C", over, 1, read("A", over, "i0", "i2"), read("Q", over, "i2", "i1")),
    ]
    return region("mixed", [buffer("A", (m, k)), buffer("B", (k, n), "bf16")], body, (m, n))


MATMULS = [
    *(matmul((2,), 33, 72, 40, lhs_t=a, rhs_t=b) for a in _FLAGS for b in _FLAGS),
    *(matmul((), 35, 37, 41, lhs_t=a, rhs_t=not a, out_t=a) for a in _FLAGS),
    matmul((2, 3), 17, 18, 19, share_rhs=True),
    matmul((), 130, 136, 200),
]
SKINNY = [
    matmul((), 1, 1, 1),
    *(matmul((), 1, 40, 130, rhs_t=b) for b in _FLAGS),
    *(matmul((), 50, 1, 33, lhs_t=a) for a in _FLAGS),
    matmul((), 3, 200, 64, rhs_t=True),
    matmul((), 34, 36, 1),
    matmul((), 16, 16, 24, lhs_t=True),
    regions.matvec(40, 50),
]
NO_TERMS = [matmul((), 30, 50, 0), regions.gemm_bias_relu(4, 6, 0, "fp32")]
CONVS = [
    regions.conv(1, 3, 4),
    regions.conv(2, 8, 24, (9, 11), 3, 2, 1),
    regions.conv(2, 8, 24, (9, 11), 3, 1, 2, 2, groups=2),
    regions.conv(2, 16, 33, (10, 10), 1, 2, 0),
    nhwc(2, 16, 24, 9, dtype="fp32"),
    nhwc(1, 3, 16, 12, 7, 2, 3, dtype="fp32"),
]
SPLIT = [matmul((), 40, 44, 2000, lhs_t=a) for a in _FLAGS]
GROUPS = {"matmul": MATMULS, "skinny": SKINNY, "no terms": NO_TERMS, "conv": CONVS, "split": SPLIT}
FUSED = [
    (regions.gemm_bias_relu(20, 30, 40, "fp32"), 1e-5),
    (regions.attention_scores(2, 2, 20, 30, 24), 1e-5),
    (residual(33, 35, 21, "fp32"), 1e-5),
    (residual(40, 48, 24, "fp32"), 1e-5),
    (mixed(33, 40, 24), 1e-5),
    (prologue(17, 19, 33, "fp32"), COARSE),
]
"""Each with its tolerance beside playback on rounded inputs."""


def tf32_plans(one: Region, target: Target = A100) -> list[GpuContractionPlan]:
    """Those that round, whether or not that gains time."""
    view = contraction_of(one, checked_core(one))
    assert view is not None
    tiles = fitting_tiles(view, target, tf32=True)
    return [contraction_plan(view, tile, notes, target) for tile, notes, _ in tiles if tile.tf32][:16]


def various(one: Region) -> list[GpuContractionPlan]:
    """The best plan, one far from it, and one by which blocks share tiles, where there is one."""
    plans = tf32_plans(one)
    assert plans, f"no plan for {one}"
    shared = [plan for plan in plans[1:-1] if plan.tile.split > 1]
    return [plans[0], *plans[1:][-1:], *shared[:1]]


def rounded(one: Region, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What the region multiplies rounded to tf32, where that are inputs."""
    product = next(let.op for let in one.body if let.op.kind == "contraction")
    factors = set(product.reads)
    return {
        name: to_tf32(buffer) if name in factors and buffer.dtype == np.float32 else buffer
        for name, buffer in inputs.items()
    }


def _play(one: Region, inputs: Mapping[str, Array]) -> Array:
    """The first output, in fp64."""
    return play_region(one, inputs, wide=True)[one.outputs[0].name].astype(np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_operands_are_rounded_and_nothing_else(group: str) -> None:
    """As near to playback on rounded operands as any product of fp32; the same bits in all orders."""
    cases = [(one, plan) for one in GROUPS[group] for plan in various(one)]
    emulated = Emulated(cases)
    for i, (one, _) in enumerate(cases):
        inputs, name = values_of(one), one.outputs[0].name
        runs = [emulated.run(i, inputs, order) for order in (Order.RANDOM, Order.REVERSE)]
        for report, _ in runs:
            report.require_clean()
        first, second = (outputs[name] for _, outputs in runs)
        np.testing.assert_array_equal(first, second)
        if first.size:
            assert_near(first.astype(np.float64), _play(one, rounded(one, inputs)), 1e-5, str(one))


@pytest.mark.slow
def test_prologues_and_epilogues_are_in_fp32() -> None:
    """What is computed before a product is rounded with its operands, what follows is not."""
    cases = [(one, plan, tolerance) for one, tolerance in FUSED for plan in various(one)]
    emulated = Emulated([(one, plan) for one, plan, _ in cases])
    for i, (one, _, tolerance) in enumerate(cases):
        inputs = values_of(one)
        report, outputs = emulated.run(i, inputs, Order.RANDOM)
        report.require_clean()
        got = outputs[one.outputs[0].name].astype(np.float64)
        assert_near(got, _play(one, rounded(one, inputs)), tolerance, str(one))


def test_what_is_no_number_stays_none() -> None:
    """∞ and NaN of any sign and bits; the greatest number rounds to ∞."""
    one = matmul((), 24, 40, 16, rhs_t=True)
    inputs = values_of(one)
    odd = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, np.finfo(np.float32).max], np.float32)
    inputs["A"][:7, 3] = odd
    inputs["A"].view(np.uint32)[7:11, 3] = [0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFF801FFF]
    with np.errstate(all="ignore"):
        wanted = _play(one, rounded(one, inputs))
    plans = various(one)
    emulated = Emulated([(one, plan) for plan in plans])
    for i in range(len(plans)):
        got = emulated.run(i, inputs)[1]["Y"].astype(np.float64)
        assert_near(got, wanted, 1e-5, str(plans[i]))
    assert np.isnan(wanted[7:11]).all()
    assert np.isinf(wanted[6]).all()


# --- what it stands on ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(a, b) for a in _FLAGS for b in _FLAGS])
def test_counts_and_no_bank_conflicts(flags: tuple[bool, bool]) -> None:
    """By whole fragments where operands lie along terms, else word by word; conflicts nowhere."""
    one = matmul((), 64, 96, 64, lhs_t=flags[0], rhs_t=flags[1])
    along = (not flags[0], flags[1])
    plans = tf32_plans(one)[::3]
    emulated = Emulated([(one, plan) for plan in plans])
    for i, plan in enumerate(plans):
        report, _ = emulated.run(i, values_of(one))
        count = report.counters
        assert count.copy_bank_conflicts == count.matrix_bank_conflicts == count.shared_bank_conflicts == 0, plan
        bm, bn, wm, wn = plan.tile.bm, plan.tile.bn, plan.tile.warp_m, plan.tile.warp_n
        m, n = -(-64 // bm) * bm, -(-96 // bn) * bn
        rows, columns = (m // 16) * (n // wn) * (64 // 8), (n // 16) * (m // wm) * (64 // 8)
        assert count.mma == (m // 16) * (n // 8) * (64 // 8)
        assert count.ldmatrix == rows * along[0] + columns * along[1]
        if plan.tile.split == 1:
            assert count.shared_loads == 4 * (rows * (not along[0]) + columns * (not along[1]))


def test_layouts_and_moves() -> None:
    def moves(one: Region, kind: type) -> set[int]:
        kernel = lowered(one, tf32_plans(one)[0])
        return {getattr(stmt, "nbytes", 0) or 1 for stmt in walk(kernel.body) if isinstance(stmt, kind)}

    assert moves(matmul((), 64, 64, 64), CpAsync) == {16}
    assert moves(matmul((), 64, 66, 36), CpAsync) == {8, 16}
    assert moves(matmul((), 65, 67, 33), CpAsync) == {4}
    assert not moves(prologue(64, 64, 64, "fp32"), CpAsync)
    assert moves(matmul((), 64, 64, 64, rhs_t=True), LdMatrix)
    assert not moves(matmul((), 64, 64, 64, rhs_t=True), LdSharedVec)
    assert not moves(matmul((), 64, 64, 64, lhs_t=True), LdMatrix)


MODELS = {
    "gemm": regions.gemm_bias_relu(4096, 4096, 4096, "fp32"),
    "odd": matmul((), 1000, 999, 1001),
    "residual": residual(1024, 4096, 1024, "fp32"),
    "conv NCHW": regions.conv(8, 64, 64, (56, 56), 3, 1, 1, epilogue=True),
}


@pytest.mark.exhaustive
@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHES)
def test_kernels_of_models_compile_without_spills(arch: str) -> None:
    """And take about as many registers as estimated."""
    best = [plans_of(one, tf32=True)[0] for one in MODELS.values()]
    kernels = [
        lowered(one, plan, f"eq_k{i}") for i, (one, (plan, _)) in enumerate(zip(MODELS.values(), best, strict=True))
    ]
    results = {kernel.name: kernel for kernel in build("\n".join(map(cuda_text, kernels)), arch).kernels}
    for name, kernel, (plan, work) in zip(MODELS, kernels, best, strict=True):
        result = results[kernel.name]
        assert rounds_to_tf32(plan), name
        assert (result.spills, result.stack, result.lints) == (False, 0, ()), name
        assert abs(work.thread_registers - result.registers) <= 40, (name, work.thread_registers, result.registers)


# --- plans ----------------------------------------------------------------------------------------


def _algorithms(one: Region, exactness: Exactness = Exactness.ROUNDING, *, tf32: bool = True) -> set[str]:
    return {
        choice
        for plan, _ in plans_of(one, exactness=exactness, tf32=tf32)
        for choice in plan_to_schedule(plan).algo_choice.values()
    }


def test_only_floats_are_rounded_and_only_where_asked() -> None:
    one = matmul((), 512, 512, 512)
    assert _algorithms(one, tf32=False) == {"fma"}
    assert TF32 in _algorithms(one)
    assert TF32 in _algorithms(mixed(512, 512, 512))
    assert _algorithms(one, Exactness.EXACT) == {"fma"}
    assert _algorithms(matmul((), 64, 64, 64, dtype="bf16")) == _algorithms(widened(64, 64, 64)) == {"mma"}
    for dtype in ("fp64", "i32", "i8"):
        assert _algorithms(matmul((), 64, 64, 64, dtype=dtype)) == {"fma"}


@pytest.mark.parametrize("target", [A100, H100], ids=lambda target: target.name)
def test_tensor_cores_are_taken_where_they_gain(target: Target) -> None:
    """A large product is priced by their peak; one that waits for memory is not rounded for nothing."""
    large, long = matmul((), 4096, 4096, 4096), matmul((), 1, 4096, 4096, rhs_t=True)
    (best, work), (plain, _) = (plans_of(large, target, tf32=asked)[0] for asked in (True, False))
    assert best.tile.algorithm == TF32
    assert plain.tile.algorithm == "fma"
    assert work.compute_dtype == "tf32"
    assert 0.7 < work.efficiency / MMA_SYNC.get(target.arch, 1.0) <= 1
    assert plans_of(long, target, tf32=True)[0][0].tile.algorithm == "fma"


@pytest.mark.parametrize("one", [matmul((2,), 3, 0, 3), matmul((0,), 3, 4, 3)], ids=str)
def test_results_without_elements_need_no_tensor_core(one: Region) -> None:
    plans = [plan for plan, _ in plans_of(one, tf32=True)]
    report, outputs = Emulated([(one, plans[0])]).run(0, values_of(one))
    report.require_clean()
    assert outputs["Y"].size == 0


def test_kernels_say_what_they_multiply() -> None:
    one = matmul((), 128, 128, 64)
    products = {
        (stmt.shape, stmt.dtype) for stmt in walk(lowered(one, tf32_plans(one)[0]).body) if isinstance(stmt, MmaSync)
    }
    assert products == {("m16n8k8", "tf32")}
    assert {buffer.dtype for buffer in lowered(one, tf32_plans(one)[0]).shared} == {"fp32"}


def test_only_halves_are_transposed_on_the_way() -> None:
    one = matmul((), 64, 64, 64, rhs_t=True)
    turned = changed(lowered(one, tf32_plans(one)[0]), LdMatrix, 0, trans=lambda _: True)
    with pytest.raises(EqsatError, match="not halves"):
        verify(turned)


@pytest.mark.parametrize(
    ("one", "change", "kind"),
    [
        (matmul((), 64, 64, 64, dtype="bf16"), {"tile.rhs.dtype": "fp32"}, Kind.MALFORMED_GRAPH),
        (matmul((), 64, 64, 64), {"tile.rhs.dtype": "bf16"}, Kind.MALFORMED_GRAPH),
        (matmul((), 64, 64, 64), {"tile.bk": 64}, Kind.ALIGNMENT_MISMATCH),
        (matmul((), 64, 64, 64), {"tile.bk": 12}, Kind.ALIGNMENT_MISMATCH),
        (matmul((), 64, 64, 64), {"ordered": True}, Kind.MALFORMED_GRAPH),
    ],
)
def test_plans_that_do_not_fit_are_refused(one: Region, change: dict[str, object], kind: Kind) -> None:
    plan = (tf32_plans(one) or [plan for plan, _ in plans_of(one)])[0]
    with pytest.raises(EqsatError) as raised:
        lowered(one, with_fields(plan, **change))
    assert raised.value.diagnostics[0].kind is kind
