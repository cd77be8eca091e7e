"""torch's own samples of its operators: a slice of them, and how they are counted."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the torch door needs torch")
pytest.importorskip("expecttest", reason="torch's samples need expecttest")

from bench.opinfo import table  # noqa: E402 - only where torch is installed
from bench.opinfo.run_samples import (  # noqa: E402
    AS_TRACED,
    RIGHT,
    RIGHT_IN_FP64,
    UNSUPPORTED,
    WRONG,
    Outcome,
    by_kernels,
    by_playback,
    run_samples,
)
from bench.opinfo.samples import DTYPES, Sample, operators, samples_of, tolerances  # noqa: E402
from tests.support.sampling import every  # noqa: E402

FINE = {RIGHT, AS_TRACED, RIGHT_IN_FP64, UNSUPPORTED, "untraceable", "out of scope"}
FAST = ("add", "cat", "gather", "scatter_reduce.mean", "nn.functional.conv2d", "masked.var", "sort", "floor_divide")


def outcomes_of(name: str, element: str, step: int) -> list[Outcome]:
    info = operators(name)[name]
    return run_samples(samples_of(info, element, step), by_playback, tolerances(info, element), 60, 40)


@pytest.mark.slow
@pytest.mark.parametrize("element", DTYPES)
def test_samples_of_some_operators_are_right(element: str) -> None:
    for name in FAST:
        for outcome in outcomes_of(name, element, 25):
            assert outcome.kind in FINE, (name, outcome)


@every(90)
def test_no_sample_of_an_operator_is_wrong(step: int) -> None:
    """The operators whose number the step divides, and of each of them so few samples."""
    for name in list(operators())[::step]:
        for outcome in outcomes_of(name, "float32", step):
            assert outcome.kind in FINE, (name, outcome)


@pytest.mark.slow
def test_kernels_run_several_samples_as_one_program() -> None:
    info = operators("add")["add"]
    outcomes = run_samples(samples_of(info, "float32", 3), by_kernels, tolerances(info, "float32"), 60, 40)
    assert {outcome.kind for outcome in outcomes} == {RIGHT}


def test_a_failing_sample_leaves_the_others_of_its_program_right() -> None:
    x = torch.ones(3, 3)
    leaves, form = torch.utils._pytree.tree_flatten((x, (), {}))
    good = Sample(torch.neg, leaves, form, [-x])
    bad = Sample(lambda y: torch.linalg.svd(y).S, leaves, form, [torch.linalg.svd(x).S])
    kinds = [outcome.kind for outcome in run_samples([good, bad, good], by_playback, {}, 60, 4)]
    assert kinds == [RIGHT, UNSUPPORTED, RIGHT]


def test_another_result_than_eager_is_wrong() -> None:
    x = torch.ones(3, 3)
    leaves, form = torch.utils._pytree.tree_flatten((x, (), {}))
    sample = Sample(torch.neg, leaves, form, [-x])
    (outcome,) = run_samples([sample], lambda graph, tensors: [1.1 * x for x in graph(*tensors)], {}, 60, 4)
    assert outcome.kind == WRONG


def test_a_row_counts_samples_by_outcome_and_reason() -> None:
    row = table.counts([Outcome(RIGHT), Outcome(WRONG, "0.1"), Outcome(WRONG, "0.1"), Outcome(UNSUPPORTED, "aten.qr")])
    assert row == {"samples": 4, "right": 1, "wrong": {"0.1": 2}, "unsupported": {"aten.qr": 1}}
