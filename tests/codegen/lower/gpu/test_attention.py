"""The GPU template of streams in tiles under the emulator against region playback: shapes, masks, dtypes, plans."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import numpy as np
import pytest

from codegen.compile.nvrtc import assemble, build
from codegen.plan.gpu.stream_tiling import check_stream_plan, make_stream_tile
from codegen.plan.stream_mask import last_seen
from codegen.plan.stream_view import stream_view
from codegen.poly.analyse import checked_core
from codegen.simt import Order, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import A100, H100
from ir.diagnostics import EqsatError, Kind
from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.nodes import Barrier, CommitGroup, CpAsync, LdMatrix, StShared, SyncWarp, WaitGroup
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import walk
from ir.plan.plan import Plan
from ir.region.playback import play_region
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness
from tests.support.cpu.changed_plan import sizes, with_fields
from tests.support.cpu.played import Array
from tests.support.gpu.edit import without
from tests.support.gpu.emulated import Emulated, assert_near, lowered, plans_of, stream_plans_of, values_of
from tests.support.gpu.instruction_counts import ptx_counts
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.programs.random_streams import random_streams
from tests.support.programs.regions import buffer, index_map
from tests.support.programs.stream_regions import attention, classifier_log_sum_exp, weighted_rows
from tests.support.sampling import every

SHAPES = [
    *(attention(2, 20, 40, 16, 24, dtype=dtype) for dtype in ("bf16", "fp16", "fp32")),
    attention(1, 33, 47, 40, 72, dtype="bf16"),
    attention(1, 1, 50, 32, 32, dtype="fp16"),
    attention(2, 5, 1, 8, 8, dtype="bf16"),
    attention(1, 1, 1, 1, 1, dtype="bf16"),
    attention(1, 1, 1, 1, 1),
    attention(3, 7, 9, 5, 3, dtype="fp16"),
    attention(1, 4, 9, 6, 300, dtype="bf16"),
    attention(1, 9, 21, 12, 36),
]
MASKED = [
    *(attention(2, 17, 33, 16, 16, causal=True, dtype=dtype) for dtype in ("bf16", "fp32")),
    attention(2, 18, 34, 16, 8, bias=True, mask=True, dtype="fp16"),
    attention(2, 9, 18, 8, 8, bias=True, mask=True, causal=True),
    attention(4, 9, 20, 16, 16, group=2, causal=True, dtype="bf16"),
    attention(4, 9, 20, 16, 16, group=4, mask=True, dtype="bf16"),
    attention(2, 12, 20, 16, 16, keys_first=True, fn="exp2", dtype="bf16"),
    attention(2, 12, 24, 16, 16, key_rows=True, dtype="bf16"),
    attention(2, 12, 24, 16, 16, key_rows=True),
    attention(1, 20, 32, 16, 16, dtype="fp16", acc="fp16"),
    attention(1, 5, 12, 8, 8, dtype="fp64", acc="fp64"),
]
OTHERS = [
    classifier_log_sum_exp(9, 40, 12),
    classifier_log_sum_exp(1, 7, 1),
    weighted_rows(9, 21, 12),
    *map(random_streams, (0, 3, 10, 18, 25, 91)),
]
GROUPS = {"shapes": SHAPES, "masked": MASKED, "others": OTHERS}


def various(one: Region) -> list[Plan]:
    """The best plan, and one far from it."""
    plans = [plan for plan, _ in plans_of(one)]
    assert plans, f"no plan for {one}"
    return [plans[i] for i in sorted({0, len(plans) // 2})]


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_kernels_play_as_the_region(group: str) -> None:
    cases = [(one, plan) for one in GROUPS[group] for plan in various(one)]
    Emulated(cases).assert_all_play(often=(Order.RANDOM, Order.REVERSE))


@every(17)
@pytest.mark.parametrize("group", GROUPS)
def test_many_candidates_play_as_the_region(group: str, step: int) -> None:
    cases = [(one, plan) for one in GROUPS[group] for plan, _ in plans_of(one)]
    Emulated(cases[::step]).assert_all_play(often=tuple(Order))


@every(13)
def test_random_streams_play_as_their_regions(step: int) -> None:
    """Axes in any order, several products, scores from memory, any kind of mask."""
    ones = [one for seed in range(0, 100, step) if plans_of(one := random_streams(seed))]
    assert len(ones) > 80 // step
    emulated = Emulated([(one, [plan for plan, _ in plans_of(one)][i % 3 - 1]) for i, one in enumerate(ones)])
    for i in range(len(ones)):
        emulated.assert_plays(i)


def odd_rows(one: Region, hidden: int) -> dict[str, Array]:
    """Inputs of masked attention of three heads: none seen, all but the first `hidden`, all; the last has NaN and ∞."""
    inputs = values_of(one)
    inputs["mask"][0] = False
    inputs["mask"][1, :hidden] = False
    inputs["mask"][2] = True
    inputs["Q"][2, 0, 0] = np.nan
    inputs["Q"][2, 1, 0] = np.inf
    return inputs


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_rows_without_a_finite_score_are_what_playback_gives(dtype: str) -> None:
    """A masked row is 0 / 0, one with NaN or +inf is NaN; masks before the first score that counts are no trouble."""
    one = attention(3, 6, 40, 8, 8, mask=True, dtype=dtype)
    inputs = odd_rows(one, 35)
    wanted = play_region(one, inputs, wide=True)["O"]
    assert np.isnan(wanted[0]).all()
    assert np.isnan(wanted[2, 0]).all()
    assert np.isfinite(wanted[1]).all()
    emulated = Emulated([(one, plan) for plan in various(one)])
    for i in range(2):
        report, outputs = emulated.run(i, inputs)
        report.require_clean()
        assert_near(outputs["O"].astype(np.float64), wanted, {"bf16": 1e-2, "fp32": 1e-5}[dtype], str(one))


# --- terms that no row of a tile sees ---------------------------------------------------------------


def shifted(m: int, n: int, by: int, fn: str = "cmple", dtype: str = "bf16", group: int = 1) -> Region:
    """Causal attention whose row i sees terms k with `fn`(k, i + by): some rows may see none."""
    one = attention(2, m, n, 16, 16, causal=True, dtype=dtype, group=group)
    ops = {let.name: let.op for let in one.body}
    place = index_map(ops["at_i"].domain, f"i1 + {by}")
    changed = {
        "at_i": msgspec.structs.replace(ops["at_i"], index_map=place),
        "seen": msgspec.structs.replace(ops["seen"], fn=fn),
    }
    body = tuple(msgspec.structs.replace(let, op=changed.get(let.name, let.op)) for let in one.body)
    return msgspec.structs.replace(one, body=body)


BOUNDED = [
    (shifted(70, 70, 0), (0, 69)),
    (shifted(70, 40, 5), (5, 74)),
    (shifted(40, 70, -33), (-33, 6)),
    (shifted(40, 70, 0, "cmplt"), (-1, 38)),
    (shifted(33, 70, 37, dtype="fp32"), (37, 69)),
    (shifted(64, 70, 0, group=2), (0, 63)),
]


@pytest.mark.parametrize(("one", "ends"), BOUNDED, ids=lambda value: "")
def test_the_last_term_that_rows_see(one: Region, ends: tuple[int, int]) -> None:
    view = stream_view(one, checked_core(one))
    assert view is not None
    bound = last_seen(view)
    assert bound is not None
    assert tuple(bound.step * row + bound.shift for row in (0, bound.size - 1)) == ends


@pytest.mark.slow
def test_unseen_terms_are_skipped() -> None:
    """Rows that see nothing are 0 / 0, as in playback; a tile makes the turns that its last row needs."""
    cases = []
    for one, _ in BOUNDED:
        plans = [plan for plan, _ in stream_plans_of(one, exactness=Exactness.RANGE)]
        assert all(plan.tile.stops for plan in plans if plan.tile.lead.bm <= 32)
        cases += [(one, plan) for plan in plans[::4]]
    emulated = Emulated(cases)
    for i in range(len(cases)):
        emulated.assert_plays(i)


def test_hidden_values_reach_the_result_unless_inputs_are_finite() -> None:
    """0 times NaN is NaN: only "range" may leave out what weighs nothing."""
    one = attention(1, 48, 64, 16, 16, causal=True, dtype="bf16")
    inputs = values_of(one)
    values = one.inputs[-1].name
    inputs[values][..., -1, :] = np.nan
    wanted = play_region(one, inputs, wide=True)[one.outputs[0].name]
    [(plan, _), *_] = plans_of(one)
    _, actual = Emulated([(one, plan)]).run(0, inputs)
    assert np.isnan(wanted).all()
    assert np.isnan(actual[one.outputs[0].name].astype(np.float32)).all()


def test_turns_are_those_of_the_last_row() -> None:
    one = attention(1, 64, 64, 16, 16, causal=True, dtype="bf16")
    plan = next(plan for plan, _ in plans_of(one, exactness=Exactness.RANGE) if sizes(plan) == (16, 16, 16))
    all_terms = with_fields(plan, **{"tile.stops": False})
    emulated = Emulated([(one, plan), (one, all_terms)])
    per_turn = 2 * 2  # mma of a turn
    assert emulated.assert_plays(0).counters.mma == (1 + 2 + 3 + 4) * per_turn
    assert emulated.assert_plays(1).counters.mma == 4 * 4 * per_turn


def test_other_masks_bound_nothing() -> None:
    """From above only, and by places alone."""
    ones = [
        attention(mask=True),
        attention(bias=True),
        shifted(9, 9, 0, "cmpge"),
        weighted_rows(9, 21, 12),
    ]
    for one in ones:
        view = stream_view(one, checked_core(one))
        assert view is not None
        assert last_seen(view) is None
        assert all(not plan.tile.stops for plan, _ in stream_plans_of(one, exactness=Exactness.RANGE))


# --- what moves how -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("depth", [64, 128])
def test_no_bank_conflicts(depth: int) -> None:
    one = attention(1, 16, 64, depth, depth, dtype="bf16")
    cases = [(one, plan) for plan, _ in stream_plans_of(one) if plan.tile.lead.bm <= 32 and plan.tile.terms >= 32]
    emulated = Emulated(cases)
    for i, (_, plan) in enumerate(cases):
        counters = emulated.run(i, values_of(one))[0].counters
        assert counters.mma
        assert counters.matrix_bank_conflicts == counters.copy_bank_conflicts == 0, plan
        assert counters.shared_bank_conflicts == 0, plan


def test_scores_and_weights_stay_in_registers() -> None:
    """All that a kernel on tensor cores writes to shared memory are the copies of its inputs."""
    one = attention(2, 64, 64, 64, 64, dtype="bf16", causal=True)
    kernel = lowered(one, plans_of(one)[0][0])
    assert not [stmt for stmt in walk(kernel.body) if isinstance(stmt, StShared)]
    assert {stmt.nbytes for stmt in walk(kernel.body) if isinstance(stmt, CpAsync)} == {16}
    assert {stmt.trans for stmt in walk(kernel.body) if isinstance(stmt, LdMatrix)} == {True, False}


def test_weights_are_rounded_where_the_results_are() -> None:
    def on_tensor_cores(dtype: str, acc: str = "fp32", **others: object) -> set[bool]:
        one = attention(1, 40, 40, 16, 16, dtype=dtype, acc=acc, **others)  # type: ignore[arg-type]
        return {plan.tile.tensor_cores for plan, _ in stream_plans_of(one)}

    assert on_tensor_cores("bf16") == on_tensor_cores("fp16", "fp16") == {True}
    assert on_tensor_cores("fp32") == on_tensor_cores("fp64", "fp64") == {False}
    one = attention(1, 40, 40, 16, 16, dtype="bf16")
    unrounded = msgspec.structs.replace(
        one,
        outputs=(buffer("O", (1, 40, 16)),),
        body=one.body[:-1],
        yields=(msgspec.structs.replace(one.yields[0], value="O0"),),
    )
    assert {plan.tile.tensor_cores for plan, _ in stream_plans_of(unrounded)} == {False}


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("target", [A100, H100], ids=lambda target: target.name)
def test_plans_and_tiles_say_the_same(target: Target) -> None:
    ones = [*SHAPES, *MASKED[:4], classifier_log_sum_exp(9, 40, 12), attention(16, 2048, 2048, 128, 128, dtype="bf16")]
    for one in ones:
        view = stream_view(one, checked_core(one))
        assert view is not None
        plans = stream_plans_of(one, target)
        assert plans
        for plan, work in plans:
            check_stream_plan(view, plan)
            assert plan.tile.threads == work.block_threads
            assert 0 < work.efficiency <= 1
            assert 0 < work.occupancy <= 1
        kernel = lowered(one, plans[0][0])
        assert (kernel.shared_bytes, kernel.threads) == (plans[0][1].scratch, plans[0][1].block_threads)


def test_terms_in_index_order_have_no_plan() -> None:
    assert plans_of(attention(), exactness=Exactness.EXACT) == []


def test_notes_say_what_gave_way() -> None:
    def notes(one: Region) -> set[str]:
        return {note for plan, _ in plans_of(one) for note in plan.notes}

    assert "queries stay in shared memory: registers" in notes(attention(8, 1024, 1024, 128, 128, dtype="bf16"))
    assert "warp_tile 32 → 16 rows: registers" in notes(attention(8, 1024, 1024, 256, 256, dtype="bf16"))
    assert "K: by element, as it is no aligned run of memory" in notes(attention(1, 9, 9, 9, 8, dtype="bf16"))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"sizes": (24, 16, 32)}, Kind.ALIGNMENT_MISMATCH),
        ({"sizes": (32, 16, 24)}, Kind.ALIGNMENT_MISMATCH),
        ({"sizes": (0, 16, 32)}, Kind.MALFORMED_GRAPH),
        ({"warp_m": 8}, Kind.ALIGNMENT_MISMATCH),
        ({"stages": 1, "sizes": (32, 16, 16)}, Kind.MALFORMED_GRAPH),
        ({"stops": True}, Kind.MALFORMED_GRAPH),
        ({"tile.depth": 32}, Kind.ALIGNMENT_MISMATCH),
        ({"arch": "avx2"}, Kind.UNKNOWN_TARGET),
        ({"values": ("K",)}, Kind.MALFORMED_GRAPH),
        ({"scored": None}, Kind.MALFORMED_GRAPH),
        ({"epilogue": ("relu",)}, Kind.MALFORMED_GRAPH),
        ({"tails": ()}, Kind.ALIGNMENT_MISMATCH),
    ],
    ids=str,
)
def test_plans_that_do_not_fit_are_refused(change: dict[str, Any], kind: Kind) -> None:
    change = dict(change)
    one = attention(1, 37, 70, 16, 16, dtype="bf16")
    plan = next(plan for plan, _ in stream_plans_of(one) if sizes(plan) == (32, 16, 32))
    view = stream_view(one, checked_core(one))
    assert view is not None
    scores = plan.tile.scores
    how: dict[str, Any] = {"sizes": sizes(plan), "warp_m": scores.warp_m, "stages": scores.stages, "stops": False}
    how |= {name: change.pop(name) for name in how if name in change}
    result = (how["sizes"], how["warp_m"], how["stages"])
    tile = make_stream_tile(view, *result, held=plan.tile.held, ahead=plan.tile.ahead, stops=how["stops"])
    with pytest.raises(EqsatError) as raised:
        lowered(one, with_fields(plan, **{"tile": tile, **change}))
    assert raised.value.diagnostics[0].kind is kind


@pytest.mark.parametrize(
    "one",
    [
        attention(1, 20, 100, 16, 16, dtype="bf16"),
        attention(1, 20, 100, 16, 17, dtype="bf16"),
        attention(1, 9, 70, 7, 7, dtype="fp16"),
        attention(1, 9, 70, 8, 8),
        attention(1, 40, 100, 16, 16, causal=True, dtype="bf16"),
        classifier_log_sum_exp(9, 70, 8),
    ],
    ids=["halves", "values by element", "all by element", "floats", "causal", "row sums"],
)
def test_no_synchronisation_is_spare(one: Region) -> None:
    """Without any one of them the kernel is refused, or the emulator finds what it was for."""
    plans = [plan for plan, _ in stream_plans_of(one) if plan.tile.scores.stages > 1]
    for plan in (plans[0], plans[-1]):
        _assert_all_needed(one, lowered(one, plan))


def _assert_all_needed(one: Region, kernel: GpuKernel) -> None:
    inputs = [*values_of(one).values(), np.zeros(kernel.params[-1].shape, DTYPES[kernel.params[-1].dtype].numpy)]
    for kind in (Barrier, SyncWarp, WaitGroup, CommitGroup):
        for number in range(sum(isinstance(stmt, kind) for stmt in walk(kernel.body))):
            broken = without(kernel, kind, number)
            with contextlib.suppress(EqsatError):
                verify(broken)
                run = compile_kernels(cuda_text(broken))["eq_k"]
                result = run.launch(broken.grid, inputs, shared_bytes=broken.shared_bytes).findings
                assert result, (kind, number)


# --- compiled -------------------------------------------------------------------------------------

MODELS = {
    f"{dtype} {depth}{' causal' if causal else ''}": attention(16, 2048, 2048, depth, depth, dtype=dtype, causal=causal)
    for dtype, depth, causal in (
        *(("bf16", depth, causal) for depth in (64, 128) for causal in (False, True)),
        ("fp16", 256, False),
        ("bf16", 80, False),
        ("fp32", 64, False),
    )
}


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", pytest.param("sm_90", marks=pytest.mark.exhaustive)])
@every(7)
def test_kernels_compile_without_spills(arch: str, step: int) -> None:
    target, models = A100 if arch == "sm_80" else H100, dict(list(MODELS.items())[::step])
    kernels = [lowered(one, plans_of(one, target)[0][0], f"eq_k{i}") for i, one in enumerate(models.values())]
    results = {kernel.name: kernel for kernel in build("\n".join(map(cuda_text, kernels)), arch).kernels}
    for kernel, name in zip(kernels, models, strict=True):
        result = results[kernel.name]
        assert (result.spills, result.stack, result.lints) == (False, 0, ()), name


@needs_nvrtc
@pytest.mark.exhaustive
def test_no_candidate_spills() -> None:
    cases = [(name, plan, lowered(one, plan)) for name, one in MODELS.items() for plan, _ in plans_of(one)]
    text = "\n".join(cuda_text(kernel).replace(" eq_k(", f" eq_k{i}(") for i, (_, _, kernel) in enumerate(cases))
    spilling = {kernel.name for kernel in build(text, "sm_80").kernels if kernel.spills}
    assert not {(name, sizes(plan)) for i, (name, plan, _) in enumerate(cases) if f"eq_k{i}" in spilling}


@pytest.mark.slow
@needs_nvrtc
def test_instructions_of_a_turn() -> None:
    """A turn of 64 rows by 64 terms at depth 64, warps of 16 rows: 4 steps of 8 mma for the scores and as many for the
    sums, each with 4 ldmatrix; the queries' 4 before it; 4 copies of 16 bytes a thread for keys and for values. The
    last turn stands apart, without copies."""
    one = attention(32, 1024, 1024, 64, 64, dtype="bf16")
    plan = next(
        plan for plan, _ in stream_plans_of(one) if (sizes(plan), plan.tile.scores.warp_m) == ((64, 64, 64), 16)
    )
    counts = ptx_counts(assemble(cuda_text(lowered(one, plan)), "sm_80").ptx)
    assert (counts["mma"], counts["ldmatrix"]) == (2 * 2 * 4 * 8, 2 * 2 * 4 * 4 + 4)
    assert (counts["cp_async_16"], counts["local"]) == (4 + 2 * 2 * 4, 0)
    assert counts["st_global_16"] == 4
