"""Contraction kernels against region playback: shapes, layouts, dtypes, plans, instruction sets."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from codegen.compile.library import pool_source, vector_prelude
from codegen.compile.machine import machine, restrict
from codegen.compile.toolchain import compile_flags, find_compiler
from codegen.lower.cpu.lower_contraction import lower_contraction
from codegen.plan.contraction_view import contraction_of
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from codegen.text.cpu_to_c import SUPPORT, c_text
from ir.diagnostics import EqsatError, Kind
from ir.dtype import DTYPES
from ir.kernel.cpu.verify import verify
from ir.plan.cpu import CpuContractionPlan
from ir.region.playback import play_region
from ir.region.region import Definition, Op, Region
from tests.support.cpu.contraction_runs import Built, plans_of, target_of
from tests.support.cpu.played import Array
from tests.support.programs import regions
from tests.support.sampling import first_few

_TOLERANCE = {"fp16": 1e-3, "bf16": 1e-2, "fp32": 1e-5, "fp64": 1e-12}

MATMULS = [
    regions.matmul((), 1, 1, 1),
    regions.matmul((), 37, 129, 65),
    regions.matmul((2,), 5, 6, 7),
    regions.matmul((2, 3), 17, 18, 19, lhs_t=True),
    regions.matmul((2, 3), 17, 18, 19, rhs_t=True),
    regions.matmul((2,), 33, 34, 35, out_t=True),
    regions.matmul((), 33, 34, 35, lhs_t=True, rhs_t=True, out_t=True),
    regions.matmul((3,), 20, 40, 60, share_rhs=True),
    regions.matmul((), 9, 70, 2100),
    regions.matmul((), 1, 300, 1200),
]
SKINNY = [
    regions.matmul((), 1, 100, 200),
    regions.matmul((), 1, 100, 203, rhs_t=True),
    regions.matmul((), 100, 1, 200),
    regions.matmul((), 3, 50, 2500, rhs_t=True),
    regions.matmul((), 5, 50, 300, rhs_t=True),
    regions.matvec(40, 50),
    regions.matvec(1000, 37),
]
EMPTY = [
    regions.matmul((), 30, 50, 0),
    regions.matmul((), 0, 50, 3),
    regions.matmul((2,), 3, 0, 3),
    regions.matmul((0,), 3, 4, 3),
    regions.gemm_bias_relu(4, 6, 0),
]
CONVS = [
    regions.conv(1, 3, 4),
    regions.conv(1, 20, 24, (14, 14), 3, 1, 1, epilogue=True),
    regions.conv(2, 8, 24, (9, 11), 3, 2, 1),
    regions.conv(2, 8, 24, (9, 11), 3, 1, 2, 2),
    regions.conv(2, 8, 24, (9, 11), 3, 1, 2, 2, groups=2),
    regions.conv(1, 6, 6, (8, 8), 3, 1, 1, groups=6),
    regions.conv(1, 3, 16, (20, 20), 7, 2, 3, epilogue=True),
    regions.conv(2, 16, 33, (10, 10), 1, 1, 0),
    regions.conv(1, 16, 33, (10, 10), 1, 2, 0),
    regions.conv(1, 200, 20, (7, 7), 3, 1, 1),
]
FUSED = [
    regions.gemm_bias_relu(100, 70, 50),
    regions.gemm_bias_relu(20, 30, 1040),
    regions.gemm_bias_relu(1, 1, 1),
    regions.attention_scores(2, 3, 40, 50, 60),
    regions.prologue_gemm(30, 40, 50),
    regions.prologue_gemm(3, 40, 50),
]
TYPES = [
    *(regions.matmul((), 20, 30, 40, dtype=dtype) for dtype in ("fp64", "i32", "u32", "i64", "u64", "i8", "u8", "u16")),
    regions.matmul((), 1, 30, 40, dtype="fp64", rhs_t=True),
    regions.gemm_bias_relu(20, 30, 40, "fp16"),
    regions.gemm_bias_relu(20, 30, 40, "bf16"),
]
MOVED = list(regions.moved_products().values())
GROUPS = {
    "matmul": MATMULS,
    "skinny": SKINNY,
    "empty": EMPTY,
    "conv": CONVS,
    "moved": MOVED,
    "fused": FUSED,
    "types": TYPES,
}


def values_of(region: Region, seed: int = 0) -> dict[str, Array]:
    """Random inputs; integers span their dtype, so that sums wrap."""
    rng = np.random.default_rng(seed)
    results = {}
    for buffer in region.inputs:
        kind, shape = DTYPES[buffer.memref.dtype], buffer.memref.shape
        if kind.is_float:
            results[buffer.name] = rng.standard_normal(shape).astype(kind.numpy)
        elif kind.is_bool:
            results[buffer.name] = rng.random(shape) < 0.5
        else:
            limits = np.iinfo(kind.numpy)
            results[buffer.name] = rng.integers(limits.min, limits.max, shape, kind.numpy, endpoint=True)
    return results


def assert_plays(built: Built, i: int, inputs: dict[str, Array]) -> None:
    """The i-th kernel's outputs are those of playback: within the dtype's tolerance of the norm, integers exactly."""
    region = built.regions[i]
    actual = built.call(i, inputs)
    for output in region.outputs:
        kind = DTYPES[output.memref.dtype]
        wanted = play_region(region, inputs, wide=kind.is_float)[output.name]
        if not kind.is_float:
            np.testing.assert_array_equal(actual[output.name], wanted)
        elif wanted.size:
            error = np.abs(actual[output.name].astype(np.float64) - wanted).max()
            assert error <= _TOLERANCE[kind.name] * np.abs(wanted).max()


def various(region: Region, units: int = 2, lanes: str | None = None) -> list[CpuContractionPlan]:
    """The best plan, and one of each kind that differs from it."""
    target = target_of(restrict(machine(), lanes) if lanes else None, units)
    kinds: dict[tuple[object, ...], CpuContractionPlan] = {}
    plans = [plan for plan, _ in plans_of(region, target)]
    assert plans, f"no plan for {region.name}"
    for plan in plans:
        kinds.setdefault((plan.blocks.algorithm, plan.vector, plan.blocks.mr > 9, plan.blocks.nr > 9), plan)
    return list(kinds.values())


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_kernels_play_as_the_region(group: str) -> None:
    cases = [(region, plan) for region in GROUPS[group] for plan in various(region)]
    built = Built(cases)
    for kernel in built.kernels():
        verify(kernel)
    for i, (region, _) in enumerate(cases):
        assert_plays(built, i, values_of(region))


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["avx2", "sse2"])
def test_lesser_instruction_sets(isa: str) -> None:
    try:
        lesser = restrict(machine(), isa)
    except EqsatError:
        pytest.skip(f"this machine has no {isa}")
    chosen = [MATMULS[1], MATMULS[4], SKINNY[1], CONVS[1], CONVS[6], *MOVED, FUSED[3], TYPES[0], TYPES[6]]
    cases = [(region, various(region, lanes=isa)[0]) for region in chosen]
    built = Built(cases, lesser)
    for i, (region, _) in enumerate(cases):
        assert_plays(built, i, values_of(region))


def sum_of_squares(rows: int, *reduced: int) -> Region:
    """y[i] = the sum of x[…, i, …]², with the rows before the last reduced axis."""
    *outer, last = reduced
    domain = (rows, *outer, last)
    axes = [*(f"i{axis + 1}" for axis in range(len(outer))), "i0", f"i{len(reduced)}"]
    x = regions.read("X", domain, *axes)
    square = regions.contraction("S", domain, len(reduced), x, x)
    return regions.region("squares", [regions.buffer("X", (*outer, rows, last))], [square], (rows,))


@pytest.mark.slow
def test_the_error_of_a_long_sum_does_not_grow_with_its_length() -> None:
    """A chain of so many additions has a relative error of 2e-6 to 1e-5 here."""
    long = [
        regions.matmul((), 20, 40, 50021),
        regions.matmul((), 2, 3, 100003, rhs_t=True),
        sum_of_squares(3, 200003),
        sum_of_squares(3, 100, 1001),
    ]
    cases = [(region, plan) for region in long for plan in various(region) if plan.blocks.bk >= 64]
    assert {plan.blocks.algorithm for _, plan in cases} == {"dot", "outer"}
    built, rng = Built(cases), np.random.default_rng(0)
    for i, (region, _) in enumerate(cases):
        inputs = {buffer.name: rng.random(buffer.memref.shape, dtype=np.float32) for buffer in region.inputs}
        (wanted,), (actual,) = (
            [values[output.name] for output in region.outputs]
            for values in (play_region(region, inputs, wide=True), built.call(i, inputs))
        )
        assert np.abs(actual / wanted - 1).max() < 6e-7, f"{region.name}: {cases[i][1].blocks}"


def test_result_does_not_depend_on_threads() -> None:
    region = regions.conv(1, 32, 48, (28, 28), 3, 1, 1, epilogue=True)
    plan = plans_of(region, target_of(units=4))[0][0]
    assert plan.parallel
    inputs = values_of(region)
    one, many = (Built([(region, plan)], threads=threads).call(0, inputs)["Y"] for threads in (1, 3))
    np.testing.assert_array_equal(one, many)


def test_infinities_and_nans_travel_as_in_playback() -> None:
    region = regions.conv(1, 3, 5, (6, 6), 3, 1, 1)
    inputs = values_of(region)
    inputs["X"][0, 1, 0, 0], inputs["X"][0, 2, 3, 3] = np.nan, np.inf
    inputs["W"][2, 0, 0, 0] = np.inf  # meets padding: 0·inf is NaN at the border
    actual = Built([(region, plans_of(region)[0][0])]).call(0, inputs)["Y"]
    with np.errstate(invalid="ignore"):
        wanted = play_region(region, inputs, wide=True)["Y"]
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(wanted))
    np.testing.assert_array_equal(np.isposinf(actual), np.isposinf(wanted))
    assert np.isnan(actual[0, 2]).any()


def test_a_tail_that_is_not_predicated_is_refused() -> None:
    region = regions.gemm_bias_relu(100, 70, 50)
    plan = msgspec.structs.replace(plans_of(region)[0][0], tails=())
    with pytest.raises(EqsatError) as caught:
        fit_plan(region, analyse(region).core, plan)
    assert caught.value.kind is Kind.ALIGNMENT_MISMATCH
    exact = regions.gemm_bias_relu(104, 64, 64)
    plan = next(plan for plan, _ in plans_of(exact) if not plan.tails)
    built = Built([(exact, plan)])
    assert_plays(built, 0, values_of(exact))
    assert "_n_f32" not in c_text(built.lowered[0].kernel)


def test_constants_are_packed_once_and_leave_the_kernel() -> None:
    region = regions.conv(1, 8, 16, (9, 9), 3, 1, 1)
    plan, _ = plans_of(region)[0]
    lowered = lower_contraction(fit_plan(region, analyse(region).core, plan), plan)
    (packed,) = lowered.packed
    assert packed.sources == ("W",)
    assert lowered.args == ("X", packed.name, "Y")


def test_a_channels_last_convolution_sums_channel_runs() -> None:
    """Terms go in the image's memory order, so that the channels of a pixel are packed as they lie."""
    n, h, w, c, o = 1, 9, 10, 19, 24
    over, out = (n, h, w, o, c, 3, 3), (n, h, w, o)
    image = regions.read("X", over, "i0", "i1 + i5 - 1", "i2 + i6 - 1", "i4", pad={1: h, 2: w})
    body = [regions.contraction("C", over, 3, image, regions.read("W", over, "i3", "i4", "i5", "i6"))]
    inputs = [regions.buffer("X", (n, h, w, c)), regions.buffer("W", (o, c, 3, 3), constant=True)]
    region = regions.region("nhwc", inputs, body, out)
    view = contraction_of(region, analyse(region).core)
    assert view is not None
    assert view.roles.names_of(view.k) == ("r1", "r2", "r0")
    cases = [(region, plan) for plan in various(region)]
    built = Built(cases)
    for i in range(len(cases)):
        assert_plays(built, i, values_of(region))
    assert "eq_strided" not in c_text(built.lowered[0].kernel)


