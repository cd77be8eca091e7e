"""Defects planted into right kernels, one each, and what must be said of them."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.simt import FindingKind
from tests.codegen.simt.gemm import GEMM
from tests.codegen.simt.small_kernels import RUNNING, TOTAL

WRONG = "wrong_result"
"""In the place of a finding: nothing is undefined, the numbers are another program's."""


@dataclass(frozen=True)
class Bug:
    """`old` becomes `new` in the text `whole` of the kernel `of`, everywhere; any of `expected` names it."""

    name: str
    old: str
    new: str
    expected: tuple[str, ...]
    whole: str = GEMM
    of: str = "eq_gemm"

    @property
    def kernel(self) -> str:
        return f"{self.of}_{self.name}"

    @property
    def text(self) -> str:
        assert self.old in self.whole, self.name
        return self.whole.replace(self.old, self.new).replace(self.of, self.kernel)


_WAIT = "eq_cp_async_wait<1>();"
_BARRIER = "eq_barrier();  // main loop"
_STAGING_BARRIER = "eq_barrier();  // the stages become the output's staging"
_MAIN_COMMIT = "eq_cp_async_commit();  // main loop"
_STAGE = "const unsigned stage = 8192 * (tile % 3);"

GEMM_BUGS = (
    Bug("no_wait", _WAIT, "", (FindingKind.COPY_NOT_WAITED_FOR,)),
    Bug("wait_one_group_less", _WAIT, "eq_cp_async_wait<2>();", (FindingKind.COPY_NOT_WAITED_FOR,)),
    Bug("no_prologue_commit", "eq_cp_async_commit();  // prologue", "", (FindingKind.COPY_NOT_WAITED_FOR,)),
    Bug("no_main_commit", _MAIN_COMMIT, "", (FindingKind.COPY_NOT_WAITED_FOR,)),
    Bug("no_main_barrier", _BARRIER, "", (FindingKind.SHARED_RACE,)),
    Bug(
        "wait_after_barrier",
        f"{_WAIT}\n    {_BARRIER}",
        f"eq_barrier();\n    {_WAIT}",
        (FindingKind.SHARED_RACE, FindingKind.COPY_NOT_WAITED_FOR),
    ),
    Bug("no_staging_barrier", _STAGING_BARRIER, "", (FindingKind.SHARED_RACE,)),
    Bug("no_warp_sync", "eq_sync_warp();", "", (FindingKind.SHARED_RACE,)),
    Bug("warp_sync_for_barrier", _BARRIER, "eq_sync_warp();", (FindingKind.SHARED_RACE,)),
    Bug(
        "reads_next_stage",
        _STAGE,
        "const unsigned stage = 8192 * ((tile + 1) % 3);",
        (FindingKind.COPY_NOT_WAITED_FOR,),
    ),
    Bug("fills_next_stage", "8192 * (next % 3)", "8192 * ((next + 2) % 3)", (FindingKind.COPY_NOT_WAITED_FOR,)),
    Bug("fills_stage_in_use", "8192 * (next % 3)", "8192 * (tile % 3)", (FindingKind.SHARED_RACE,)),
    Bug("copies_twice", "if (next < tiles) {", "if (next <= tiles) {", (FindingKind.COPY_NEVER_WAITED_FOR,)),
    Bug("swizzled_on_one_side", "eq_swizzle<2>(64 * row + 16 * chunk)", "64 * row + 16 * chunk", (WRONG,)),
    Bug("other_swizzle", "eq_swizzle<3>(128 * row", "eq_swizzle<2>(128 * row", (WRONG,)),
    Bug(
        "rows_not_predicated",
        "row < M ? eq_clip(2LL * (K - k), 16) : 0",
        "eq_clip(2LL * (K - k), 16)",
        (FindingKind.GLOBAL_BOUNDS,),
    ),
    Bug(
        "depth_not_predicated",
        "row < M ? eq_clip(2LL * (K - k), 16) : 0",
        "row < M ? 16 : 0",
        (WRONG, FindingKind.GLOBAL_BOUNDS),
    ),
    Bug(
        "b_rows_not_predicated",
        "k < K ? eq_clip(2LL * (N - col), 16) : 0",
        "eq_clip(2LL * (N - col), 16)",
        (FindingKind.GLOBAL_BOUNDS,),
    ),
    Bug("store_not_predicated", "row < M && col + 8 <= N", "true", (FindingKind.GLOBAL_BOUNDS,)),
    Bug(
        "store_misaligned",
        "eq_st_global_16_if(row < M && col + 8 <= N, to,",
        "eq_st_global_16_if(row < M && col + 8 <= N, to + 1,",
        (FindingKind.MISALIGNED,),
    ),
    Bug("shared_misaligned", "80 *", "72 *", (FindingKind.MISALIGNED,)),
    Bug(
        "copy_misaligned",
        "A + (long long)row * lda + k,",
        "A + 1 + (long long)row * lda + k,",
        (FindingKind.MISALIGNED,),
    ),
    Bug("another_lanes_fragment", "16 * j + lane % 4 * 4", "16 * j + lane % 2 * 4", (FindingKind.SHARED_RACE,)),
    Bug("fragment_words_swapped", "b[j / 2] + j % 2 * 2", "b[j / 2] + (1 - j % 2) * 2", (WRONG,)),
    Bug("lanes_turned", "lane % 16, chunk = 2 * kk + lane / 16", "lane / 2, chunk = 2 * kk + lane % 2", (WRONG,)),
    Bug("barrier_in_one_warp", _BARRIER, "if (warp == 0) eq_barrier();", (FindingKind.DIVERGENT_BARRIER,)),
    Bug(
        "barrier_in_some_lanes",
        _STAGING_BARRIER,
        "if (lane < 16) eq_barrier(); else return;",
        (FindingKind.DIVERGENT_BARRIER,),
    ),
    Bug("warp_sync_in_some_lanes", "eq_sync_warp();", "if (lane < 16) eq_sync_warp();", (FindingKind.DIVERGENT_WARP,)),
    Bug(
        "ldmatrix_in_some_lanes",
        "eq_ldmatrix_x4(a[i],",
        "if (lane < 16) eq_ldmatrix_x4(a[i],",
        (FindingKind.DIVERGENT_WARP,),
    ),
    Bug("a_warp_leaves", _STAGING_BARRIER, f"if (warp == 3) return;\n  {_STAGING_BARRIER}", (FindingKind.DEADLOCK,)),
    Bug(
        "a_turn_more",
        "for (int tile = 0; tile < tiles; tile++) {",
        "for (int tile = 0; tile < tiles + warp % 2; tile++) {",
        (FindingKind.DIVERGENT_BARRIER,),
    ),
    Bug("blocks_overlap", "row0 = 64 * eq_block_y()", "row0 = 32 * eq_block_y()", (FindingKind.BLOCK_RACE,)),
    Bug("warps_overlap", "warp % 2 * 32;", "warp % 2 * 16;", (FindingKind.GLOBAL_RACE,)),
    Bug("stage_too_far", _STAGE, "const unsigned stage = 8192 * (tile % 4);", (FindingKind.SHARED_BOUNDS,)),
    Bug(
        "stage_never_filled",
        "if (tile < tiles) {",
        "if (tile < tiles - 1 && tile < 1) {",
        (FindingKind.UNINITIALISED_SHARED,),
    ),
    Bug(
        "stores_to_input",
        "eq_f16 *to = C + (long long)row * ldc + col;",
        "eq_f16 *to = (eq_f16 *)A + (long long)row * lda;",
        (FindingKind.READ_ONLY_STORE,),
    ),
    Bug("fragment_too_far", "acc[i][j] + 2);", "&acc[i + 1][j][2]);", (FindingKind.REGISTER_BOUNDS,)),
    Bug(
        "a_fragment_more",
        "for (int i = 0; i < 2; i++) {\n        const int row = warp_row",
        "for (int i = 0; i <= 2; i++) {\n        const int row = warp_row",
        (FindingKind.REGISTER_BOUNDS,),
    ),
    Bug(
        "more_than_a_chunk",
        "row < M ? eq_clip(2LL * (K - k), 16)",
        "row < M ? eq_clip(2LL * (K - k), 32)",
        (FindingKind.BAD_OPERAND,),
    ),
)


