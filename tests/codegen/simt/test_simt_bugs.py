"""Every planted defect is found and named; so is each synchronising statement that is left out."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.simt import FindingKind, Order, Report, compile_kernels
from codegen.simt.compile import Kernels
from ir.diagnostics import EqsatError, Kind
from tests.codegen.simt.bugs import GEMM_BUGS, RUNNING_BUGS, TOTAL_BUGS, WRONG, Bug
from tests.codegen.simt.deletions import deletions
from tests.codegen.simt.gemm import GEMM, SHARED_BYTES, Problem
from tests.codegen.simt.small_kernels import RUNNING, SOFTMAX, TOTAL, TURN, running, softmax, total, turn

PROBLEM = Problem(m=100, n=90, k=147)
"""Two blocks each way, tails in each axis, five turns of the main loop."""
DELETED = {
    name: (kernel, text)
    for kernel, whole in (
        *(("eq_gemm", GEMM), ("eq_softmax", SOFTMAX), ("eq_turn", TURN)),
        *(("eq_total", TOTAL), ("eq_running", RUNNING)),
    )
    for name, text in deletions(whole, kernel)
}
ORDERING_KINDS = {
    FindingKind.SHARED_RACE,
    FindingKind.COPY_NOT_WAITED_FOR,
    FindingKind.UNINITIALISED_SHARED,
    FindingKind.BLOCK_RACE,
}
SMALL = {"eq_softmax": softmax, "eq_turn": turn, "eq_total": total, "eq_running": running}


@pytest.fixture(scope="module")
def broken() -> Kernels:
    texts = [bug.text for bug in (*GEMM_BUGS, *TOTAL_BUGS, *RUNNING_BUGS)] + [text for _, text in DELETED.values()]
    return compile_kernels("\n".join(texts))


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("bug", GEMM_BUGS, ids=lambda bug: bug.name)
def test_a_planted_defect_is_named(broken: Kernels, bug: Bug, order: Order) -> None:
    report, c = PROBLEM.launch(broken[bug.kernel], order)
    results = [*(finding.kind for finding in report.findings), *([] if PROBLEM.right(c) else [WRONG])]
    assert set(results) & set(bug.expected), results


@pytest.mark.parametrize("bug", [*TOTAL_BUGS, *RUNNING_BUGS], ids=lambda bug: bug.name)
def test_a_planted_defect_of_blocks_that_meet_is_named(broken: Kernels, bug: Bug) -> None:
    result = set()
    for order in Order:
        report, right = SMALL[bug.of](broken[bug.kernel], order)
        result |= {*(finding.kind for finding in report.findings), *([] if right else [WRONG])}
    assert result & set(bug.expected), result


@pytest.mark.parametrize("name", DELETED)
def test_no_synchronising_statement_can_be_left_out(broken: Kernels, name: str) -> None:
    kernel = DELETED[name][0]
    for order in Order:
        report = _run(kernel, broken, name, order)
        assert set(report.kinds) & ORDERING_KINDS, (order, report.findings)


def _run(kernel: str, kernels: Kernels, name: str, order: Order) -> Report:
    if kernel == "eq_gemm":
        return PROBLEM.launch(kernels[name], order)[0]
    return SMALL[kernel](kernels[name], order)[0]


def test_there_is_something_to_leave_out() -> None:
    assert len(DELETED) == 6 + 3 + 2 + 3 + 5


class TestReport:
    """What a finding tells."""

    def test_a_race_names_both_places(self, broken: Kernels) -> None:
        bug = next(bug for bug in GEMM_BUGS if bug.name == "no_staging_barrier")
        report, _ = PROBLEM.launch(broken[bug.kernel])
        race = next(finding for finding in report.findings if finding.kind is FindingKind.SHARED_RACE)
        assert race.place.code.startswith("eq_ldmatrix")
        assert race.first is not None
        assert race.first.code == "eq_st_shared_f16x2(at, acc[i][j]);"
        assert race.first.warp != race.place.warp
        assert race.first.block == race.place.block

    def test_a_race_of_blocks_names_both_blocks(self, broken: Kernels) -> None:
        report, _ = PROBLEM.launch(broken["eq_gemm_blocks_overlap"])
        race = next(finding for finding in report.findings if finding.kind is FindingKind.BLOCK_RACE)
        assert race.buffer == "C"
        assert race.first is not None
        assert race.first.block == (0, 0, 0)
        assert race.place.block == (0, 1, 0)

    def test_bounds_name_the_buffer_and_the_line(self, broken: Kernels) -> None:
        report, _ = PROBLEM.launch(broken["eq_gemm_rows_not_predicated"])
        finding = report.findings[0]
        assert finding.buffer == "A"
        assert finding.offset == 100 * 2 * 152
        assert "eq_cp_async16" in finding.place.code
        assert finding.count > 1

    def test_a_deadlock_names_every_warp(self, broken: Kernels) -> None:
        report, _ = PROBLEM.launch(broken["eq_gemm_a_warp_leaves"])
        places = [finding.place for finding in report.findings if finding.kind is FindingKind.DEADLOCK]
        assert [(place.warp, place.line is None) for place in places] == [(0, False), (1, False), (2, False), (3, True)]
        assert "staging" in places[0].code

    def test_a_divergent_warp_names_its_lanes(self, broken: Kernels) -> None:
        report, _ = PROBLEM.launch(broken["eq_gemm_warp_sync_in_some_lanes"])
        messages = [finding.message for finding in report.findings if finding.kind is FindingKind.DIVERGENT_WARP]
        assert any(
            "lanes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15: waits to sync" in message
            for message in messages
        )

    def test_findings_are_diagnostics(self, broken: Kernels) -> None:
        report, _ = PROBLEM.launch(broken["eq_gemm_no_wait"])
        with pytest.raises(EqsatError) as raised:
            report.require_clean()
        first = raised.value.diagnostics[0]
        assert (first.kind, first.at) == (Kind.KERNEL_FAULT, "eq_gemm_no_wait")
        assert "asynchronous copy" in first.message
        assert first.to_json()["finding"] in ("copy_not_waited_for", "copy_never_waited_for")

    def test_a_useless_copy_is_a_warning(self, broken: Kernels) -> None:
        report, c = PROBLEM.launch(broken["eq_gemm_copies_twice"])
        assert PROBLEM.right(c)
        assert FindingKind.COPY_NEVER_WAITED_FOR not in report.kinds


ENDLESS = """
extern "C" EQ_KERNEL(32, 1) void eq_endless(const eq_f32 *X) {
  while (eq_ld_global_f32(X) == 0) continue;
}
"""


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return compile_kernels(GEMM + ENDLESS)


class TestLaunch:
    """What depends on the launch, not on the text."""

    def launch(self, kernels: Kernels, shared_bytes: int) -> Report:
        a, b, c = PROBLEM.arrays()
        sizes = [PROBLEM.m, PROBLEM.n, PROBLEM.k, a.shape[1], b.shape[1], c.shape[1]]
        return kernels["eq_gemm"].launch(PROBLEM.grid, [a, b, c, *sizes], shared_bytes=shared_bytes)

    def test_too_much_shared_memory(self, kernels: Kernels) -> None:
        report = self.launch(kernels, shared_bytes=163 * 1024 + 1)
        assert report.kinds == (FindingKind.SHARED_LIMIT,)
        assert report.counters.mma == 0

    def test_too_little_shared_memory(self, kernels: Kernels) -> None:
        assert FindingKind.SHARED_BOUNDS in self.launch(kernels, shared_bytes=SHARED_BYTES - 16).kinds

    def test_a_kernel_that_does_not_end(self, kernels: Kernels) -> None:
        report = kernels["eq_endless"].launch((1,), [np.zeros(1, np.float32)], fuel=1000)
        assert report.kinds == (FindingKind.RUNAWAY,)
        assert "while" in report.findings[0].place.code

    def test_a_kernel_may_run_again_after_it_failed(self, kernels: Kernels) -> None:
        assert self.launch(kernels, shared_bytes=SHARED_BYTES - 16).kinds
        assert not self.launch(kernels, shared_bytes=SHARED_BYTES).kinds
