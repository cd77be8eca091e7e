"""Nests on GPUs: every kernel without a contraction, by its candidate plans, in the emulator against playback; what
NVRTC makes of them; and what a plan that contradicts its region is refused with."""

from __future__ import annotations

from functools import cache

import msgspec
import numpy as np
import pytest

from codegen.compile import nvrtc
from codegen.compile.nvrtc_log import resources
from codegen.plan.fit_plan import fit_plan
from codegen.plan.gpu.nest_candidates import MOST, nest_candidates
from codegen.plan.gpu.nest_tiling import GpuNestPlan, points_of, tiles_of
from codegen.plan.region_loops import RegionLoops
from codegen.poly.analyse import analyse
from codegen.simt import Order, compile_kernels
from codegen.simt.compile import Kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.pricing import PlanPricer
from eqsat.cost.targets import A100, GPUS
from ir.diagnostics import EqsatError, Kind
from ir.kernel.gpu.nodes import Barrier, LdGlobalVec, StGlobalVec
from ir.kernel.nodes import walk
from ir.plan.gpu_nest import GpuPointsPlan, GpuRowsPlan, GpuTilesPlan
from ir.plan.plan import Plan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.pricer import Price
from ir.region.region import Definition, Number, Op, Region, Yield
from tests.codegen.lower.cpu.test_lower_nest import CLOSE, EXACT, STRUCTURES, moments, reshaped, softmax
from tests.codegen.simt.deletions import deletions
from tests.support.cpu.changed_plan import sizes, with_fields
from tests.support.cpu.played import numbered, random_inputs
from tests.support.gpu.emulated import launched
from tests.support.gpu.instruction_counts import ptx_counts
from tests.support.gpu.nest_kernels import GpuCase, check, compiled, gpu_cases
from tests.support.gpu.nvrtc import ARCHES, needs_nvrtc
from tests.support.programs import regions as r
from tests.support.sampling import every, first_few
from tests.support.stages.plan_class import plan_of

SMALL = 60_000
"""Elements of a buffer that the emulator goes through in a moment."""


def layer_norm(m: int, n: int, kind: str = "fp32") -> Region:
    """Y = (X − mean) · rsqrt(mean of squares of it + 1e-5) · G[j] + B[j]; statistics in fp32."""
    over, row = (m, n), (m,)
    scale = Number(1 / max(n, 1), "fp32")
    body = [
        r.ewise("W", "cast", over, r.same("X", over)),
        r.reduction("S", "sum", over, 1, r.same("W", over)),
        r.ewise("M", "mul", row, r.same("S", row), scale),
        r.ewise("D", "sub", over, r.same("W", over), r.read("M", over, "i0")),
        r.ewise("P", "mul", over, r.same("D", over), r.same("D", over)),
        r.reduction("Q", "sum", over, 1, r.same("P", over)),
        r.ewise("V", "mul", row, r.same("Q", row), scale),
        r.ewise("E", "add", row, r.same("V", row), Number(1e-5, "fp32")),
        r.ewise("R", "rsqrt", row, r.same("E", row)),
        r.ewise("N", "mul", over, r.same("D", over), r.read("R", over, "i0")),
        r.ewise("G", "mul", over, r.same("N", over), r.read("gain", over, "i1")),
        r.ewise("A", "add", over, r.same("G", over), r.read("shift", over, "i1")),
        r.ewise("Z", "cast", over, r.same("A", over), dtype=kind),
    ]
    if kind == "fp32":
        body = [r.ewise("W", "copy", over, r.same("X", over)), *body[1:-1]]
    inputs = [r.buffer("X", over, kind), r.buffer("gain", (n,)), r.buffer("shift", (n,))]
    return r.region("layer_norm", inputs, body, over, dtype=kind)


def normed_with_statistics(m: int, n: int) -> Region:
    """Y = X − max over j, and the row's maximum itself: an output with fewer axes than the first."""
    one = r.centre_rows(m, n)
    if 0 in (m, n):
        return one
    second = Yield("R", "S", r.index_map((m,), "i0"), r.index_map((m, n), "i0"))
    return Region(one.name, one.inputs, (*one.outputs, r.buffer("S", (m,))), one.body, (*one.yields, second))


