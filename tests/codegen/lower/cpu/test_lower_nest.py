"""Every kernel without a contraction, by every candidate plan, against playback, between guard pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import msgspec
import numpy as np
import pytest

from codegen.compile.library import Library
from codegen.compile.machine import Machine
from codegen.lower.cpu.lower_nest import lower_nest
from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse, checked_core
from codegen.text.cpu_to_c import c_text, suffix
from ir.diagnostics import EqsatError, Kind
from ir.kernel.cpu.kernel import CpuKernel
from ir.kernel.nodes import register_type
from ir.plan.cpu import CpuNestPlan, PlannedLoop
from ir.region.region import Definition, Number, Op, Region, Yield
from ir.serde import from_json, to_json
from tests.support.cpu.nest_kernels import Case, available, case, cases, check, library, required, run, target
from tests.support.cpu.played import numbered, random_inputs
from tests.support.programs import regions as r
from tests.support.sampling import every

FLOATS = ("fp16", "bf16", "fp32", "fp64")
INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
DTYPES = (*FLOATS, *INTEGERS, "bool")
ARCHES = ("avx512", "avx2", "sse2")


def ewise(fn: str, kind: str, n: int, arity: int, out: str | None = None) -> Region:
    names = ["X", "Z", "V"][:arity]
    body = [r.ewise("C", fn, (n,), *(r.same(name, (n,)) for name in names), dtype=out or kind)]
    return r.region(f"{fn}_{kind}", [r.buffer(name, (n,), kind) for name in names], body, (n,), dtype=out or kind)


def reduced(fn: str, kind: str, m: int, n: int, *, rows: bool) -> Region:
    over, x = ((m, n), r.same("X", (m, n))) if rows else ((n, m), r.read("X", (n, m), "i1", "i0"))
    body = [r.reduction("R", fn, over, 1, x, kind)]
    return r.region(f"{fn}_{kind}", [r.buffer("X", (m, n), kind)], body, over[:1], dtype=kind)


def where(kind: str, m: int = 3, n: int = 37) -> Region:
    out = (m, n)
    body = [r.ewise("W", "where", out, r.read("C", out, "i1"), r.same("X", out), r.read("Z", out, "i0"), dtype=kind)]
    inputs = [r.buffer("C", (n,), "bool"), r.buffer("X", out, kind), r.buffer("Z", (m,), kind)]
    return r.region("where", inputs, body, out, dtype=kind)


def gather_elements(axis: int, kind: str = "fp32", shape: tuple[int, int] = (5, 37), index: str = "i32") -> Region:
    source = tuple(30 if place == axis else size for place, size in enumerate(shape))
    coords = tuple("i2" if place == axis else f"i{place}" for place in range(2))
    op = Op("gather", "gather", kind, shape, (r.read("T", (*shape, 30), *coords), r.same("I", shape)))
    inputs = [r.buffer("T", source, kind), r.buffer("I", shape, index)]
    return r.region("gather_elements", inputs, [Definition("G", op)], shape, dtype=kind)


def gather_of_one() -> Region:
    """A gather along an axis of one element by an index per element, of rows with padding around them."""
    shape = (5, 37)
    place = r.read("T", (*shape, 1), "i0 - 1", "i2", pad={0: 3}, fill=2.5)
    op = Op("gather", "gather", "fp32", shape, (place, r.same("I", shape)))
    inputs = [r.buffer("T", (3, 1)), r.buffer("I", shape, "i32")]
    return r.region("gather_of_one", inputs, [Definition("G", op)], shape)


def gather_of_padded_parts(by_rows: bool) -> Region:
    """A gather whose index is divided and may lie in padding: one index per row, or one per element."""
    shape, choices = (5, 37), 90
    place = r.read("T", (*shape, choices), "i2 // 3 - 2", "i2 - 3*(i2 // 3)", pad={0: 25}, fill=1.5)
    index = (5,) if by_rows else shape
    op = Op("gather", "gather", "fp32", shape, (place, r.read("I", shape, *(f"i{k}" for k in range(len(index))))))
    inputs = [r.buffer("T", (25, 3)), r.buffer("I", index, "i32")]
    return r.region("gather_of_padded_parts", inputs, [Definition("G", op)], shape)


def scanned(fn: str, kind: str, m: int, n: int, axis: int) -> Region:
    over = (m, n)
    body = [
        Definition("S", Op("scan", fn, kind, over, (r.same("X", over),), axis=axis)),
        r.ewise("A", "add", over, r.same("S", over), r.same("X", over), dtype=kind),
    ]
    return r.region("scanned", [r.buffer("X", over, kind)], body, over, dtype=kind)


def padded_scan(n: int) -> Region:
    """A running sum that enters and leaves padding."""
    over = (3, n + 3)
    body = [
        Definition(
            "S", Op("scan", "sum", "fp32", over, (r.read("X", over, "i0", "i1 - 2", pad={1: n}, fill=1.5),), axis=1)
        )
    ]
    return r.region("padded_scan", [r.buffer("X", (3, n))], body, over)


def moments(m: int, n: int) -> Region:
    """Two reductions over the same axes, two outputs."""
    over = (m, n)
    body = [
        r.reduction("A", "sum", over, 1, r.same("X", over)),
        r.ewise("P", "mul", over, r.same("X", over), r.same("X", over)),
        r.reduction("B", "sum", over, 1, r.same("P", over)),
        r.ewise("T", "sub", (m,), r.same("B", (m,)), r.same("A", (m,))),
    ]
    one = r.region("moments", [r.buffer("X", over)], body, (m,))
    second = Yield("A", "Z", one.yields[0].map)
    return Region(one.name, one.inputs, (*one.outputs, r.buffer("Z", (m,))), one.body, (*one.yields, second))


def softmax(m: int, n: int, kind: str = "fp32") -> Region:
    over = (m, n)
    body = [
        r.reduction("M", "max", over, 1, r.same("X", over), kind),
        r.ewise("D", "sub", over, r.same("X", over), r.read("M", over, "i0"), dtype=kind),
        r.ewise("E", "exp", over, r.same("D", over), dtype=kind),
        r.reduction("S", "sum", over, 1, r.same("E", over), kind),
        r.ewise("Q", "fdiv", over, r.same("E", over), r.read("S", over, "i0"), dtype=kind),
    ]
    return r.region("softmax", [r.buffer("X", over, kind)], body, over, dtype=kind)


def reshaped(m: int, n: int) -> Region:
    """A read that no stride describes: [m·n] as [n, m] of a transpose."""
    return r.move((m, n), (n * m,), f"i0 - {m}*(i0 // {m})", f"i0 // {m}")


def depthwise(size: int, window: int, channels: int = 3) -> Region:
    """A padded convolution of each channel by itself, as a sum of products."""
    out = (channels, size, size)
    over, edge = (*out, window, window), window // 2
    x = r.read("X", over, "i0", f"i1 + i3 - {edge}", f"i2 + i4 - {edge}", pad={1: size, 2: size})
    body = [
        r.ewise("P", "mul", over, x, r.read("W", over, "i0", "i3", "i4")),
        r.reduction("S", "sum", over, 2, r.same("P", over)),
    ]
    return r.region("depthwise", [r.buffer("X", out), r.buffer("W", (channels, window, window))], body, out)


def correlated(size: int, window: int, channels: int = 3) -> Region:
    """A padded correlation, whose windows run against the image."""
    out = (channels, size, size)
    over, edge = (*out, window, window), window // 2
    x = r.read("X", over, "i0", f"i1 - i3 + {edge}", f"i2 - 2*i4 + {edge}", pad={1: size, 2: size})
    body = [
        r.ewise("P", "mul", over, x, r.read("W", over, "i0", "i3", "i4")),
        r.reduction("S", "sum", over, 2, r.same("P", over)),
    ]
    return r.region("correlated", [r.buffer("X", out), r.buffer("W", (channels, window, window))], body, out)


def squares(m: int, n: int, kind: str) -> Region:
    """The sum of the squares of every row."""
    over = (m, n)
    body = [
        r.ewise("P", "mul", over, r.same("X", over), r.same("X", over), dtype=kind),
        r.reduction("S", "sum", over, 1, r.same("P", over), kind),
    ]
    return r.region("squares", [r.buffer("X", over, kind)], body, (m,), dtype=kind)


def quantized(kind: str, low: float, high: float, n: int = 83, fn: str = "round", zero: float = 0) -> Region:
    """Y = kind(min(max(fn(X[1 - i]) + zero, low), high)), the first one padded with 3."""
    over = (n,)
    shift = [r.ewise("S", "add", over, r.same("R", over), Number(zero, "fp32"))] if zero else []
    body = [
        r.ewise("R", fn, over, r.read("X", over, "i0 - 1", pad={0: n}, fill=3.0)),
        *shift,
        r.ewise("M", "max", over, r.same("S" if zero else "R", over), Number(low, "fp32")),
        r.ewise("N", "min", over, r.same("M", over), Number(high, "fp32")),
        r.ewise("Q", "cast", over, r.same("N", over), dtype=kind),
    ]
    return r.region("quantized", [r.buffer("X", over)], body, over, dtype=kind)


def saturated_rows(fn: str, m: int = 5, n: int = 37) -> Region:
    """Y = u8(min(fn of the rows of X, 255)), where fn is a reduction."""
    body = [
        r.reduction("M", fn, (m, n), 1, r.same("X", (m, n))),
        r.ewise("N", "min", (m,), r.same("M", (m,)), Number(255, "fp32")),
        r.ewise("Q", "cast", (m,), r.same("N", (m,)), dtype="u8"),
    ]
    return r.region("saturated_rows", [r.buffer("X", (m, n))], body, (m,), dtype="u8")


STRUCTURES = [
    *(r.pointwise(), r.pointwise((1,)), r.pointwise((4, 33)), r.pointwise((0, 4)), r.pointwise((100, 1000))),
    *(r.outer_sum(), r.transpose(), r.transpose(40, 50), r.transpose(300, 410), reshaped(5, 9), reshaped(40, 30)),
    *(r.pad2d(), r.pad2d(20, 40), r.pad2d(3, 20, fill=float("-inf")), r.padded_chain(), r.padded_chain(50)),
    *(r.iota(), r.iota(3, 40), r.gather(), r.gather(10, 40, 5), gather_elements(0), gather_elements(1)),
    gather_of_one(),
    *(gather_of_padded_parts(by_rows) for by_rows in (True, False)),
    *(r.row_reduce(), r.row_reduce(5, 200), r.row_reduce(3, 5000, "max"), r.row_reduce(400, 1000)),
    *(r.row_reduce(0, 4), r.row_reduce(4, 0), r.row_reduce(4, 0, "max"), r.row_reduce(1, 1), r.row_reduce(2, 17)),
    *(r.column_reduce(), r.column_reduce(300, 70), r.column_reduce(30000, 3), r.total(), r.total((0,))),
    *(r.total((30, 40, 50)), r.total((300, 400, 3)), r.row_max_of_scaled(), r.sum_of_exp(5, 70), r.normalize(5, 70)),
    *(r.centre_rows(), r.centre_rows(4, 90), r.cumsum(), r.cumsum(20, 30, 0), r.cumsum(20, 33, 1)),
    *(r.cumsum(600, 300, 1), r.cumsum(1, 1), r.cumsum(0, 3), r.cumsum(5, 1), r.cumsum(3, 70, 1, "max")),
    *(
        padded_scan(4),
        padded_scan(40),
        r.maxpool(),
        r.maxpool(2, 3, (20, 45)),
        r.maxpool(1, 64, (33, 40)),
        moments(5, 90),
        moments(100, 900),
    ),
    *(depthwise(size, window) for size, window in ((3, 5), (14, 5), (16, 3), (37, 3), (50, 9))),
    correlated(40, 3),
]
EXACT = [
    *(ewise(fn, kind, 21, 1) for fn in ("neg", "abs", "relu") for kind in (*FLOATS, *INTEGERS)),
    *(ewise(fn, kind, 37, 1) for fn in ("floor", "ceil", "round", "sqrt", "recip", "copy") for kind in FLOATS),
    *(ewise("not", kind, 19, 1) for kind in (*INTEGERS, "bool")),
    *(ewise(fn, kind, 21, 2) for fn in ("add", "sub", "mul", "max", "min") for kind in (*FLOATS, *INTEGERS)),
    *(ewise("fdiv", kind, 35, 2) for kind in FLOATS),
    *(ewise(fn, kind, 19, 2) for fn in ("idiv", "mod", "and", "or", "xor", "shl", "shr") for kind in INTEGERS),
    *(ewise(fn, "bool", 19, 2) for fn in ("and", "or", "xor")),
    *(ewise(f"cmp{fn}", kind, 19, 2, "bool")
      for fn in ("lt", "le", "gt", "ge", "eq", "ne") for kind in ("fp16", "fp32", "fp64", *INTEGERS)),
    *(ewise("cast", a, 37, 1, b) for a in DTYPES for b in DTYPES if a != b),
    *(where(kind) for kind in DTYPES),
    *(saturated_rows(fn) for fn in ("max", "min")),
    *(quantized(kind, low, high) for kind, low, high in (("u8", 0, 255), ("u8", 0, 1), ("i8", -128, 127))),
    *(quantized(kind, low, high) for kind, low, high in (("u8", -3, 255), ("i8", 1, 9), ("i8", -9, 200))),
    *(quantized(*case) for case in (("u8", 0, 255, 83, "round", 7), ("u8", 0, 9, 40, "round", -3))),
    *(quantized(*case) for case in (("i8", -128, 127, 83, "round", 7), ("u8", 0, 255, 83, "floor", 0.5))),
    *(gather_elements(axis, kind) for axis in (0, 1) for kind in ("bf16", "i8", "fp64", "u32")),
    *(gather_elements(axis, "fp32", index=kind) for axis in (0, 1) for kind in ("u8", "u64")),
    *(reduced(fn, kind, 5, n, rows=rows)
      for fn in ("max", "min") for kind in DTYPES for n in (3, 70) for rows in (True, False)),
    *(reduced(fn, kind, 5, n, rows=rows)
      for fn in ("sum", "prod") for kind in (*INTEGERS, "bool") for n in (3, 70) for rows in (True, False)),
    *(scanned(fn, kind, 5, 35, axis) for fn in ("sum", "max") for kind in INTEGERS for axis in (0, 1)),
    *(scanned("max", kind, 5, 35, axis) for kind in FLOATS for axis in (0, 1)),
]  # fmt: skip
CLOSE = [
    *(ewise(fn, kind, 35, 1) for fn in ("rsqrt", "exp", "exp2", "log", "log2", "sin", "cos") for kind in FLOATS),
    *(ewise(fn, kind, 35, 1) for fn in ("tanh", "erf", "sigmoid") for kind in FLOATS),
    *(ewise("pow", kind, 35, 2) for kind in FLOATS),
    *(reduced("sum", kind, 5, n, rows=rows) for kind in FLOATS for n in (3, 70) for rows in (True, False)),
    *(squares(5, n, kind) for kind in FLOATS for n in (3, 70)),
    *(reduced("prod", kind, 5, 4, rows=rows) for kind in FLOATS for rows in (True, False)),
    *(scanned(fn, kind, 5, n, axis) for fn, n in (("sum", 70), ("prod", 5)) for kind in FLOATS for axis in (0, 1)),
]


@cache
def built(arch: str, step: int) -> tuple[Library, list[Case], list[Case]]:
    """The kernels held to a norm, then those whose bits are playback's: the latter every `step`-th plan, the former
    three times as many, as functions on dtypes ask nothing of a plan but its vectors."""
    where_ = required(arch)
    close = cases([*STRUCTURES, *CLOSE], arch, step=-(-step // 3))
    named = numbered([*close, *cases(EXACT, arch, step=step)])
    return library(named, where_), named[: len(close)], named[len(close) :]


def check_all(arch: str, step: int, nan: bool) -> None:
    lib, close, exact = built(arch, step)
    for group, bits in ((close, False), (exact, True)):
        for number, kernel_case in enumerate(group):
            check(lib, kernel_case, random_inputs(kernel_case.region, number, nan=nan), exact=bits, at_end=not nan)


@pytest.mark.slow
@pytest.mark.parametrize("nan", [False, True])
def test_kernels_are_playback(nan: bool) -> None:
    arch = next(arch for arch in ARCHES if available(arch))
    check_all(arch, 13, nan)


@every(37)
@pytest.mark.parametrize("arch", ARCHES)
def test_kernels_of_every_dtype_are_playback(arch: str, step: int) -> None:
    for nan in (False, True):
        check_all(arch, step, nan)


@cache
def few() -> tuple[Library, list[Case]]:
    """Kernels that tests below run in their own ways."""
    where_ = available("avx512") or available("avx2") or available("sse2")
    assert where_ is not None
    tried = cases([softmax(5, 100), softmax(3, 7, "fp16"), softmax(200, 300)], where_.arch, legal=True)
    for number, region in enumerate([r.total((300, 400, 3)), r.row_reduce(1, 70000), r.column_reduce(4097, 40)]):
        tried += numbered(cases([region], where_.arch), f"eq_f{number}_")
    return library(tried, where_), tried


@pytest.mark.slow
def test_a_row_with_several_reductions_is_one_kernel() -> None:
    lib, tried = few()
    softmaxes = [kernel_case for kernel_case in tried if kernel_case.region.name == "softmax"]
    assert len(softmaxes) >= 3
    for softmax in softmaxes:
        check(lib, softmax, random_inputs(softmax.region))


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_threads() -> None:
    lib, tried = few()
    split = [kernel_case for kernel_case in tried if kernel_case.plan.part is not None]
    assert split
    for kernel_case in split:
        inputs = random_inputs(kernel_case.region, 3)
        one, three = (run(lib, kernel_case, inputs, threads=threads) for threads in (1, 3))
        assert one["Y"].tobytes() == three["Y"].tobytes(), str(kernel_case)


def test_long_sums_keep_their_precision() -> None:
    lib, tried = few()
    for kernel_case in tried:
        if kernel_case.region.name != "softmax":
            inputs = {"X": np.random.default_rng(1).random(kernel_case.region.inputs[0].memref.shape, np.float32)}
            wide = inputs["X"].astype(np.float64)
            wanted = {"total": None, "row_reduce": 1, "column_reduce": 0}[kernel_case.region.name]
            np.testing.assert_allclose(run(lib, kernel_case, inputs)["Y"], wide.sum(wanted), rtol=2e-6)


# --- the plan drives the text ---------------------------------------------------------------------


BLOCKED = PlannedLoop((0,), 16), PlannedLoop((1,), 64)
REVERSED = PlannedLoop((1,), 9), PlannedLoop((0,), 16)


def plan_of(region: Region, **changes: object) -> CpuNestPlan:
    best = nest_candidates(region, analyse(region).core, target("avx512"))[0][0]
    return msgspec.structs.replace(best, **changes)


def lowered(region: Region, **changes: object) -> CpuKernel:
    plan = plan_of(region, **changes)
    return lower_nest(fit_plan(region, analyse(region).core, plan), plan)


def refused(region: Region, **changes: object) -> EqsatError:
    with pytest.raises(EqsatError) as caught:
        lowered(region, **changes)
    return caught.value


def test_the_tail_is_where_the_plan_has_one() -> None:
    region = r.outer_sum(3, 37)
    assert "eq_store_n_f32" in c_text(lowered(region))
    assert refused(region, tails=()).kind == Kind.ALIGNMENT_MISMATCH
    divided = r.outer_sum(3, 48)
    assert "eq_store_n_f32" not in c_text(lowered(divided, tails=()))


def test_width_tile_and_binding_are_the_plan_s() -> None:
    region = r.outer_sum(64, 256)
    wide = c_text(lowered(region, lanes=1, width=64, tails=()))
    assert "i1 += 64" in wide
    assert "b + i1 + 48" in wide
    blocks = lowered(region, loops=BLOCKED, threads=(0, 1), tails=())
    assert blocks.phases[0].tasks == 16
    assert "eq_parallel_for(eq_k_phase0, (void *)buf, 16, threads)" in c_text(blocks)
    serial = lowered(region, loops=BLOCKED, threads=(), tails=())
    assert serial.phases[0].tasks == 1
    assert "i0o += 16" in c_text(serial)


def test_a_plan_changed_by_hand_gives_the_same_result() -> None:
    where_ = required("avx512")
    region = r.outer_sum(37, 115)
    core = analyse(region).core
    tails = ("i0", "i1")
    plans = [
        plan_of(region, lanes=1, width=32, tails=tails),
        plan_of(region, lanes=0, width=16, tails=tails),
        plan_of(region, loops=(PlannedLoop((0,), 5), PlannedLoop((1,), 48)), threads=(1,), tails=tails),
        plan_of(region, loops=REVERSED, lanes=1, width=16, threads=(), tails=tails),
        plan_of(region, lanes=1, width=48, tails=tails),
    ]
    tried = [case(region, core, plan, f"eq_k{number}") for number, plan in enumerate(plans)]
    assert len({c_text(kernel_case.kernel).partition("{")[2] for kernel_case in tried}) == len(plans)
    lib = library(tried, where_)
    for kernel_case in tried:
        check(lib, kernel_case, random_inputs(region), exact=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 24},
        {"loops": (PlannedLoop((0,), 64), PlannedLoop((1,), 24)), "width": 16},
        {"loops": BLOCKED[:1]},
        {"loops": (BLOCKED[0], PlannedLoop((7,), 64))},
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    assert refused(r.outer_sum(64, 256), **changes).kind in (Kind.ALIGNMENT_MISMATCH, Kind.MALFORMED_GRAPH)


def test_padding_is_checked_on_the_border_only() -> None:
    text = c_text(lowered(r.pad2d(20, 100)))
    assert "eq_load_f32" in text
    assert text.count("eq_gather") <= 4


def test_a_register_that_holds_an_edge_is_not_cut() -> None:
    assert "for (int64_t i2 = 0; i2 < 14; i2 += 16)" in c_text(lowered(depthwise(14, 3)))
    assert "for (int64_t i2 = 0; i2 < 16; i2 += 16)" in c_text(lowered(depthwise(100, 3)))


def test_windows_inside_an_image_are_summed_together_without_checks() -> None:
    """Four rows of a window of 3 x 3 share their loads: six of the image, not twelve."""
    text = c_text(lowered(depthwise(14, 3), rows=4))
    inside = text[text.index("for (int64_t i1_2 = 1; i1_2 < 13; i1_2 += 4)") :]
    inside = inside[: inside.index("eq_store")]
    assert inside.count("eq_fma_f32") == 36
    assert (inside.count("(X +"), inside.count("(W +")) == (18, 0)
    assert "if (" not in inside


def test_windows_that_run_against_the_image_have_a_price() -> None:
    region = correlated(40, 7)
    assert all(work.layout >= 0 for _, work in nest_candidates(region, analyse(region).core, target("avx512")))


def test_a_row_of_a_block_is_checked_once() -> None:
    loops = (PlannedLoop((0,), 3), PlannedLoop((1,), 4), PlannedLoop((2,), 14))
    text = c_text(lowered(depthwise(14, 3), loops=loops, threads=(1,), rows=1))
    assert "if (1 <= i1 && i1 < 13)" in text
    inside, border = text[text.index("if (1 <= i1 && i1 < 13)") :].split("} else {", 1)
    assert "if (" not in inside.removeprefix("if (")
    assert "if (" in border


def test_weights_are_loaded_outside_of_a_blocked_row_loop() -> None:
    """Lanes along channels, outermost, over rows in blocks that tasks share."""
    over = (64, 64, 3)
    x = r.read("X", over, "i0 + i2 - 1", "i1", pad={0: 64})
    body = [
        r.ewise("P", "mul", over, x, r.read("W", over, "i1", "i2")),
        r.reduction("S", "sum", over, 1, r.same("P", over)),
    ]
    region = r.region("columns", [r.buffer("X", (64, 64)), r.buffer("W", (64, 3))], body, (64, 64))
    loops = (PlannedLoop((1,), 64), PlannedLoop((0,), 32))
    text = c_text(lowered(region, loops=loops, lanes=0, width=16, threads=(1,), rows=4, tails=()))
    assert text.count("(W +") == 3
    assert text.index("(W +") < text.index("for (int64_t i0")


def test_terms_of_many_windows_are_unrolled_along_the_last_axis() -> None:
    loops = (PlannedLoop((0,), 3), PlannedLoop((1,), 48), PlannedLoop((2,), 48))
    text = c_text(lowered(depthwise(48, 7), loops=loops, lanes=2, threads=(), rows=6))
    inside = text[text.index("i1_2 += 6") :].split("eq_store")[0]
    assert inside.count("for (int64_t r") == 1
    assert inside.count("eq_fma_f32") == 6 * 7


def test_a_sum_of_products_takes_multiply_adds() -> None:
    region = depthwise(14, 3)
    assert c_text(lowered(region, rows=1)).count("eq_fma_f32") == 3 * 9  # before, in and after the image
    assert "eq_mul_f32" not in c_text(lowered(region))
    assert "eq_fma_f32" not in c_text(lowered(region, ordered=True)), "every product is rounded"
    over, several = (5, 40), squares(5, 40, "fp32").body
    body = [
        *several,
        r.reduction("M", "max", over, 1, r.same("P", over)),
        r.ewise("A", "add", (5,), r.same("S", (5,)), r.same("M", (5,))),
    ]
    kept = r.region("kept", [r.buffer("X", over)], body, (5,))
    assert "eq_fma_f32" not in c_text(lowered(kept)), "the product is read as well"


def test_bounds_and_the_cast_to_bytes_are_one_call() -> None:
    for kind, low, high in (("u8", 0, 255), ("i8", -128, 127), ("i8", -3, 0)):
        text = c_text(lowered(quantized(kind, low, high, fn="floor")))
        assert f"eq_hold_{kind}_f32" in text
        assert "eq_cast" not in text
    assert "eq_hold" not in c_text(lowered(saturated_rows("max"))), "this maximum is a reduction"
    for kind, low, high in (("u8", -3, 255), ("u8", 1, 255), ("i8", -128, 128)):
        text = c_text(lowered(quantized(kind, low, high)))
        assert not re.search("eq_hold|eq_nearest", text), "no bounds of a byte, or NaN, which is 0, is not within them"


@pytest.mark.parametrize(("kind", "zero"), [("u8", 0), ("u8", 7), ("u8", -3), ("i8", 0)])
def test_rounding_and_the_cast_to_bytes_are_one_call(kind: str, zero: int) -> None:
    low, high = (0, 255) if kind == "u8" else (-128, 127)
    text = c_text(lowered(quantized(kind, low, high, zero=zero)))
    assert f"eq_nearest_{kind}_i32" in text
    assert not re.search("eq_hold|eq_round|eq_add", text)


@pytest.mark.parametrize(("kind", "zero"), [("u8", 0.5), ("u8", 2.0**20), ("i8", 7)])
def test_other_zero_points_are_added(kind: str, zero: float) -> None:
    """Fractions, numbers beside which bounds are rounded, and those of signed bytes, where NaN is 0."""
    low, high = (0, 255) if kind == "u8" else (-128, 127)
    text = c_text(lowered(quantized(kind, low, high, zero=zero)))
    assert f"eq_hold_{kind}_f32" in text
    assert "eq_add_f32" in text


def check_cases(tried: list[Case], machine: Machine) -> None:
    """Every kernel computes what playback computes, on random inputs."""
    built = library(tried, machine)
    for one in tried:
        check(built, one, random_inputs(one.region, 3))


def moved(
    name: str,
    source: tuple[int, ...],
    out: tuple[int, ...],
    *coords: str,
    kind: str,
    pad: Mapping[int, int] | None = None,
    fill: float = 0,
) -> Region:
    """A tensor read at other places of the output."""
    body = [r.ewise("C", "add", out, r.read("X", out, *coords, pad=pad, fill=fill), r.same("Z", out), dtype=kind)]
    return r.region(name, [r.buffer("X", source, kind), r.buffer("Z", out, kind)], body, out, dtype=kind)


def in_runs(kind: str) -> list[Region]:
    """Reads of neighbours but for the places where a floor changes: rolled, tiled, both, and rolled with padding."""
    rolled = "i1 + 37 - 100*((i1 + 37)//100)"
    return [
        moved("rolled", (3, 100), (3, 100), "i0", rolled, kind=kind),
        moved("tiled", (3, 45), (3, 135), "i0", "i1 - 45*(i1//45)", kind=kind),
        moved("rolled_rows", (5, 100), (5, 100), "i0 + 2 - 5*((i0 + 2)//5)", rolled, kind=kind),
        moved("rolled_padded", (3, 80), (3, 100), "i0", f"{rolled} - 10", kind=kind, pad={1: 80}, fill=1),
        moved("reshaped", (4, 75), (3, 100), "(100*i0 + i1)//75", "100*i0 + i1 - 75*((100*i0 + i1)//75)", kind=kind),
        moved("backwards", (3, 100), (3, 100), "i0", "99 - i1", kind=kind),
        moved("backwards_cut", (3, 90), (3, 77), "i0", "80 - i1", kind=kind),
    ]


@pytest.mark.parametrize("arch", ARCHES)
def test_neighbours_in_runs_are_loaded_together(arch: str) -> None:
    machine = required(arch)
    kinds = ("fp32", "fp16", "i8", "fp64")
    tried = numbered(cases([one for kind in kinds for one in in_runs(kind)], arch), "eq_runs")
    assert sum("} else {" in c_text(one.kernel) for one in tried) >= 4 * len(kinds)
    check_cases(tried, machine)


def in_windows(kind: str) -> list[Region]:
    """Reads of which several lanes have the same element: enlarged by 2, 3 and 112/55, shifted, by rows, and padded."""
    return [
        moved("twice", (3, 50), (3, 99), "i0", "i1//2", kind=kind),
        moved("twice_later", (3, 52), (3, 100), "i0", "(i1 + 3)//2", kind=kind),
        moved("three_times", (3, 34), (3, 100), "i0", "i1//3", kind=kind),
        moved("uneven", (3, 55), (3, 112), "i0", "(55*i1)//112", kind=kind),
        moved("rows", (26, 2), (50, 4), "i0//2", "i1//2", kind=kind),
        moved("padded", (3, 40), (3, 99), "i0", "(i1 - 5)//2", kind=kind, pad={1: 40}, fill=1),
        moved("nearly_all", (3, 94), (3, 100), "i0", "(15*i1)//16", kind=kind),
    ]


@pytest.mark.parametrize("arch", ARCHES)
def test_neighbours_that_lanes_share_are_permuted(arch: str) -> None:
    machine = required(arch)
    kinds = ("fp32", "fp16", "i32", "u8", "i16", "fp64", "i64", "u64", "bool")
    tried = numbered(cases([one for kind in kinds for one in in_windows(kind)], arch), "eq_windows")
    for kind in kinds:
        permuted = f"eq_permute_{suffix(register_type(kind))}"
        assert sum(permuted in c_text(one.kernel) for one in tried) >= 3, kind
    check_cases(tried, machine)


def in_parts(kind: str) -> list[Region]:
    """Reads of which lanes take turns between two or four runs, with a tail, by several rows, and with a border."""
    return [
        moved("turns", (2, 64), (3, 128), "i1 - 2*(i1//2)", "i1//2", kind=kind),
        moved("turns_with_a_tail", (2, 60), (3, 119), "i1 - 2*(i1//2)", "i1//2", kind=kind),
        moved("four_turns", (4, 32), (2, 128), "i1 - 4*(i1//4)", "i1//4", kind=kind),
        moved("two_axes", (4, 64), (4, 64), "2*(i0 - 2*(i0//2)) + i1 - 2*(i1//2)", "i0//2 + i1//2", kind=kind),
        moved("bordered", (6, 64), (3, 384), "i1//64", "i1 - 64*(i1//64) - 1", kind=kind, pad={1: 64}, fill=1),
        moved("borders", (6, 64), (3, 384), "i1//64 - 1", "i1 - 64*(i1//64) + 1", kind=kind, pad={0: 6, 1: 64}, fill=1),
    ]


@pytest.mark.parametrize("arch", ARCHES)
def test_lanes_that_take_turns_load_parts_of_neighbours(arch: str) -> None:
    machine = required(arch)
    kinds = ("fp32", "fp16", "i8", "i64", "bool")
    tried = numbered(cases([one for kind in kinds for one in in_parts(kind)], arch), "eq_parts")
    best = c_text(lowered(moved("turns", (2, 64), (3, 128), "i1 - 2*(i1//2)", "i1//2", kind="fp32")))
    assert best.count("eq_permute_f32") == 2
    assert "eq_gather" not in best
    border = c_text(lowered(in_parts("fp32")[-1]))
    assert "EQ_EACH_LANE" not in border
    check_cases(tried, machine)


def test_a_value_of_outer_axes_is_computed_outside() -> None:
    text = c_text(lowered(r.centre_rows(4, 90)))
    row = text[text.index("for (int64_t i0") :]
    assert row.index("eq_hsum_f32") < row.index("eq_store_f32")


def test_small_regions_run_on_one_thread() -> None:
    small = r.pointwise((8, 8))
    assert all(not plan.threads for plan, _ in nest_candidates(small, analyse(small).core, target("avx512")))
    large = r.pointwise((512, 512))
    assert nest_candidates(large, analyse(large).core, target("avx512"))[0][0].threads


def test_a_sum_of_no_terms_has_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALL_FLOPS", "SMALL_BYTES"):
        monkeypatch.setattr(f"codegen.plan.cpu.nest_candidates.{name}", 0)
    region = r.row_reduce(2, 0)
    core = checked_core(region)
    plans = [plan for plan, _ in nest_candidates(region, core, target("avx512"))]
    assert plans
    for plan in plans:
        lower_nest(fit_plan(region, core, plan), plan, "eq_k")


def test_a_contraction_has_no_nest() -> None:
    region = r.matmul()
    assert nest_candidates(region, analyse(region).core, target("avx512")) == []


def test_kernels_round_trip_through_json() -> None:
    for region in (r.maxpool(), r.cumsum(), r.gather(), r.total((30, 40, 50))):
        kernel = lowered(region)
        assert from_json(to_json(kernel), CpuKernel) == kernel


def test_numbers_are_rounded_to_their_dtype() -> None:
    where_ = available("avx512") or available("avx2") or available("sse2")
    assert where_ is not None
    numbers: list[tuple[float | str, str]] = [(0.1, kind) for kind in FLOATS]
    numbers += [("-inf", "fp32"), ("nan", "fp16"), (-(2**63), "i64")]
    bodies = []
    for number, kind in numbers:
        body = r.ewise("A", "add", (5,), r.same("X", (5,)), Number(number, kind), dtype=kind)
        bodies.append(r.region("number", [r.buffer("X", (5,), kind)], [body], (5,), dtype=kind))
    tried = cases(bodies, where_.arch)
    lib = library(tried, where_)
    for kernel_case in tried:
        check(lib, kernel_case, random_inputs(kernel_case.region), exact=True)
