"""Streams in tiles of scores: plans against region playback, between guard pages, on every instruction set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from codegen.compile.library import Library
from codegen.lower.cpu.lower import lower
from codegen.plan.cpu.candidates import candidates
from codegen.plan.cpu.stream_candidates import stream_candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse, checked_core
from codegen.text.cpu_to_c import c_text
from ir.diagnostics import EqsatError
from ir.kernel.cpu.verify import verify
from ir.plan.cpu import CpuStreamPlan, PackedTensor, StreamBlocks
from ir.region.region import Region, Yield
from tests.support.cpu import nest_kernels as kernels
from tests.support.cpu.changed_plan import with_fields
from tests.support.cpu.played import random_inputs
from tests.support.programs import stream_regions as streams
from tests.support.programs.regions import ewise, index_map, read, reduction, same

ODD = streams.attention(3, 13, 37, 11, 9, bias=True, mask=True, causal=True)
TRIED = (
    ODD,
    streams.attention(1, 1, 1, 1, 1),
    streams.attention(2, 1, 50, 16, 8),
    streams.attention(2, 50, 1, 16, 8),
    streams.attention(2, 1, 70, 128, 136),
    streams.attention(2, 7, 70, 96, 104, scale=0.1),
    streams.attention(2, 4, 50, 160, 128, dtype="bf16"),
    streams.attention(2, 2, 50, 80, 80, dtype="fp64", acc="fp64"),
    streams.attention(2, 5, 50, 1, 8),
    streams.attention(2, 5, 50, 16, 1),
    streams.attention(1, 60, 270, 32, 32, scale=0.2, fn="exp2"),
    streams.attention(4, 17, 33, 64, 64, group=2),
    streams.attention(8, 1, 70, 128, 136, group=4),
    streams.attention(8, 3, 50, 32, 32, group=4, causal=True),
    streams.attention(6, 5, 40, 16, 24, group=3, bias=True, mask=True),
    streams.attention(6, 40, 45, 16, 32, group=3, causal=True, dtype="fp16"),
    streams.attention(1, 15, 150, 80, 80, scale=0.1, keys_first=True),
    streams.attention(1, 15, 40, 128, 128, scale=0.1),
    streams.attention(1, 5, 40, 256, 256, scale=0.1, key_rows=True),
    streams.attention(2, 20, 70, 40, 24, dtype="fp16", mask=True),
    streams.attention(2, 20, 70, 40, 24, dtype="bf16", causal=True),
    streams.attention(1, 20, 70, 12, 24, dtype="fp64", acc="fp64"),
    streams.weighted_rows(20, 140, 40),
    streams.classifier_log_sum_exp(20, 300, 33),
    streams.classifier_log_sum_exp(1, 70, 5),
)


@dataclass(frozen=True)
class Tried:
    """All cases of one instruction set, compiled."""

    cases: list[kernels.CpuCase]
    library: Library


def plans_of(region: Region, arch: str) -> list[CpuStreamPlan]:
    """The candidates that work on tiles, best first."""
    plans = candidates(region, checked_core(region), kernels.target(arch))
    return [plan for plan, _ in plans if isinstance(plan, CpuStreamPlan)]


def case(region: Region, plan: CpuStreamPlan, name: str = "eq_k") -> kernels.CpuCase:
    kernel = lower(fit_plan(region, checked_core(region), plan), plan, name).kernel
    verify(kernel)
    return kernels.CpuCase(region, plan, kernel)


def built(cases: Sequence[tuple[Region, CpuStreamPlan]], arch: str) -> Tried:
    where = kernels.required(arch)
    results = [case(region, plan, f"eq_k{number}") for number, (region, plan) in enumerate(cases)]
    return Tried(results, kernels.library(results, where))


@pytest.fixture(scope="module", params=["avx512", "avx2", "sse2"])
def tried(request: pytest.FixtureRequest) -> Tried:
    """The best plan of every region, of some on the narrower instruction sets."""
    regions = TRIED if request.param == "avx512" else TRIED[:: 3 if request.param == "avx2" else 4]
    return built([(region, plans_of(region, request.param)[0]) for region in regions], request.param)


@pytest.mark.slow
@pytest.mark.parametrize(("nan", "at_end"), [(False, True), (True, False)])
def test_the_best_plan_is_playback(tried: Tried, nan: bool, at_end: bool) -> None:
    for case in tried.cases:
        inputs = random_inputs(case.region, 1, nan=nan)
        kernels.check(tried.library, case, inputs, at_end=at_end)


def test_large_scores_do_not_overflow(tried: Tried) -> None:
    for case in tried.cases:
        first, inputs = case.region.inputs[0], random_inputs(case.region, 2)
        large = {**inputs, first.name: (inputs[first.name] * 50).astype(inputs[first.name].dtype)}
        kernels.check(tried.library, case, large)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["avx512", "sse2"])
def test_every_plan_is_playback_and_threads_change_no_bit(arch: str) -> None:
    several = [streams.attention(2, 30, 150, 20, 24, bias=True), streams.weighted_rows(9, 40, 20)]
    library = built([(region, plan) for region in several for plan in plans_of(region, arch)], arch)
    assert len(library.cases) > 6
    for case in library.cases:
        inputs = random_inputs(case.region, 3)
        kernels.check(library.library, case, inputs)
        (name,) = (buffer.name for buffer in case.region.outputs)
        results = [kernels.run(library.library, case, inputs, threads=threads)[name] for threads in (1, 2, 3)]
        assert all(np.array_equal(results[0], other) for other in results[1:])


def biased(region: Region, bias: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    return {**random_inputs(region, 4), "bias": bias.astype(np.float32)}


def test_masked_rows_and_infinite_scores() -> None:
    region = streams.attention(2, 20, 300, 8, 24, bias=True)
    library = built([(region, plan) for plan in plans_of(region, "avx512")[:3]], "avx512")
    bias = np.zeros((20, 300))
    bias[0] = -np.inf  # a row without any score is 0 / 0
    bias[1, :299] = -np.inf  # one score, in the last block
    bias[2, 1:] = -np.inf  # one score, in the first
    bias[3, 150] = np.inf
    bias[4, :200] = -np.inf
    bias[5, 7] = np.nan
    for case in library.cases:
        kernels.check(library.library, case, biased(region, bias))
        result = kernels.run(library.library, case, biased(region, bias))["O"]
        assert np.isnan(result[:, [0, 3, 5]]).all()
        assert np.isfinite(result[:, [1, 2, 4]]).all()


CAUSAL = streams.attention(2, 150, 150, 16, 32, causal=True)


@pytest.mark.slow
def test_tiles_that_no_row_sees_are_left_out_unless_a_value_is_no_number() -> None:
    """Rows of the first tile see no term of the last block. A weight of 0 does not hide an infinity or a NaN."""
    regions = [CAUSAL, streams.attention(1, 90, 200, 8, 16, causal=True, dtype="fp64", acc="fp64")]
    stopped = [(region, plan) for region in regions for plan in plans_of(region, "avx512") if plan.blocks.stops]
    library = built(stopped[::3], "avx512")
    assert {case.region.name for case in library.cases} == {region.name for region in regions}
    for case in library.cases:
        assert "is a value infinite or NaN?" in c_text(case.kernel)
        inputs = random_inputs(case.region, 5)
        kernels.check(library.library, case, inputs, at_end=True)
        for wrong in (np.nan, np.inf):
            inputs["V"][0, -1, 3] = wrong
            kernels.check(library.library, case, inputs)
            assert np.isnan(kernels.run(library.library, case, inputs)["O"][0, :80, 3]).all()


@pytest.mark.slow
def test_the_tiles_of_a_causal_mask_are_counted() -> None:
    """A plan that leaves tiles out is estimated at less work, and a plan for other streams cannot leave out any."""
    (plan, work), *_ = stream_candidates(CAUSAL, checked_core(CAUSAL), kernels.target("avx512"))
    full = streams.attention(2, 150, 150, 16, 32)
    assert plan.blocks.stops
    assert work.flops < 0.8 * stream_candidates(full, checked_core(full), kernels.target("avx512"))[0][1].flops
    with pytest.raises(EqsatError, match="may see all terms"):
        fit_plan(full, checked_core(full), with_fields(plans_of(full, "avx512")[0], **{"blocks.stops": True}))


def blocks_of_dots(rows: int, depth: int, width: int, arch: str) -> StreamBlocks:
    """The blocks of dot products of so many rows as a tile has."""
    region = streams.attention(8, rows, 2048, depth, width)
    plans = (plan for plan, _ in stream_candidates(region, checked_core(region), kernels.target(arch)))
    return next(plan.blocks for plan in plans if plan.blocks.dot and plan.blocks.mr == rows)


def test_one_row_reads_keys_and_values_in_the_order_of_memory() -> None:
    """32 heads of 2048 keys of 128 took 4.2 ms on two cores of a Zen 4, with eight keys in turns and values by 32
    columns; one key at a time and all columns take 2.1."""
    for arch, columns in (("avx2", 64), ("avx512", 128)):
        blocks = blocks_of_dots(1, 128, 128, arch)
        assert (blocks.nr, blocks.nv) == (1, columns)
    assert blocks_of_dots(1, 64, 64, "avx512").nr == 8  # of a few cache lines
    assert blocks_of_dots(1, 1024, 64, "avx512").nr == 8  # on pages of their own


def test_heads_that_share_keys_are_rows_of_one_tile() -> None:
    """Each of four heads alone read the keys again: 32 heads by 2048 keys of 128 took .44 ms, together .28."""
    grouped = streams.attention(8, 1, 2048, 128, 128, group=4)
    (plan, _), *_ = stream_candidates(grouped, checked_core(grouped), kernels.target("avx512"))
    assert plan.together
    assert plan.blocks.mr == 4
    alone = streams.attention(8, 1, 2048, 128, 128)
    plans = stream_candidates(alone, checked_core(alone), kernels.target("avx512"))
    assert not any(plan.together for plan, _ in plans)


def test_tiles_of_values_are_equal() -> None:
    """With AVX2, four rows by 24, 24 and 16 columns took up to a third longer than by 16."""
    assert blocks_of_dots(4, 64, 64, "avx2").nv == 16
    assert blocks_of_dots(4, 128, 128, "avx512").nv == 64
    assert blocks_of_dots(1, 64, 88, "avx2").nv == 48  # eleven vectors


# --- plans by hand ---


KEYS = PackedTensor("K", "k.o")


def hand_plan(**changes: Any) -> CpuStreamPlan:
    plan = CpuStreamPlan(
        arch="avx2",
        blocks=StreamBlocks(mr=4, nr=8, nv=8, bm=16, br=8, bc=16, lanes=8),
        products=True,
        packed=(PackedTensor("Q", "m.o"), KEYS, PackedTensor("V", "k.o")),
        parallel=True,
        tails=("m", "n", "k"),
        epilogue=("fdiv",),
    )
    return with_fields(plan, **changes)


@pytest.mark.slow
def test_text_and_result_follow_the_plan() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"blocks.bm": 8},
        {"blocks.br": 4, "blocks.bc": 37},
        {"blocks.bc": 24, "blocks.mr": 2, "blocks.nr": 16},
        {"blocks.nv": 16},
        {"packed": ()},
        {"packed": (KEYS,)},
        {"blocks.dot": True, "packed": (), "blocks.mr": 2, "blocks.nr": 3},
        {"parallel": False},
    ]
    plans = [hand_plan(**change) for change in changes]
    library = built([(ODD, plan) for plan in plans], "avx2")
    texts = [c_text(case(ODD, plan).kernel) for plan in plans]
    assert len(set(texts)) == len(texts)
    for built_case in library.cases:
        kernels.check(library.library, built_case, random_inputs(ODD, 5))
    tasks = [case.kernel.phases[0].tasks for case in library.cases]
    assert (*tasks[:2], tasks[-1]) == (3, 6, 1)
    sizes = {buffer.name: buffer.elements for buffer in library.cases[0].kernel.private}
    assert (sizes["score_tile"], sizes["A_sums"]) == (8 * (16 + 8), 16 * 16)


def test_blocks_of_terms_that_start_between_registers_touch_no_other_memory() -> None:
    region = streams.attention(2, 6, 40, 4, 9, key_rows=True)  # the keys of neighbouring terms are neighbours
    changes: list[dict[str, Any]] = [{}, {"packed": ()}, {"blocks.nr": 16}]
    plans = [hand_plan(**{"blocks.bm": 8, "blocks.bc": 13, **change}) for change in changes]
    library = built([(region, plan) for plan in plans], "avx2")
    for case in library.cases:
        kernels.check(library.library, case, random_inputs(region, 6), at_end=True)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "rows that do not divide": ({"blocks.br": 6}, "6 rows of a tile|16 rows of a task"),
    "half registers": ({"blocks.nv": 4}, "4 columns"),
    "another machine's registers": ({"blocks.lanes": 16}, "no register of 8"),
    "no tile": ({"blocks.bc": 0}, "are not sizes"),
    "more terms than there are": ({"blocks.bc": 1000}, "a block of 1000"),
    "no products": ({"products": False}, "1 products"),
    "an unknown buffer": ({"packed": (PackedTensor("bias", "k.o"),)}, "can not be packed"),
    "an unknown step": ({"packed": (PackedTensor("K", "m.o"),)}, "can not be packed"),
    "an epilogue that is not there": ({"epilogue": ("relu",)}, "not the region's"),
    "no tail": ({"tails": ("n", "k")}, "no predicated tail along m"),
    "packed dot products": ({"blocks.dot": True}, "can not be packed"),
    "another machine": ({"arch": "sm80"}, "a plan for sm80 on a CPU"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_plans_that_do_not_fit_are_refused(change: str) -> None:
    changes, message = REFUSED[change]
    with pytest.raises(EqsatError, match=message):
        case(ODD, hand_plan(**changes))


# --- roles and legality ---


@pytest.mark.parametrize(
    ("region", "wanted"),
    [
        (streams.attention(2, 4, 7, 6, 5), "batch [i0]  rows [i1]  columns [i2]  terms [r0]"),
        (streams.attention(4, 4, 7, 6, 5, group=2, keys_first=True), "batch [i0]  rows [i1]  columns [i2]  terms [r0]"),
        (streams.attention(2, 1, 7, 6, 5), "batch [i0]  rows []  columns [i2]  terms [r0]"),
        (streams.weighted_rows(), "batch []  rows [i0]  columns [i1]  terms [r0]"),
        (streams.classifier_log_sum_exp(), "batch []  rows [i0]  columns []  terms [r0]"),
    ],
    ids=str,
)
def test_loops_have_roles_by_what_moves_along_them(region: Region, wanted: str) -> None:
    core = analyse(region).core
    assert core.streams is not None
    assert any(line.endswith(wanted) for line in str(core).splitlines())


def test_streams_without_a_product_are_loop_nests() -> None:
    for region in (streams.log_sum_exp(), streams.log_softmax(), streams.weighted_mean_2d()):
        core = analyse(region).core
        assert core.legal
        assert core.streams is None


def _more(region: Region, *lets: Any, value: str | None = None) -> Region:
    """The region with more in its body, which its output is instead."""
    (end,) = region.yields
    end = Yield(value or lets[-1].name, end.buffer, end.map)
    return msgspec.structs.replace(region, body=(*region.body, *lets), yields=(end,))


def test_what_has_no_tiles_is_refused_with_a_reason() -> None:
    over, scores, out = (2, 4, 5, 7), (2, 4, 7), (2, 4, 5)
    plain = streams.attention(scale=None)
    other = streams.stream("L2", scores, 1, read("Q0", scores, "i0", "i1", "i2"))
    twice = ewise("Q0", "mul", scores, same("S0", scores), same("S0", scores))
    total = reduction("T", "sum", scores, 1, same("S0", scores))
    both = ewise("Y0", "add", out, same("O0", out), read("L2", out, "i0", "i1"))
    summed = ewise("Y1", "add", out, same("O0", out), read("T", out, "i0", "i1"))
    assert over
    for region, reason in (
        (_more(plain, twice, other, both), "not of one score"),
        (_more(plain, total, summed), "not of one score"),
        (streams.attention(2, 4, 0, 6, 5), "empty"),
        (streams.attention(2, 4, 7, 0, 5), "empty"),
    ):
        core = analyse(region).core
        assert not core.legal
        assert reason in core.reason, core.reason
        assert core.streams is None


def test_scores_that_are_read_again_after_the_streams_are_refused() -> None:
    over = (2, 4, 7)
    region = streams.attention(2, 4, 7, 6, 7, scale=None)
    again = ewise("Y0", "add", over, same("O0", over), same("S0", over))
    core = analyse(_more(region, again)).core
    assert not core.legal
    assert "read" in core.reason


def test_a_repeated_contraction_is_refused() -> None:
    """Scores of one product for several biases: the product would be made once per bias."""
    region = streams.attention(1, 4, 7, 6, 5, scale=None)
    assert analyse(region).core.streams is not None
    scores, out = (3, 4, 7), (3, 4, 5)
    shifted = ewise("S1", "add", scores, read("S0", scores, "0", "i1", "i2"), read("b", scores, "i0"))
    over = (3, 4, 5, 7)
    body = (
        region.body[0],
        shifted,
        streams.stream("A", over, 1, read("S1", over, "i0", "i1", "i3"), read("V", over, "0", "i3", "i2")),
    )
    more = (*region.inputs, msgspec.structs.replace(region.inputs[0], name="b", memref=_memref((3,))))
    outputs = (msgspec.structs.replace(region.outputs[0], memref=_memref(out)),)
    ends = (Yield("A", "O", index_map(out, "i0", "i1", "i2")),)
    changed = Region("several", more, outputs, body, ends)
    assert "would be repeated" in analyse(changed).core.reason


def _memref(shape: tuple[int, ...]) -> Any:
    from ir.region.region import MemRef

    return MemRef(shape, "fp32")


# --- work ---


def test_work_counts_the_products_and_fits_the_cache() -> None:
    region = streams.attention(12, 512, 512, 64, 64)
    target = kernels.target("avx512")
    plans = candidates(region, analyse(region).core, target)
    useful = 2 * 2 * 12 * 512 * 512 * 64
    for plan, work in plans:
        assert isinstance(plan, CpuStreamPlan)
        assert not plan.blocks.dot
        assert useful <= work.flops < 1.3 * useful
        assert work.bytes == 4 * 4 * 12 * 512 * 64  # never the scores
        assert 0 < work.efficiency <= 1
        assert work.scratch <= target.l2_bytes
    assert plans[0][1].occupancy == 1
    assert plans[0][1].efficiency > 0.6