def permuted(shape: tuple[int, ...], order: tuple[int, ...], kind: str = "fp32") -> Region:
    """Y = relu(transpose(X)) + bias along the last axis."""
    out = tuple(shape[axis] for axis in order)
    coords = [f"i{order.index(axis)}" for axis in range(len(shape))]
    body = [
        r.ewise("R", "relu", out, r.read("X", out, *coords), dtype=kind),
        r.ewise("A", "add", out, r.same("R", out), r.read("bias", out, f"i{len(out) - 1}"), dtype=kind),
    ]
    return r.region("permuted", [r.buffer("X", shape, kind), r.buffer("bias", out[-1:], kind)], body, out, dtype=kind)


def channel_norm(n: int, c: int, size: int) -> Region:
    """Y = X − mean over images and pixels of each channel (NCHW)."""
    out, over = (n, c, size, size), (c, n, size, size)
    body = [
        r.reduction("S", "sum", over, 3, r.read("X", over, "i1", "i0", "i2", "i3")),
        r.ewise("M", "mul", (c,), r.same("S", (c,)), Number(1 / (n * size * size), "fp32")),
        r.ewise("D", "sub", out, r.same("X", out), r.read("M", out, "i1")),
    ]
    return r.region("channel_norm", [r.buffer("X", out)], body, out)


def running_share(m: int, n: int) -> Region:
    """Y = cumsum(|X|) / sum(|X|), row by row: a scan and a reduction."""
    over = (m, n)
    body = [
        r.ewise("A", "abs", over, r.same("X", over)),
        r.reduction("R", "sum", over, 1, r.same("A", over)),
        Definition("S", Op("scan", "sum", "fp32", over, (r.same("A", over),), axis=1)),
        r.ewise("Q", "fdiv", over, r.same("S", over), r.read("R", over, "i0")),
    ]
    return r.region("running_share", [r.buffer("X", over)], body, over)


OWN = [
    *(softmax(5, 100), softmax(3, 7, "fp16"), softmax(9, 304, "bf16"), softmax(1, 1), softmax(3, 2050)),
    *(layer_norm(5, 96), layer_norm(4, 33, "fp16"), layer_norm(2, 1024, "bf16"), layer_norm(3, 1)),
    *(normed_with_statistics(5, 40), normed_with_statistics(3, 7), normed_with_statistics(1, 300)),
    *(permuted((33, 47), (1, 0)), permuted((3, 65, 40), (0, 2, 1), "fp16"), permuted((5, 6, 7), (2, 1, 0), "i8")),
    *(permuted((40, 3, 50), (2, 1, 0), "fp64"), permuted((1, 70, 1, 36), (0, 3, 2, 1), "bf16")),
    *(channel_norm(3, 4, 5), channel_norm(2, 3, 8), running_share(4, 70), running_share(3, 1300)),
    *(r.pointwise((1031,)), r.pointwise((3, 67)), r.pointwise((7, 130), "fp16"), r.pointwise((2, 3, 5), "bf16")),
]
LONG = [softmax(2, 17000, "fp16"), layer_norm(1, 20000), softmax(2, 9001, "fp64"), normed_with_statistics(1, 25000)]
STRUCTURED = [region for region in STRUCTURES if all(np.prod(one.memref.shape) < SMALL for one in region.buffers)]


@cache
def built(step: int) -> tuple[Kernels, list[GpuCase], list[GpuCase]]:
    """The kernels held to a norm, then those whose bits are playback's; every `step`-th plan of structures, and a third
    as many of functions on dtypes, which ask nothing of a plan but its vectors."""
    close = [*gpu_cases([*STRUCTURED, *OWN], step=step), *gpu_cases(CLOSE, step=3 * step)]
    named = numbered([*close, *gpu_cases(EXACT, step=3 * step)])
    return compiled(named), named[: len(close)], named[len(close) :]


def check_all(step: int, orders: tuple[Order, ...], *, nan: bool) -> None:
    kernels, close, exact = built(step)
    for group, bits in ((close, False), (exact, True)):
        for number, case in enumerate(group):
            check(kernels, case, random_inputs(case.region, number, nan=nan), exact=bits, orders=orders)


@pytest.mark.slow
@pytest.mark.parametrize("nan", [False, True])
def test_kernels_are_playback(nan: bool) -> None:
    check_all(19, (Order.RANDOM,), nan=nan)


@every(53)
def test_many_kernels_are_playback_in_every_order(step: int) -> None:
    check_all(step, tuple(Order), nan=False)
    check_all(step, (Order.RANDOM,), nan=True)