def test_scratch_is_not_on_the_stack() -> None:
    """A thread with a small stack runs what works in megabytes."""
    region = regions.matmul((), 500, 600, 2000)
    plan = plans_of(region)[0][0]
    built, inputs = Built([(region, plan)]), values_of(region)
    workspace = built.lowered[0].kernel.workspace
    assert workspace.shared + workspace.private > 1 << 20
    results: list[dict[str, Array]] = []
    before = threading.stack_size(256 << 10)
    try:
        caller = threading.Thread(target=lambda: results.append(built.call(0, inputs)))
        caller.start()
        caller.join()
    finally:
        threading.stack_size(before)
    np.testing.assert_array_equal(results[0]["Y"], built.call(0, inputs)["Y"])


def test_regions_that_are_no_single_contraction_have_no_plan() -> None:
    for region in (regions.pointwise(), regions.conv_then_pool(), regions.row_reduce()):
        assert plans_of(region) == []
    flags = regions.matmul((), 3, 4, 5, dtype="bool")
    assert plans_of(flags) == []


def test_candidates_are_ranked_and_few() -> None:
    for region in (MATMULS[1], CONVS[1], SKINNY[1]):
        plans = plans_of(region)
        assert 5 <= len(plans) <= 20
        for _, work in plans:
            assert 0 < work.occupancy <= 1
            assert 0 < work.efficiency <= 1
            assert work.flops >= 1
            assert work.bytes > 0


