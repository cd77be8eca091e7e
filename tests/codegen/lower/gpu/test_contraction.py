"""The GPU template of contractions under the emulator against region playback: shapes, layouts, dtypes, plans."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from codegen.plan.contraction_view import contraction_of
from codegen.plan.gpu.contraction_tiling import check_contraction_plan
from codegen.poly.analyse import checked_core
from codegen.simt import Order, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import A100, H100
from ir.diagnostics import EqsatError, Kind
from ir.dtype import DTYPES
from ir.kernel.gpu.limits import LIMITS
from ir.kernel.gpu.nodes import Barrier, CommitGroup, CpAsync, StGlobal, StGlobalVec, StShared, WaitGroup
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import walk
from ir.plan.plan import Plan
from ir.region.region import Definition, Number, Op, Region, Yield
from ir.term.rule import Exactness
from tests.support.cpu.changed_plan import sizes, with_fields
from tests.support.gpu.edit import without
from tests.support.gpu.emulated import Emulated, lowered, values_of
from tests.support.gpu.emulated import contraction_plans_of as plans_of
from tests.support.programs import regions
from tests.support.programs.regions import buffer, contraction, ewise, index_map, read, region, same
from tests.support.sampling import every

matmul = regions.matmul
_FLAGS = (False, True)


def nhwc(
    batch: int, channels: int, filters: int, size: int, kernel: int = 3, stride: int = 1, pad: int = 1,
    dtype: str = "fp16",
) -> Region:  # fmt: skip
    """Y[n, h, w, o] = relu(X[n, h, w, c] * W[o, r, s, c] + bias)."""
    out = regions.conv_output(size, kernel, stride, pad, 1)
    over, shape = (batch, out, out, filters, kernel, kernel, channels), (batch, out, out, filters)
    at = ["i0", *(f"{stride}*i{axis} + i{axis + 3} - {pad}" for axis in (1, 2)), "i6"]
    x = read("X", over, *at, pad={1: size, 2: size} if pad else {})
    body = [
        contraction("C", over, 3, x, read("W", over, "i3", "i4", "i5", "i6"), dtype),
        ewise("B", "add", shape, same("C", shape), read("bias", shape, "i3"), dtype=dtype),
        ewise("R", "relu", shape, same("B", shape), dtype=dtype),
    ]
    inputs = [
        buffer("X", (batch, size, size, channels), dtype),
        buffer("W", (filters, kernel, kernel, channels), dtype),
        buffer("bias", (filters,), dtype),
    ]
    return region("conv_nhwc", inputs, body, shape, dtype=dtype)


def residual(m: int, n: int, k: int, dtype: str = "bf16") -> Region:
    """Y = gelu-like(A·B) + R, and a second output, whether A·B is positive."""
    over, out = (m, n, k), (m, n)
    body = [
        contraction("C", over, 1, read("A", over, "i0", "i2"), read("B", over, "i2", "i1"), dtype),
        ewise("S", "sigmoid", out, same("C", out), dtype=dtype),
        ewise("G", "mul", out, same("C", out), same("S", out), dtype=dtype),
        ewise("Z", "add", out, same("G", out), same("R", out), dtype=dtype),
        ewise("P", "cmpgt", out, same("C", out), Number(0.0, dtype), dtype="bool"),
    ]
    inputs = [buffer("A", (m, k), dtype), buffer("B", (k, n), dtype), buffer("R", out, dtype)]
    one = region("residual", inputs, body, out, value="Z", dtype=dtype)
    other = Yield("P", "Q", index_map(out, "i0", "i1"))
    return msgspec.structs.replace(one, outputs=(*one.outputs, buffer("Q", out, "bool")), yields=(*one.yields, other))


def prologue(m: int, n: int, k: int, dtype: str = "fp16") -> Region:
    """Y = exp(A)·(B·s): operands that are not 0 where nothing is read."""
    over = (m, n, k)
    body = [
        ewise("E", "exp", (m, k), same("A", (m, k)), dtype=dtype),
        ewise("S", "mul", (k, n), same("B", (k, n)), read("s", (k, n), "i1"), dtype=dtype),
        contraction("C", over, 1, read("E", over, "i0", "i2"), read("S", over, "i2", "i1"), dtype),
    ]
    return region(
        "prologue", [buffer("A", (m, k), dtype), buffer("B", (k, n), dtype), buffer("s", (n,), dtype)], body, (m, n),
        dtype=dtype,
    )  # fmt: skip


def looked_up(m: int, n: int, k: int, rows: int, dtype: str = "fp16") -> Region:
    """Y = A·B + T[at], where the column's number exceeds the row's: data as indices, and indices as data."""
    over, out = (m, n, k), (m, n)
    body = [
        contraction("C", over, 1, read("A", over, "i0", "i2"), read("B", over, "i2", "i1"), dtype),
        Definition(
            "G", Op("gather", "gather", dtype, out, (read("T", (*out, rows), "i2", "i1"), read("at", out, "i0")))
        ),
        ewise("S", "add", out, same("C", out), same("G", out), dtype=dtype),
        Definition("I", Op("index", "index", "i32", out, index_map=index_map(out, "i1"))),
        Definition("J", Op("index", "index", "i32", out, index_map=index_map(out, "i0"))),
        ewise("P", "cmpgt", out, same("I", out), same("J", out), dtype="bool"),
        ewise("Z", "where", out, same("P", out), same("S", out), Number(0.0, dtype), dtype=dtype),
    ]
    inputs = [buffer("A", (m, k), dtype), buffer("B", (k, n), dtype), buffer("T", (rows, n), dtype)]
    return region("looked_up", [*inputs, buffer("at", (m,), "i64")], body, out, dtype=dtype)


def widened(m: int, n: int, k: int, dtype: str = "bf16") -> Region:
    """Y = fp32(A)·fp32(B): exact products of halves."""
    over = (m, n, k)
    body = [
        ewise("P", "cast", (m, k), same("A", (m, k))),
        ewise("Q", "cast", (k, n), same("B", (k, n))),
        contraction("C", over, 1, read("P", over, "i0", "i2"), read("Q", over, "i2", "i1")),
    ]
    return region("widened", [buffer("A", (m, k), dtype), buffer("B", (k, n), dtype)], body, (m, n))


MATMULS = [
    *(matmul((2,), 33, 72, 40, lhs_t=a, rhs_t=b, dtype=d) for a in _FLAGS for b in _FLAGS for d in ("bf16", "fp32")),
    *(matmul((), 19, 21, 37, lhs_t=a, rhs_t=not a, out_t=a, dtype=d) for a in _FLAGS for d in ("fp16", "fp32")),
    matmul((2, 3), 17, 18, 19, share_rhs=True, dtype="bf16"),
    matmul((), 130, 136, 200, dtype="bf16"),
]
SKINNY = [
    matmul((), 1, 1, 1, dtype="bf16"),
    matmul((), 1, 1, 1),
    *(matmul((), 1, 40, 130, rhs_t=b, dtype=d) for b in _FLAGS for d in ("fp16", "fp32")),
    *(matmul((), 50, 1, 33, dtype=d) for d in ("fp16", "fp32")),
    matmul((), 3, 200, 64, rhs_t=True),
    regions.matvec(40, 50),
    matmul((), 34, 36, 1, dtype="bf16"),
]
EMPTY = [
    *(matmul((), 30, 50, 0, dtype=d) for d in ("bf16", "fp32")),
    matmul((), 0, 50, 3, dtype="bf16"),
    matmul((2,), 3, 0, 3),
    matmul((0,), 3, 4, 3),
    regions.gemm_bias_relu(4, 6, 0),
]
CONVS = [
    regions.conv(1, 3, 4),
    regions.conv(2, 8, 24, (9, 11), 3, 2, 1),
    regions.conv(2, 8, 24, (9, 11), 3, 1, 2, 2, groups=2),
    regions.conv(1, 6, 6, (8, 8), 3, 1, 1, groups=6),
    regions.conv(2, 16, 33, (10, 10), 1, 2, 0),
    regions.conv(1, 20, 24, (14, 14), 3, 1, 1, epilogue=True),
    regions.conv(2, 16, 24, (6, 6), 1, 1, 0),
    nhwc(2, 16, 24, 9),
    nhwc(1, 8, 33, 11, 3, 2),
    nhwc(1, 12, 16, 8, 1, 1, 0, "bf16"),
    nhwc(1, 3, 16, 12, 7, 2, 3),
    nhwc(1, 8, 16, 7, dtype="fp32"),
]
FUSED = [
    regions.gemm_bias_relu(20, 30, 40, "fp16"),
    regions.gemm_bias_relu(20, 32, 40, "bf16", "bf16"),
    regions.attention_scores(2, 2, 20, 30, 24),
    regions.prologue_gemm(30, 40, 50),
    prologue(30, 40, 50),
    prologue(17, 19, 33, "fp32"),
    residual(40, 48, 24),
    residual(33, 35, 21, "fp32"),
    widened(33, 40, 24),
    looked_up(33, 40, 24, 5),
]
WHOLE = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
TYPES = [matmul((), 20, 30, 40, dtype=dtype) for dtype in (*WHOLE, "fp64", "fp16")]
GROUPS = {"matmul": MATMULS, "skinny": SKINNY, "empty": EMPTY, "conv": CONVS, "fused": FUSED, "types": TYPES}


def various(one: Region, count: int = 2) -> list[Plan]:
    """The best plan, and others far from it."""
    plans = [plan for plan, _ in plans_of(one)]
    assert plans, f"no plan for {one}"
    return [plans[i] for i in sorted({0, *(len(plans) * (i + 1) // count - 1 for i in range(1, count))})]


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_kernels_play_as_the_region(group: str) -> None:
    cases = [(one, plan) for one in GROUPS[group] for plan in various(one)]
    Emulated(cases).assert_all_play(often=(Order.RANDOM, Order.REVERSE))


@every(29)
@pytest.mark.parametrize("group", GROUPS)
def test_many_candidates_play_as_the_region(group: str, step: int) -> None:
    cases = [(one, plan) for one in GROUPS[group] for plan, _ in plans_of(one)]
    Emulated(cases[::step]).assert_all_play(often=tuple(Order))


# --- what moves how -------------------------------------------------------------------------------


def _moves(one: Region, kind: type) -> list[int]:
    """Bytes of the copies to shared memory, or elements of the stores, of the best plan, each once."""
    kernel = lowered(one, plans_of(one)[0][0])
    statements = [stmt for stmt in walk(kernel.body) if isinstance(stmt, kind)]
    return sorted({getattr(stmt, "nbytes", 0) or getattr(stmt, "count", 1) for stmt in statements})


def test_aligned_operands_are_copied_16_bytes_at_once() -> None:
    assert _moves(matmul((), 64, 64, 64, dtype="bf16"), CpAsync) == [16]
    assert _moves(nhwc(1, 16, 32, 9), CpAsync) == [16]
    assert _moves(widened(64, 64, 64), CpAsync) == [16]
    assert _moves(matmul((), 64, 66, 36, dtype="bf16"), CpAsync) == [4, 8]
    assert _moves(matmul((), 65, 67, 33), CpAsync) == [4]
    assert not _moves(matmul((), 65, 67, 33, dtype="bf16"), CpAsync)
    assert _moves(matmul((), 65, 67, 33, dtype="bf16"), StShared) == [1]
    assert _moves(prologue(64, 64, 64), CpAsync) == []


def test_digits_that_lie_together_are_copied_as_one() -> None:
    """Filters over channel and window, pixels over rows and columns."""
    assert _moves(regions.conv(1, 16, 32, (9, 9), 3, 1, 1), CpAsync) == [4, 16]
    assert _moves(regions.conv(1, 16, 32, (6, 6), 1, 1, 0), CpAsync) == [16]
    pointwise = regions.conv(1, 16, 32, (6, 6), 1, 1, 0)
    params = lowered(pointwise, plans_of(pointwise)[0][0]).params
    assert [param.shape for param in params] == [(1, 16, 36), (32, 16), (1, 32, 6, 6)]


def test_results_leave_as_wide_as_they_lie() -> None:
    assert _moves(matmul((), 64, 64, 64, dtype="bf16"), StGlobalVec) == [4]
    assert _moves(widened(64, 64, 64), StGlobalVec) == [2]
    assert _moves(matmul((), 512, 512, 64), StGlobalVec) == [4]
    assert _moves(matmul((), 512, 513, 64), StGlobal) == [1]


def test_counts_of_what_the_kernel_stands_on() -> None:
    one = matmul((), 64, 64, 64, dtype="bf16")
    plan = next(plan for plan, _ in plans_of(one) if sizes(plan) == (32, 32, 64))
    emulated = Emulated([(one, plan)])
    counters = emulated.assert_plays(0).counters
    assert counters.mma == 4 * (64 // 16) * (32 // 16) * (32 // 8)
    assert counters.ldmatrix == 4 * 4 * (64 // 16) * 2
    assert counters.copy_bytes == 4 * 2 * 32 * 64 * 2
    assert counters.matrix_bank_conflicts == counters.copy_bank_conflicts == counters.shared_bank_conflicts == 0
    assert counters.global_store_sectors == 64 * 64 * 2 // 32


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_no_bank_conflicts(dtype: str) -> None:
    """In any layout of operands that are copied; of halves in every plan, of floats in the best."""
    cases = [
        (one, plan)
        for one in (matmul((), 64, 64, 64, lhs_t=a, rhs_t=b, dtype=dtype) for a in _FLAGS for b in _FLAGS)
        for plan in ([p for p, _ in plans_of(one)][::3] if dtype == "bf16" else [plans_of(one)[0][0]])
    ]
    emulated = Emulated(cases)
    for i, (one, plan) in enumerate(cases):
        counters = emulated.run(i, values_of(one))[0].counters
        assert counters.matrix_bank_conflicts == counters.copy_bank_conflicts == 0, plan
        assert dtype == "fp32" or counters.shared_bank_conflicts == 0, plan


# --- plans ----------------------------------------------------------------------------------------


def test_tensor_cores_are_for_halves_in_any_order() -> None:
    def algorithm(one: Region, exactness: Exactness = Exactness.ROUNDING) -> set[str]:
        return {plan.tile.algorithm for plan, _ in plans_of(one, exactness=exactness)}

    assert algorithm(matmul((), 40, 40, 40, dtype="bf16")) == algorithm(widened(40, 40, 40)) == {"mma"}
    assert algorithm(matmul((), 40, 40, 40)) == algorithm(matmul((), 40, 40, 40, dtype="i8")) == {"fma"}
    assert algorithm(matmul((), 40, 40, 40, dtype="bf16"), Exactness.EXACT) == {"fma"}


def test_ordered_sums_take_their_terms_in_order() -> None:
    one = matmul((), 20, 30, 40, dtype="bf16")
    emulated = Emulated([(one, plans_of(one, exactness=Exactness.EXACT)[0][0])])
    inputs = values_of(one)
    a, b = (inputs[name].astype(np.float32) for name in ("A", "B"))
    total = np.zeros((20, 30), np.float32)
    for k in range(40):
        total = (a[:, k, None].astype(np.float64) * b[None, k] + total).astype(np.float32)
    _, outputs = emulated.run(0, inputs)
    np.testing.assert_array_equal(outputs["Y"], total.astype(outputs["Y"].dtype))


def test_plans_are_of_their_machine() -> None:
    one = matmul((), 512, 512, 512, dtype="bf16")
    for target, notes in (
        (A100, ()),
        (H100, ("sm_90 takes the sm_80 path: cp.async and mma.sync, no TMA and no wgmma",)),
    ):
        plans = plans_of(one, target)
        assert 10 <= len(plans) <= 20
        assert all(plan.arch == target.arch and plan.notes == notes for plan, _ in plans)
        assert {plan.tile.stages for plan, _ in plans} >= {3, 4}
        plan, work = plans[0]
        kernel = lowered(one, plan)
        assert (kernel.shared_bytes, kernel.threads) == (work.scratch, work.block_threads)
        assert kernel.arch == "sm80"


def test_notes_say_what_gave_way() -> None:
    def notes(one: Region) -> set[str]:
        return {note for plan, _ in plans_of(one) for note in plan.notes}

    assert "stages 4 → 3: shared memory" in notes(matmul((), 8192, 8192, 8192, dtype="bf16"))
    assert "warp_tile 64x64 → 32x64: registers" in notes(matmul((), 1001, 1001, 1001, dtype="bf16"))
    odd = plans_of(matmul((), 65, 66, 33, dtype="bf16"))[0][0]
    assert odd.notes == ("A: by element, as it is no aligned run of memory", "B: vectors of 4 bytes")


def test_many_products_and_rows_find_a_place_in_the_grid() -> None:
    for one in (matmul((70_000,), 1, 2, 3), matmul((), 70_000 * 128, 1, 2)):
        plan = plans_of(one)[0][0]
        kernel = lowered(one, plan)
        assert max(kernel.grid[1:]) <= 65535


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"tile.bm": 96, "tile.bn": 100}, Kind.ALIGNMENT_MISMATCH),
        ({"tile.bk": 24}, Kind.ALIGNMENT_MISMATCH),
        ({"tile.bm": 0}, Kind.MALFORMED_GRAPH),
        ({"tile.warp_n": 8}, Kind.ALIGNMENT_MISMATCH),
        ({"tile.warp_m": 0}, Kind.MALFORMED_GRAPH),
        ({"arch": "avx2"}, Kind.UNKNOWN_TARGET),
        ({"tile.stages": 1}, Kind.MALFORMED_GRAPH),
        ({"pattern": "conv"}, Kind.MALFORMED_GRAPH),
        ({"operands": ("A", "C")}, Kind.MALFORMED_GRAPH),
        ({"result": "A"}, Kind.MALFORMED_GRAPH),
        ({"tile.rhs.width": 1}, Kind.ALIGNMENT_MISMATCH),
        ({"tile.store_width": 1}, Kind.ALIGNMENT_MISMATCH),
        ({"epilogue": ("relu",)}, Kind.MALFORMED_GRAPH),
        ({"tails": ()}, Kind.ALIGNMENT_MISMATCH),
        ({"tile.raster": 101}, Kind.ALIGNMENT_MISMATCH),
    ],
    ids=str,
)
def test_plans_that_do_not_fit_are_refused(change: dict[str, object], kind: Kind) -> None:
    one = matmul((), 100, 100, 100, dtype="bf16")
    plan = with_fields(plans_of(one)[0][0], **change)
    with pytest.raises(EqsatError) as raised:
        lowered(one, plan)
    assert raised.value.diagnostics[0].kind is kind


def test_an_axis_without_a_tail_has_no_predicate() -> None:
    one = matmul((), 128, 128, 128, dtype="bf16")
    plan = plans_of(one)[0][0]
    assert plan.tails == ()
    conditions = [stmt.where for stmt in walk(lowered(one, plan).body) if isinstance(stmt, CpAsync | StGlobalVec)]
    assert conditions
    assert not any(conditions)


def _assert_tiles(ones: Sequence[Region]) -> None:
    for one in ones:
        view = contraction_of(one, checked_core(one))
        assert view is not None
        for plan, work in plans_of(one):
            check_contraction_plan(view, plan)
            assert plan.tile.threads == work.block_threads
            assert 0 < work.efficiency <= 1
            assert 0 < work.occupancy <= 1


def test_plans_and_tiles_say_the_same() -> None:
    _assert_tiles([*MATMULS, *CONVS[:3], *CONVS[-3:], *FUSED])


@pytest.mark.parametrize(
    "one",
    [matmul((), 100, 104, 296, dtype="bf16"), matmul((), 65, 67, 133, dtype="fp16"), matmul((), 40, 44, 130)],
    ids=lambda one: one.inputs[0].memref.dtype,
)
def test_no_synchronisation_is_spare(one: Region) -> None:
    """Without any one of them the kernel is refused, or the emulator finds what it was for."""
    kernel = lowered(one, plans_of(one)[0][0])
    inputs = [*values_of(one).values(), np.zeros(kernel.params[-1].shape, DTYPES[kernel.params[-1].dtype].numpy)]
    for kind in (Barrier, WaitGroup, CommitGroup):
        for number in range(sum(isinstance(stmt, kind) for stmt in walk(kernel.body))):
            broken = without(kernel, kind, number)
            with contextlib.suppress(EqsatError):
                verify(broken)
                run = compile_kernels(cuda_text(broken))["eq_k"]
                assert run.launch(kernel.grid, inputs, shared_bytes=kernel.shared_bytes).findings, (kind, number)


def test_plans_of_an_h100_may_take_its_shared_memory() -> None:
    one = regions.gemm_bias_relu(4096, 4096, 4096, "bf16")
    large = [plan for plan, work in plans_of(one, H100) if work.scratch > LIMITS["sm80"].shared_bytes]
    assert large
    for plan in large:
        assert lowered(one, plan).arch == "sm90"
