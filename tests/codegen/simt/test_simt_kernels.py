"""Right kernels: no findings, the right numbers, the same bits in every order, and what they count."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

from codegen.simt import Order, compile_kernels
from codegen.simt.compile import Kernels
from codegen.simt.libraries import engine, engine_source
from tests.codegen.simt.gemm import GEMM, Problem
from tests.codegen.simt.small_kernels import RUNNING, SOFTMAX, TOTAL, TURN, running, softmax, total, turn

PLAIN = GEMM.replace("eq_swizzle<2>", "").replace("eq_swizzle<3>", "").replace("eq_gemm", "eq_gemm_plain")
PROBLEMS = [(64, 64, 64), (1, 1, 1), (65, 67, 33), (100, 40, 129), (3, 128, 31), (130, 7, 64), (16, 200, 96)]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return compile_kernels(GEMM + PLAIN + SOFTMAX + TURN + TOTAL + RUNNING)


@pytest.mark.parametrize(("m", "n", "k"), PROBLEMS)
def test_the_product_is_right_and_the_same_in_all_orders(kernels: Kernels, m: int, n: int, k: int) -> None:
    problem = Problem(m, n, k)
    results = []
    for order, seed in [(Order.FORWARD, 0), (Order.REVERSE, 0), *((Order.RANDOM, seed) for seed in range(4))]:
        report, c = problem.launch(kernels["eq_gemm"], order, seed)
        assert not report.findings, report.findings
        assert problem.right(c)
        results.append(c.tobytes())
    assert len(set(results)) == 1


def test_depth_0_gives_zeros(kernels: Kernels) -> None:
    report, c = Problem(5, 9, 0).launch(kernels["eq_gemm"])
    assert not report.findings
    assert not c.any()


def test_an_empty_grid_does_nothing(kernels: Kernels) -> None:
    report, _ = Problem(0, 0, 8).launch(kernels["eq_gemm"])
    assert not report.findings
    assert report.counters.fiber_switches == 0


@pytest.mark.parametrize("order", Order)
def test_small_kernels(kernels: Kernels, order: Order) -> None:
    cases = {"eq_softmax": softmax, "eq_turn": turn, "eq_total": total, "eq_running": running}
    for report, right in (run(kernels[name], order) for name, run in cases.items()):
        assert not report.findings, report.findings
        assert right


def test_what_a_product_counts(kernels: Kernels) -> None:
    report, _ = Problem(128, 64, 96).launch(kernels["eq_gemm"])
    count = report.counters
    blocks, turns, warps = 2, 3, 4
    assert count.mma == blocks * turns * warps * 2 * 8
    assert count.mma_flops == 2 * 128 * 64 * 96
    assert count.ldmatrix == blocks * turns * warps * 2 * 4
    assert count.copy_bytes == blocks * turns * 8192
    assert count.copy_requests == blocks * turns * warps * 4
    assert count.copy_groups == blocks * warps * (2 + turns)
    assert count.copy_waits == blocks * warps * turns
    assert count.barriers == blocks * (turns + 1)
    assert count.warp_syncs == blocks * warps
    assert count.global_load_sectors == blocks * turns * 8192 // 32
    assert count.global_store_sectors == 128 * 64 * 2 // 32
    assert count.global_stores == blocks * warps * 4


def test_swizzles_keep_the_banks_apart(kernels: Kernels) -> None:
    problem = Problem(64, 64, 64)
    swizzled, c = problem.launch(kernels["eq_gemm"])
    plain, same = problem.launch(kernels["eq_gemm_plain"])
    assert np.array_equal(c, same)
    assert not plain.findings
    assert swizzled.counters.matrix_bank_conflicts == swizzled.counters.copy_bank_conflicts == 0
    # Per turn and depth of 16 each warp loads 4 + 4 + 4 + 4 matrices of A and as many of B: rows 64 bytes apart meet in
    # two places (4 to a bank), rows 128 bytes apart in one (8 to a bank).
    assert plain.counters.matrix_bank_conflicts == 2 * 2 * 4 * (8 * 3 + 8 * 7)


def test_counts_do_not_depend_on_the_order(kernels: Kernels) -> None:
    problem = Problem(100, 90, 70)
    counts = {order: problem.launch(kernels["eq_gemm"], order)[0].counters for order in Order}
    for name in counts[Order.FORWARD].__struct_fields__:
        if name != "fiber_switches":
            assert len({getattr(count, name) for count in counts.values()}) == 1, name


def test_the_example_of_the_page_prints_what_it_says() -> None:
    text = (Path(__file__).parents[3] / "docs" / "emulator.md").read_text(encoding="utf-8")
    ((example, answer),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "emulator.md", "exec"), {})
    assert printed.getvalue() == answer


@pytest.mark.slow
def test_random_products_in_random_orders(kernels: Kernels) -> None:
    rng = np.random.default_rng(2026)
    for seed in range(60):
        problem = Problem(*(int(size) for size in rng.integers(1, 200, 3)))
        report, c = problem.launch(kernels["eq_gemm"], Order.RANDOM, seed)
        assert not report.findings, (problem, seed)
        assert problem.right(c), (problem, seed)


@pytest.mark.slow
def test_the_portable_fibers(monkeypatch: pytest.MonkeyPatch) -> None:
    """ucontext in the place of the own switch: the same bits, the same findings."""
    problem = Problem(65, 67, 33)
    own = engine()  # other kernels are joined to it, so that it stays loaded
    report, c = problem.launch(compile_kernels(GEMM)["eq_gemm"])
    source = engine_source()
    monkeypatch.setattr("codegen.simt.libraries.engine_source", lambda: "#define EQ_FIBER_PORTABLE\n" + source)
    engine.cache_clear()
    try:
        portable, same = problem.launch(compile_kernels(GEMM)["eq_gemm"])
    finally:
        monkeypatch.undo()
        engine.cache_clear()
        compile_kernels(GEMM)
    assert engine().path.name == own.path.name  # another test may have had a cache folder of its own
    assert portable == report
    assert np.array_equal(c, same)