def test_small_products_run_on_one_thread() -> None:
    plan, work = plans_of(regions.matmul((), 8, 16, 16))[0]
    assert not plan.parallel
    assert work.occupancy == 0.5
    assert plans_of(regions.matmul((), 256, 256, 256))[0][0].parallel


def test_a_two_axis_result_of_a_reshaped_product() -> None:
    """Heads are split where they are read: [s, h·d] · [h·d, n], stored as [h', s, d']."""
    s, h, d, k = 10, 3, 8, 20
    over, out = (s, h * d, k), (h, s, d)
    body = [
        regions.contraction("C", over, 1, regions.read("A", over, "i0", "i2"), regions.read("B", over, "i2", "i1")),
    ]
    inputs = [regions.buffer("A", (s, k)), regions.buffer("B", (k, h * d))]
    region = regions.region("heads", inputs, body, out, at=("i1", f"{d}*i0 + i2"))
    plans = plans_of(region)
    if not plans:
        pytest.skip("Poly Core takes no accumulator whose axes are split")
    assert_plays(Built([(region, plans[0][0])]), 0, values_of(region))


@pytest.mark.slow
def test_no_access_leaves_its_buffer(tmp_path: Path) -> None:
    """The kernels under the address sanitizer, on buffers of the exact size."""
    chosen = [MATMULS[1], MATMULS[3], SKINNY[1], EMPTY[0], CONVS[2], CONVS[4], CONVS[6], FUSED[3], TYPES[6]]
    cases = [(region, various(region)[0]) for region in chosen]
    cases += [(SKINNY[4], plan) for plan in various(SKINNY[4])]
    text = _sanitized_program(cases)
    source, program = tmp_path / "all.c", tmp_path / "all"
    source.write_text(text)
    compiler = find_compiler()
    flags = [*compile_flags(compiler, machine()), "-fsanitize=address", "-fno-omit-frame-pointer", "-pthread"]
    result = subprocess.run(
        [*compiler.command, *flags, str(source), "-lm", "-o", str(program)], capture_output=True, text=True, check=False
    )
    if result.returncode and "asan" in result.stderr:
        pytest.skip("this compiler has no address sanitizer")
    assert result.returncode == 0, result.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[:2000]