def test_every_region_has_few_candidates_of_its_kinds() -> None:
    def kinds(region: Region) -> set[str]:
        plans = nest_candidates(region, analyse(region).core, A100)
        assert 1 <= len(plans) <= MOST
        return {nest_of(plan) for plan, _ in plans}

    assert kinds(r.pointwise((64, 1000))) == {"points"}
    assert kinds(softmax(64, 1000)) >= {"rows"}
    assert kinds(r.transpose(512, 512)) == {"points", "tile"}
    assert kinds(r.cumsum(64, 1000)) == {"rows"}
    assert not nest_candidates(*(lambda one: (one, analyse(one).core, A100))(r.matmul()))


@pytest.mark.parametrize("target", [GPUS["a100"], GPUS["h100"]], ids=lambda target: target.name)
def test_prices_prefer_what_reads_in_order(target: object) -> None:
    """Row kernels keep rows on chip, copies cross through a tile, columns are read along rows."""

    def best(region: Region) -> Price:
        price = PlanPricer(target, analyse, nest_candidates).price(region)  # type: ignore[arg-type]
        assert isinstance(price, Price)
        return price

    chosen = best(softmax(8192, 4096, "fp16"))
    rows = plan_of(chosen.plan, GpuRowsPlan).rows
    assert (rows.near, rows.keep, rows.width) == (True, "reg", 8)
    assert isinstance(best(permuted((4096, 4096), (1, 0))).plan, GpuTilesPlan)
    assert not plan_of(best(r.column_reduce(65536, 1024)).plan, GpuRowsPlan).rows.near
    wide = best(r.pointwise((4096, 4096))).plan
    assert isinstance(wide, GpuPointsPlan)
    assert wide.points.width == 4


# --- what the kernels are made of ---


def nest_of(plan: Plan) -> str:
    """ "points", "rows" or "tile"."""
    return plan_to_schedule(plan).algo_choice["nest"]


def best_case(region: Region, nest: str, **choice: str) -> GpuCase:
    """The best candidate of a kind."""
    for case in gpu_cases([region]):
        if plan_to_schedule(case.plan).algo_choice.items() >= {"nest": nest, **choice}.items():
            return case
    raise AssertionError(f"{region.name} has no plan {nest} {choice}")


def test_rows_are_loaded_once() -> None:
    kernel = best_case(softmax(64, 4096, "fp16"), "rows", keep="reg").kernel
    loads = [stmt for stmt in walk(kernel.body) if isinstance(stmt, LdGlobalVec)]
    stores = [stmt for stmt in walk(kernel.body) if isinstance(stmt, StGlobalVec)]
    assert [load.count for load in loads] == [8]
    assert [store.count for store in stores] == [8]
    normed = best_case(layer_norm(64, 1024), "rows", keep="reg").kernel
    loaded = [stmt.buffer for stmt in walk(normed.body) if isinstance(stmt, LdGlobalVec)]
    assert sorted(loaded) == ["X", "gain", "shift"]
    assert sum(isinstance(stmt, Barrier) for stmt in walk(normed.body)) <= 2


def test_odd_arrays_are_still_vectors() -> None:
    """1031 elements: 257 vectors of four and a rest of three; rows of 67 run on into each other."""
    for region in (r.pointwise((1031,)), r.pointwise((3, 67))):
        kernels = [case.kernel for case in gpu_cases([region])]
        assert any(isinstance(stmt, StGlobalVec) and stmt.count == 4 for one in kernels for stmt in walk(one.body))


def test_gathered_rows_are_vectors() -> None:
    """Rows of 64 are aligned, rows of 6 hold vectors of two, rows of 5 none; tables and lists of one row or none."""
    cases = gpu_cases([r.gather(*sizes) for sizes in ((10, 64, 9), (10, 6, 9), (10, 5, 9), (1, 64, 1), (10, 64, 0))])
    kernels, widest = compiled(cases), dict[tuple[int, ...], int]()
    for case in cases:
        inputs = random_inputs(case.region)
        inputs["index"][...] = np.resize([3, -1, 0, 10**12, -(10**12), 9], inputs["index"].shape)
        check(kernels, case, inputs, exact=True, orders=tuple(Order))
        loads = (stmt for stmt in walk(case.kernel.body) if isinstance(stmt, LdGlobalVec) and stmt.buffer == "T")
        shape = case.region.outputs[0].memref.shape
        widest[shape] = max(widest.get(shape, 1), *(load.count for load in loads), 1)
    assert (widest[9, 64], widest[9, 6], widest[9, 5]) == (4, 2, 1)


