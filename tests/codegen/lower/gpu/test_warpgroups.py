"""Products by warpgroups (wgmma, sm_90a): kernels play as their regions in the emulator; statements that are missing or
moved are noticed, by the verifier and by the emulator each; NVRTC makes of them what plans expect."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from codegen.plan.contraction_view import contraction_of
from codegen.plan.gpu.contraction_candidates import contraction_plan, fitting_tiles
from codegen.poly.analyse import checked_core
from codegen.simt import Order, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat import nn, optimize_and_compile, tensor
from eqsat.cost.targets import H100, gpu_target
from ir.diagnostics import EqsatError, Kind
from ir.index.expr import AxisExpr, constant
from ir.kernel.gpu.kernel import WARP, GpuKernel
from ir.kernel.gpu.nodes import (
    At,
    Barrier,
    CommitGroup,
    Element,
    MmaSync,
    ProxyFence,
    SetElement,
    Stmt,
    WaitGroup,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import walk
from ir.plan.gpu import GpuContractionPlan
from ir.region.region import Region
from tests.codegen.lower.gpu.test_contraction import looked_up, nhwc, prologue, residual, widened
from tests.support.cpu.changed_plan import sizes, with_fields
from tests.support.gpu.edit import changed, edited, without
from tests.support.gpu.emulated import Emulated, contraction_plans_of, launched, lowered, values_of
from tests.support.gpu.instruction_counts import disassembler, sass
from tests.support.gpu.nvrtc import needs_nvdisasm, needs_nvrtc
from tests.support.programs import regions
from tests.support.sampling import every

matmul = regions.matmul
SM90A = gpu_target("sm90a")
_FLAGS = (False, True)
LAYOUTS = [
    matmul((2,), 65, 136, 200, lhs_t=a, rhs_t=b, dtype=dtype)
    for a in _FLAGS
    for b in _FLAGS
    for dtype in ("bf16", "fp16")
]
SHAPES = [
    matmul((), 1, 1, 1, dtype="bf16"),
    matmul((), 19, 21, 37, dtype="fp16"),
    matmul((), 130, 264, 130, rhs_t=True, dtype="bf16"),
    matmul((), 64, 64, 2048, dtype="bf16"),
    matmul((), 30, 50, 0, dtype="bf16"),
    matmul((), 70, 70, 64, dtype="bf16"),
    matmul((), 70, 70, 128, dtype="bf16"),
]
FUSED = [
    nhwc(2, 16, 24, 9),
    nhwc(1, 12, 16, 8, 1, 1, 0, "bf16"),
    regions.gemm_bias_relu(20, 30, 40, "fp16"),
    prologue(70, 70, 130),
    residual(130, 256, 128),
    widened(33, 40, 240),
    looked_up(33, 40, 24, 5),
]
GROUPS = {"layouts": LAYOUTS, "shapes": SHAPES, "fused": FUSED}


def plans(one: Region) -> list[GpuContractionPlan]:
    """All plans with warpgroups, the fastest first."""
    view = contraction_of(one, checked_core(one))
    assert view is not None
    tiles = [(tile, notes) for tile, notes, _ in fitting_tiles(view, SM90A) if tile.warpgroups]
    return [contraction_plan(view, tile, notes, SM90A) for tile, notes in tiles]


def kernel_of(one: Region, number: int = 0) -> GpuKernel:
    """A verified kernel of the region."""
    return lowered(one, plans(one)[number])


# --- results --------------------------------------------------------------------------------------


@every(5)
@pytest.mark.parametrize("group", GROUPS)
def test_kernels_play_as_the_region(group: str, step: int) -> None:
    cases = [(one, plan) for one in GROUPS[group] for plan in plans(one)]
    assert len(cases) >= 20
    Emulated(cases[::step]).assert_all_play(often=tuple(Order))


def test_numbers_that_are_not_finite_stay_in_their_rows_and_columns() -> None:
    one = matmul((), 70, 72, 136, dtype="bf16")
    values = values_of(one)
    values["A"][3, 100], values["A"][69, 0], values["B"][135, 71] = np.nan, np.inf, np.nan
    emulated = Emulated([(one, plan) for plan in plans(one)])
    for i in range(len(emulated.kernels)):
        report, outputs = emulated.run(i, values)
        report.require_clean()
        wrong = ~np.isfinite(outputs["Y"].astype(np.float32))
        assert wrong[3].all()
        assert wrong[69].all()
        assert wrong[:, 71].all()
        assert wrong.sum() == 2 * 72 + 68


def test_counts_of_a_warpgroup() -> None:
    one = matmul((), 128, 256, 192, rhs_t=True, dtype="bf16")
    plan = next(plan for plan in plans(one) if sizes(plan) == (128, 256, 64) and plan.tile.split == 1)
    counters = Emulated([(one, plan)]).assert_plays(0).counters
    assert counters.wgmma == 2 * 3 * 4  # warpgroups, turns, steps
    assert counters.mma_flops == 2 * 128 * 256 * 192
    assert counters.mma == counters.ldmatrix == 0
    assert counters.copy_bytes == (128 + 256) * 192 * 2
    assert counters.copy_bank_conflicts == counters.shared_bank_conflicts == 0


# --- plans ----------------------------------------------------------------------------------------


def test_warpgroups_are_for_hopper_and_halves() -> None:
    one, floats = (matmul((), 4096, 4096, 4096, dtype=dtype) for dtype in ("bf16", "fp32"))
    best = contraction_plans_of(one, SM90A)[0][0]
    assert best.tile.algorithm == "wgmma"
    assert best.kernel_arch == lowered(one, best).arch == "sm90a"
    assert not any(plan.tile.warpgroups for plan, _ in contraction_plans_of(one, H100))
    assert not any(plan.tile.warpgroups for plan, _ in contraction_plans_of(floats, SM90A))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"arch": "sm90"}, Kind.UNKNOWN_TARGET),
        ({"kernel_arch": "sm90"}, Kind.MALFORMED_GRAPH),
        ({"tile.bm": 96}, Kind.ALIGNMENT_MISMATCH),
        ({"tile.bk": 32}, Kind.ALIGNMENT_MISMATCH),
        ({"tile.bn": 192, "tile.warp_n": 192}, Kind.ALIGNMENT_MISMATCH),
        ({"tile.warp_n": 32}, Kind.ALIGNMENT_MISMATCH),
        ({"tile.warp_m": 32}, Kind.ALIGNMENT_MISMATCH),
        ({"tile.stages": 2}, Kind.MALFORMED_GRAPH),
        ({"tile.warpgroups": False}, Kind.MALFORMED_GRAPH),
    ],
    ids=str,
)
def test_plans_that_do_not_fit_are_refused(change: dict[str, object], kind: Kind) -> None:
    one = matmul((), 128, 128, 512, dtype="bf16")
    with pytest.raises(EqsatError) as raised:
        lowered(one, with_fields(plans(one)[0], **change))
    assert raised.value.diagnostics[0].kind is kind


# --- the verifier ---------------------------------------------------------------------------------


def _shift(name: str, axis: int, by: int) -> dict[str, Callable[[Wgmma], At]]:
    def moved(stmt: Wgmma) -> At:
        at: At = getattr(stmt, name)
        index = tuple(expr.shift(by * (number == axis)) for number, expr in enumerate(at.at))
        return msgspec.structs.replace(at, at=index)

    return {name: moved}


def _stage(by: int) -> dict[str, Callable[[Wgmma], At]]:
    return {"rows": lambda stmt: msgspec.structs.replace(stmt.rows, stage=stmt.rows.stage.shift(by))}


def _before(kind: type, number: int, extra: Stmt, kernel: GpuKernel) -> GpuKernel:
    target = [stmt for stmt in walk(kernel.body) if isinstance(stmt, kind)][number]
    return edited(kernel, lambda stmt: (extra, stmt) if stmt is target else (stmt,))


_WARP = AxisExpr(0, ((WARP, 1),))
_TOUCH = SetElement("acc", constant(0), Element("acc", constant(1), "fp32"))
BROKEN: dict[str, tuple[Callable[[GpuKernel], GpuKernel], str]] = {
    "no proxy fence": (lambda k: without(k, ProxyFence, 0), "no ProxyFence"),
    "no proxy fence in the last turns": (lambda k: without(k, ProxyFence, 1), "no ProxyFence"),
    "no fence": (lambda k: without(k, WgmmaFence, 0), "no WgmmaFence"),
    "no commit": (lambda k: without(without(k, WgmmaCommit, 0), WgmmaCommit, 0), "before any group"),
    "no commit in the last turns": (lambda k: without(k, WgmmaCommit, 1), "nothing has waited"),
    "no wait in a turn": (lambda k: without(k, WgmmaWait, 0), "is filled, and nothing has waited for the products"),
    "no last wait": (lambda k: without(k, WgmmaWait, 2), "acc is touched"),
    "a wait for one group less": (lambda k: changed(k, WgmmaWait, 0, pending=2), "nothing has waited for the products"),
    "a last wait for one group less": (lambda k: changed(k, WgmmaWait, 2, pending=1), "acc is touched"),
    "no barrier": (lambda k: without(k, Barrier, 0), "no barrier since"),
    "no wait for copies": (lambda k: without(k, WaitGroup, 0), "nothing has waited for the copies"),
    "no commit of copies": (lambda k: without(k, CommitGroup, 1), "nothing has waited for the copies"),
    "accumulators read early": (lambda k: _before(WgmmaWait, 2, _TOUCH, k), "acc is touched"),
    "accumulators set after the fence": (lambda k: _before(Wgmma, 0, _TOUCH, k), "acc is touched"),
    "the stage of another turn": (lambda k: changed(k, Wgmma, 0, **_stage(1)), "stage"),
    "a row further": (lambda k: changed(k, Wgmma, 0, **_shift("rows", 0, 8)), "is reached at"),
    "inside a group of rows": (lambda k: changed(k, Wgmma, 0, **_shift("rows", 0, 4)), "inside a group of rows"),
    "inside a step": (lambda k: changed(k, Wgmma, 0, **_shift("rows", 1, 8)), "inside a group of rows"),
    "terms beyond the stage": (lambda k: changed(k, Wgmma, 0, **_shift("columns", 1, 16)), "is reached at"),
    "another dtype": (lambda k: changed(k, Wgmma, 0, dtype="fp16"), "no operand of a Wgmma of fp16"),
    "other accumulators": (lambda k: changed(k, Wgmma, 0, acc="out"), "no array of the sums"),
    "a place per warp": (
        lambda k: changed(
            k,
            Wgmma,
            0,
            columns=lambda s: msgspec.structs.replace(s.columns, stage=s.columns.stage + _WARP),
        ),
        "differs between threads",
    ),
    "rows per warp": (
        lambda k: changed(
            k,
            Wgmma,
            0,
            rows=lambda s: msgspec.structs.replace(s.rows, at=(_WARP * 16, s.rows.at[1])),
        ),
        "differs between the warps",
    ),
    "an older GPU": (lambda k: msgspec.structs.replace(k, arch="sm90"), "sm90 has no Wgmma"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_verifier_refuses(name: str) -> None:
    change, message = BROKEN[name]
    kernel = kernel_of(matmul((), 128, 128, 640, dtype="bf16"))
    with pytest.raises(EqsatError) as raised:
        verify(change(kernel))
    assert message in str(raised.value)


# --- the emulator ---------------------------------------------------------------------------------

UNORDERED = [
    *((kind, number) for kind in (ProxyFence, WgmmaCommit, Barrier) for number in (0, 1)),
    *((kind, 0) for kind in (WgmmaFence, WaitGroup)),
    *((WgmmaWait, number) for number in (0, 2)),
]


@pytest.mark.parametrize(("kind", "number"), UNORDERED)
def test_the_emulator_finds_what_a_statement_was_for(kind: type, number: int) -> None:
    one = matmul((), 64, 64, 640, dtype="bf16")
    whole = next(lowered(one, plan) for plan in plans(one) if sizes(plan) == (64, 64, 64) and plan.tile.split == 1)
    broken = without(whole, kind, number)
    compiled = compile_kernels(cuda_text(broken))
    findings = [launched(compiled, one, broken, values_of(one), order)[0].findings for order in Order]
    assert any(findings), (kind, number)


def test_the_emulator_swizzles_as_the_copies_do() -> None:
    """Rows that are stored without the swizzle are multiplied as other rows."""
    one = matmul((), 64, 64, 64, rhs_t=True, dtype="bf16")
    text = cuda_text(next(lowered(one, plan) for plan in plans(one) if sizes(plan) == (64, 64, 64)))
    plain = re.sub(r"(eq_cp_async16\(.*?)eq_swizzle<3>", r"\1", text)
    assert plain != text
    kernel = kernel_of(one)
    right, wrong = (launched(compile_kernels(each), one, kernel, values_of(one))[1]["Y"] for each in (text, plain))
    assert not np.array_equal(right, wrong)


# --- NVRTC ----------------------------------------------------------------------------------------

COMPILED = [
    *(matmul((), 4096, 4096, 4096, lhs_t=a, rhs_t=b, dtype="bf16") for a in _FLAGS for b in _FLAGS),
    nhwc(8, 64, 128, 28),
    regions.gemm_bias_relu(1000, 1000, 1000, "fp16"),
]


@needs_nvrtc
@needs_nvdisasm
@every(3)
@pytest.mark.parametrize("number", range(len(COMPILED)))
def test_products_are_not_serialised_and_nothing_spills(number: int, step: int) -> None:
    """Of the three fastest plans, the suite takes one: the fastest, the second or the third, in turn."""
    from codegen.compile.nvrtc import assemble

    command = disassembler()
    assert command is not None
    fastest = list({sizes(plan): plan for plan in plans(COMPILED[number])}.values())[:3]
    assert len(fastest) == 3
    for plan in fastest[number % step :: step]:
        built = assemble(cuda_text(lowered(COMPILED[number], plan)), "sm90a")
        assert "wgmma" not in built.log, built.log  # ptxas warns where it makes products wait for one another
        assert "0 bytes spill stores, 0 bytes spill loads" in built.log, built.log
        registers = re.search(r"Used (\d+) registers", built.log)
        assert registers
        assert int(registers[1]) * plan.tile.threads <= 65536
        code = sass(built.cubin, command)
        steps = len(re.findall(r"\bHGMMA\.64x", code))
        assert steps > 0
        assert steps % plan.tile.steps == 0
        assert "HMMA." not in code.replace("HGMMA.", "")


def test_only_one_kind_of_product_stands_in_a_kernel() -> None:
    kernel = kernel_of(matmul((), 128, 128, 640, dtype="bf16"))
    assert not any(isinstance(stmt, MmaSync) for stmt in walk(kernel.body))


# --- the whole path -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_program_for_hopper_takes_warpgroups() -> None:
    x, weight, bias = (
        tensor.input(name, shape, "bf16") for name, shape in (("x", (520, 264)), ("w", (512, 264)), ("b", (512,)))
    )
    program = optimize_and_compile(nn.relu(x @ weight.T + bias), target="sm_90a", emulate=True)
    assert len(program.kernels) == 1
    assert "eq_wgmma_m64n" in program.source()
    program.verify()
