"""The kernels of `bench.peers`: one definition serves eqsat and torch, and rows say what was measured."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from bench.peers.__main__ import bytes_of, geometric_mean, row_of
from bench.peers.kernels import attention, gather, kernels, linear, rms_norm, sums
from bench.peers.limits import Limits
from bench.peers.systems import kernel_in_eqsat, kernel_in_torch
from bench.turns import CannotRunError, Times, measure
from docs import make_performance
from tests.bench.failing_case import differing, failing

LIMITS = Limits(1e12, {1e6: 1e11, float("inf"): 1e10})
SMALL = {
    kernel.name: kernel
    for kernel in (
        linear(3, 8, 5, "gelu"),
        linear(4, 8, 6, dtype="bfloat16"),
        attention(2, 5, 5, 8, causal=True),
        rms_norm(3, 10),
        gather(11, 4, 6),
        sums(0, 5, 7),
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_both_compute_the_same(name: str) -> None:
    kernel = SMALL[name]
    ours, theirs = kernel_in_eqsat(kernel, 1)(), kernel_in_torch(kernel, 1)()
    np.testing.assert_allclose(ours, theirs, rtol=kernel.tolerance, atol=kernel.tolerance)


def test_a_row_says_who_is_fastest_and_how_far_the_limit_is() -> None:
    name = "gelu(x·a+b)·z+x 4M"
    times = {"eqsat": Times(0.01, 0.02, 0.03), "torch": Times(0.02, 0.04, 0.05), "xla": Times(0.02, 0.03, 0.05)}
    row = row_of(name, times, {"openvino": "no such operator"}, LIMITS)
    assert row["fastest other"] == "xla"
    assert row["times as fast"] == 1.5
    assert row["share of the limit"] == pytest.approx(5 * (16 << 20) / 1e10 / 0.02, rel=1e-2)
    assert row["absent"] == {"openvino": "no such operator"}
    assert geometric_mean([0.5, 2.0]) == 1.0


@pytest.mark.slow
def test_a_gather_moves_the_rows_of_its_index() -> None:
    assert bytes_of(kernels()["gather 4096 of 30522×768"]) == 2 * 4096 * 768 * 4


def test_the_page_of_speeds_is_that_of_the_results() -> None:
    assert make_performance.FILE.read_text(encoding="utf-8") == make_performance.text()


@pytest.mark.slow
def test_a_system_that_cannot_run_a_case_is_left_out_with_its_reason() -> None:
    absent: dict[str, str] = {}
    assert list(measure(failing, 1, 1, absent.__setitem__)) == ["first"]
    assert absent == {"other": "ValueError: no such operator"}
    with pytest.raises(SystemExit) as ended:
        measure(failing, 1, 1)
    assert isinstance(ended.value.__cause__, CannotRunError)


@pytest.mark.slow
def test_a_system_whose_output_differs_from_most_is_left_out() -> None:
    absent: dict[str, str] = {}
    assert list(measure(partial(differing, "third"), 1, 1, absent.__setitem__)) == ["first", "second"]
    assert absent == {"third": "first and third differ by 5.0e-01"}
    for skip in (None, absent.__setitem__):
        with pytest.raises(SystemExit, match="first and second differ"):
            measure(partial(differing, "first"), 1, 1, skip)