@pytest.mark.parametrize("kind", ["fp32", "fp16", "fp64", "i8"])
def test_tiles_meet_no_bank_conflicts_and_whole_sectors(kind: str) -> None:
    region = permuted((64, 128), (1, 0), kind)
    case = best_case(region, "tile")
    report = check(compiled([case]), case, random_inputs(region))
    sectors = region.inputs[0].memref.nbytes // 32
    if kind in ("fp32", "fp16"):
        assert report.counters.shared_bank_conflicts == 0
    assert report.counters.global_store_sectors == sectors
    assert report.counters.global_load_sectors <= 2 * sectors  # the bias again for each row


def test_near_rows_touch_each_sector_once() -> None:
    region = softmax(8, 512)
    case = best_case(region, "rows", keep="reg")
    report = check(compiled([case]), case, random_inputs(region))
    assert report.counters.global_load_sectors == report.counters.global_store_sectors == 8 * 512 * 4 // 32


@pytest.mark.slow
@needs_nvrtc
@first_few(1, "arch", ARCHES)
def test_the_compiler_spills_nothing(arch: str) -> None:
    big = [
        *(softmax(4096, 4096, "fp16"), softmax(512, 8192), softmax(64, 50257), layer_norm(8192, 1024, "bf16")),
        *(r.pointwise((4096, 4096), "fp16"), permuted((512, 512), (1, 0)), r.column_reduce(65536, 1024)),
        *(r.maxpool(8, 64, (112, 112)), r.cumsum(64, 5000), channel_norm(32, 64, 56), moments(100, 900)),
    ]
    tried = gpu_cases(big, step=5)
    module = nvrtc.assemble("\n".join(cuda_text(case.kernel) for case in tried), arch)
    results = {resource.name: resource for resource in resources(module.log)}
    for case in tried:
        report = results[case.kernel.name]
        assert not report.spills, str(case)
        assert not report.lints, str(case)
        assert report.registers * case.kernel.threads <= 65536


@needs_nvrtc
@pytest.mark.parametrize(
    ("region", "nest", "wide_loads", "wide_stores"),
    [
        (r.pointwise((512, 1024)), "points", 2, 1),
        (softmax(64, 4096, "fp16"), "rows", 4, 4),
        (r.pointwise((512, 1024), "fp16"), "points", 2, 1),
    ],
    ids=["fp32", "softmax", "fp16"],
)
def test_sixteen_bytes_at_once_in_ptx(region: Region, nest: str, wide_loads: int, wide_stores: int) -> None:
    case = next(
        case
        for case in gpu_cases([region])
        if nest_of(case.plan) == nest and (nest == "rows" or sizes(case.plan)[1] == 1)
    )
    module = nvrtc.assemble(cuda_text(case.kernel), "sm_80")
    assert ptx_counts(module.ptx)["st_global_16"] == wide_stores
    assert module.ptx.count("ld.global.v4") + module.ptx.count("ld.global.nc.v4") == wide_loads


@pytest.mark.slow
def test_long_rows_are_loaded_once_into_shared_memory() -> None:
    tried = [case for case in gpu_cases(LONG) if isinstance(case.plan, GpuRowsPlan) and case.plan.rows.in_shared]
    kernels = compiled(tried)
    assert len(tried) >= len(LONG)
    for number, case in enumerate(tried):
        report = check(kernels, case, random_inputs(case.region, number, nan=number % 2 == 1))
        assert report.counters.shared_bank_conflicts == 0 or case.plan.vectors is None
        loads = [stmt for stmt in walk(case.kernel.body) if isinstance(stmt, LdGlobalVec) and stmt.buffer == "X"]
        assert len(loads) <= 2


# --- the emulator misses no barrier ---


@pytest.mark.slow
def test_a_barrier_that_is_not_there_is_found() -> None:
    regions = [
        softmax(3, 300),
        r.cumsum(2, 700),
        running_share(2, 300),
        r.column_reduce(70, 40),
        permuted((40, 50), (1, 0)),
    ]
    tried = [case for region in regions for case in gpu_cases([region]) if case.kernel.shared]
    texts, names = [], []
    for number, case in enumerate(tried):
        kernel = msgspec.structs.replace(case.kernel, name=f"eq_k{number}")
        for name, text in deletions(cuda_text(kernel), kernel.name):
            texts.append(text)
            names.append((name, case))
    kernels = compile_kernels("\n".join(texts))
    assert len(names) > 30
    for name, case in names:
        report, _ = launched(kernels, case.region, case.named(name).kernel, random_inputs(case.region))
        assert report.findings, f"{name} of {case}"


# --- index order, refusals ---