def _of_total(name: str, old: str, new: str, *expected: str) -> Bug:
    return Bug(name, old, new, expected, TOTAL, "eq_total")


_TICKET = "const int before = eq_ticket(tickets, blocks);"

TOTAL_BUGS = (
    _of_total(
        "fence_after_ticket", f"eq_fence();\n    {_TICKET}", f"{_TICKET}\n    eq_fence();", FindingKind.BLOCK_RACE
    ),
    _of_total(
        "other_threads_fence",
        "if (thread == 0) {\n    eq_fence();",
        "if (thread == 1) eq_fence();\n  if (thread == 0) {",
        FindingKind.BLOCK_RACE,
    ),
    _of_total(
        "fence_before_barrier",
        "eq_barrier();\n  bool last = false;\n  if (thread == 0) {\n    eq_fence();",
        "if (thread == 0) eq_fence();\n  eq_barrier();\n  bool last = false;\n  if (thread == 0) {",
        FindingKind.BLOCK_RACE,
    ),
    _of_total(
        "counter_not_reset", "eq_ticket(tickets, blocks)", "eq_ticket(tickets, blocks + 1)", FindingKind.COUNTER_LEFT
    ),
    _of_total(
        "counter_too_short", "eq_ticket(tickets, blocks)", "eq_ticket(tickets, blocks - 1)", FindingKind.COUNTER_LEFT
    ),
    _of_total("first_for_last", "before == blocks - 1", "before == 0", FindingKind.BLOCK_RACE),
    _of_total("number_for_ticket", "last = before == blocks - 1", "last = block == blocks - 1", FindingKind.BLOCK_RACE),
    _of_total("one_thread_goes_on", "if (eq_barrier_or(last))", "if (last)", WRONG),
    _of_total("counter_of_each", "eq_ticket(tickets,", "eq_ticket(tickets + block,", FindingKind.GLOBAL_BOUNDS),
    _of_total("parts_overlap", "parts + 64 * block + thread", "parts + 32 * block + thread", FindingKind.BLOCK_RACE),
)