def _sanitized_program(cases: Sequence[tuple[Region, CpuContractionPlan]]) -> str:
    text = [vector_prelude(), pool_source(), SUPPORT, "#include <stdlib.h>\n"]
    calls = []
    for i, (region, plan) in enumerate(cases):
        lowered = lower_contraction(fit_plan(region, analyse(region).core, plan), plan, f"k{i}")
        for kernel in (*(constant.kernel for constant in lowered.packed), lowered.kernel):
            text.append(c_text(kernel))
            sizes = [max(param.elements, 1) * DTYPES[param.dtype].bytes for param in kernel.params]
            buffers = ", ".join(f"calloc({size}, 1)" for size in sizes)
            space = kernel.workspace
            places = ", ".join(f"aligned_alloc(64, {max(size, 64)})" for size in (space.shared, *[space.private] * 2))
            calls.append(f"  {{ void *space[] = {{{places}}}, *buf[] = {{{buffers}, space}}; {kernel.name}(buf, 2);")
            calls.append("    for (int i = 0; i < 3; i++) free(space[i]);")
            calls.append(f"    for (int i = 0; i < {len(sizes)}; i++) free(buf[i]); }}")
    return "\n".join([*text, "int main(void) {", *calls, "  return 0;", "}"])


def test_gather_and_index_prologues_are_evaluated_in_place() -> None:
    """Y = A · (B + column number): an index in the prologue."""
    m, n, k = 7, 33, 18
    over = (m, n, k)
    index = Definition("I", Op("index", "index", "fp32", (k, n), index_map=regions.read("B", (k, n), "i1").map))
    body = [
        index,
        regions.ewise("P", "add", (k, n), regions.same("B", (k, n)), regions.same("I", (k, n))),
        regions.contraction("C", over, 1, regions.read("A", over, "i0", "i2"), regions.read("P", over, "i2", "i1")),
    ]
    region = regions.region("indexed", [regions.buffer("A", (m, k)), regions.buffer("B", (k, n))], body, (m, n))
    cases = [(region, plan) for plan in various(region)]
    built = Built(cases)
    for i in range(len(cases)):
        assert_plays(built, i, values_of(region))