@pytest.mark.slow
def test_sums_in_index_order_are_one_threads() -> None:
    regions = [r.row_reduce(5, 70), r.column_reduce(40, 30), softmax(3, 50), r.cumsum(4, 90)]
    tried = gpu_cases(regions, ordered=True)
    kernels = compiled(tried)
    for case in tried:
        inputs = {name: np.round(array * 64) / 64 for name, array in random_inputs(case.region).items()}
        check(kernels, case, inputs)
        if isinstance(case.plan, GpuRowsPlan):
            assert case.plan.rows.team == 1


@pytest.mark.parametrize(
    ("region", "fields", "kind"),
    [
        (r.pointwise((4, 33)), {"arch": "avx2"}, Kind.UNKNOWN_TARGET),
        (r.pointwise((4, 33)), {"points.threads": 48}, Kind.MALFORMED_GRAPH),
        (r.pointwise((4, 33)), {"points.threads": 2048}, Kind.MALFORMED_GRAPH),
        (r.pointwise((4, 33)), {"points.turns": 0}, Kind.MALFORMED_GRAPH),
        (r.pointwise((4, 33)), {"points.axes": ((0,),), "points.extents": (4,)}, Kind.MALFORMED_GRAPH),
        (r.pointwise((4, 33)), {"points.extents": (4 * 32,)}, Kind.MALFORMED_GRAPH),
        (
            r.pointwise((4, 33)),
            {"points.axes": ((0,), (1,)), "points.extents": (4, 33), "points.width": 4},
            Kind.ALIGNMENT_MISMATCH,
        ),
        (r.cumsum(4, 33), {"rows.width": 3}, Kind.UNSUPPORTED_OP),
        (r.cumsum(4, 33), {"rows.length": 34}, Kind.MALFORMED_GRAPH),
        (softmax(4, 33), {"rows.height": 3, "rows.team": 24}, Kind.MALFORMED_GRAPH),
        (permuted((40, 50), (1, 0)), {"tiles.across": 33}, Kind.MALFORMED_GRAPH),
    ],
)
def test_a_plan_that_contradicts_its_region_is_refused(region: Region, fields: dict[str, object], kind: Kind) -> None:
    core = analyse(region).core
    named = {name.partition(".")[0] for name in fields}
    plans = (plan for plan, _ in nest_candidates(region, core, A100))
    plan = next(plan for plan in plans if named <= set(plan.__struct_fields__))
    with pytest.raises(EqsatError) as caught:
        fit_plan(region, core, with_fields(plan, **fields))
    assert caught.value.diagnostics[0].kind is kind


@pytest.mark.parametrize("kind", ["points", "tiles"])
def test_points_and_tiles_carry_no_scan(kind: str) -> None:
    region = r.cumsum(4, 33)
    core = analyse(region).core
    loops = RegionLoops(region, core)
    plans: dict[str, GpuNestPlan] = {
        "points": GpuPointsPlan(arch="sm80", points=points_of(loops, [(0,), (1,)], (32, 1), 1)),
        "tiles": GpuTilesPlan(arch="sm80", tiles=tiles_of(loops, [(0,), (1,)], (32, 32))),
    }
    with pytest.raises(EqsatError) as caught:
        fit_plan(region, core, plans[kind])
    assert caught.value.diagnostics[0].kind is Kind.UNSUPPORTED_OP


def test_a_reshape_that_no_stride_describes() -> None:
    region = reshaped(40, 30)
    tried = gpu_cases([region])
    kernels = compiled(tried)
    for case in tried:
        check(kernels, case, random_inputs(region), orders=tuple(Order))


@pytest.mark.slow
def test_a_long_chain_of_reductions_is_one_kernel() -> None:
    """Eight of them, in rows of a thread, of a warp and of a block."""
    regions = [r.softmaxes(*sizes, times=4) for sizes in [(5, 3), (3, 40), (2, 700)]]
    tried = gpu_cases(regions, step=3)
    assert {case.region for case in tried} == set(regions)
    kernels = compiled(tried)
    for case in tried:
        check(kernels, case, random_inputs(case.region, nan=True))


def test_weights_of_a_norm_stay_near() -> None:
    """Every row reads them: those that fill a little of an SM's cache are not paid for as if they came from afar."""

    def again(columns: int) -> float:
        one = layer_norm(4096, columns, "bf16")
        plans = nest_candidates(one, analyse(one).core, GPUS["h100"])
        return min(work.reread for _, work in plans) / columns

    assert again(4096) < again(65536) / 4