def _of_running(name: str, old: str, new: str, *expected: str) -> Bug:
    return Bug(name, old, new, expected, RUNNING, "eq_running")


_AWAIT = "eq_await(arrived + earlier, blocks - earlier)"

RUNNING_BUGS = (
    _of_running("never_waits", _AWAIT, "continue", FindingKind.BLOCK_RACE),
    _of_running(
        "waits_for_one_less",
        "earlier < part; earlier += 64",
        "earlier < part - 1; earlier += 64",
        FindingKind.BLOCK_RACE,
    ),
    _of_running("number_of_block", "eq_ticket(starts, blocks)", "eq_block_x()", FindingKind.DEADLOCK),
    _of_running("waits_for_itself", "    eq_ticket(arrived + part, blocks - part);\n", "", FindingKind.DEADLOCK),
    _of_running("waits_for_later", _AWAIT, "eq_await(arrived + blocks - 1 - earlier, blocks)", FindingKind.DEADLOCK),
    _of_running("count_too_high", "arrived + part, blocks - part", "arrived + part, blocks", FindingKind.COUNTER_LEFT),
    _of_running("count_too_low", _AWAIT, "eq_await(arrived + earlier, blocks - earlier - 1)", FindingKind.DEADLOCK),
    _of_running("one_counter", "arrived + earlier", "arrived", FindingKind.DEADLOCK),
    _of_running("too_far", "arrived + earlier", "arrived + blocks + earlier", FindingKind.GLOBAL_BOUNDS),
)