def random_region(draw: random.Random) -> Region:
    """A convolution or matrix product of any small size and layout."""
    if draw.random() < 0.5:
        groups, kernel, pad = draw.choice([1, 1, 2, 3]), draw.choice([1, 2, 3, 5]), draw.choice([0, 1, 2])
        stride, dilation = draw.choice([1, 1, 2, 3]), draw.choice([1, 1, 2])
        size = (draw.randint(9, 20), draw.randint(9, 40))
        channels = (groups * draw.choice([1, 2, 3, 5, 16]), groups * draw.choice([1, 2, 3, 7, 16, 33]))
        batch = draw.choice([1, 1, 2, 3])
        return regions.conv(batch, *channels, size, kernel, stride, pad, dilation, groups=groups)
    m, n = (draw.choice([1, 2, 3, 7, 16, 17, 31, 33, 64, 100, 130]) for _ in range(2))
    k = draw.choice([1, 2, 5, 16, 17, 64, 100, 1030, 2100])
    turned = {name: draw.random() < 0.4 for name in ("lhs_t", "rhs_t", "out_t", "share_rhs")}
    batch_axes = draw.choice([(), (), (2,), (2, 3)])
    return regions.matmul(batch_axes, m, n, k, dtype=draw.choice(["fp32", "fp32", "fp64", "i32"]), **turned)


@first_few(2, "seed", range(6))
def test_random_regions_with_random_plans(seed: int) -> None:
    draw = random.Random(seed)
    cases = []
    for _ in range(40):
        region = random_region(draw)
        plans = plans_of(region, target_of(units=draw.choice([1, 2, 4])))
        cases.append((region, draw.choice(plans)[0]))
    built = Built(cases)
    for i, (region, _) in enumerate(cases):
        assert_plays(built, i, values_of(region, seed))
