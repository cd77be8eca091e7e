"""Why two kernels are not one: every kind of answer, with what stands behind it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eqsat import EqsatError, nn, optimize_and_compile, tensor
from eqsat.explanation.explore import Exploration, explore
from eqsat.explanation.price_text import span
from eqsat.explanation.why_not import Pairs, WhyNot
from eqsat.extraction.selection import Selection
from tests.support.programs import graphs


@pytest.fixture(scope="module")
def run() -> Exploration:
    """An encoder layer, without streams: its attention is several kernels."""
    return explore(graphs.encoder(1, length=16, width=32, heads=2), rules=["-streams"], target="cpu")


@pytest.fixture(scope="module")
def long_chain() -> Exploration:
    """Functions of functions: a kernel of them all waits longer for each than two kernels move bytes."""
    x = tensor.input("x", (64, 64))
    for _ in range(5):
        x = x.exp() * 0.1 + x.sin()
    return explore(x, target="cpu")


@pytest.mark.slow
def test_every_pair_of_neighbours_has_an_answer(run: Exploration, long_chain: Exploration) -> None:
    answers = [answer for explored in (run, long_chain) for _, _, answer in neighbours(explored)]
    for answer in answers:
        assert answer.reasons or answer.kind == "layout", answer
        assert answer.kind in ("cost", "refused", "rules", "limits", "layout")
        assert answer.verdict in str(answer)
    assert {"cost", "limits"} <= {answer.kind for answer in answers}


def neighbours(run: Exploration) -> list[tuple[int, int, WhyNot]]:
    """The kernels of which one reads what the other writes, and why they are two."""
    pairs = Pairs(run)
    return [
        (first, second, pairs.why_not(first, second))
        for second, kernel in enumerate(run.kernels)
        for first in range(second)
        if set(run.kernels[first].writes) & set(kernel.reads)
    ]


def test_cost_is_told_with_figures(long_chain: Exploration) -> None:
    run = long_chain
    priced = [neighbour for neighbour in neighbours(run) if neighbour[2].kind == "cost"]
    assert priced
    for first, second, answer in priced:
        assert answer.figures["first_ns"] == run.kernels[first].estimated_ns
        assert answer.figures["second_ns"] == run.kernels[second].estimated_ns
        assert math.isfinite(answer.figures["fused_ns"])
        extra = answer.figures.get("extra_ns")
        if extra is not None:
            selection: Selection = run.kernels[second].selection
            assert extra in [rival.extra_ns for rival in selection.rivals]
            assert extra >= 0
            assert f"{span(extra)} longer" in answer.verdict


@pytest.mark.slow
def test_two_contractions_are_two_kernels() -> None:
    tiny = graphs.Tiny()
    x, a, b = (tiny.input(name, 32, 32) for name in "xab")
    program = optimize_and_compile(tiny.graph(tiny.matmul(tiny.op("RELU", tiny.matmul(x, a)), b)), threads=1)
    answer = program.why_not(0, 1)
    assert answer.kind == "limits"
    assert "contraction beside another accumulator" in answer.verdict
    assert answer == program.why_not(1, 0)
    assert answer == program.why_not(program.kernels[0], program.kernels[1].writes[0])


def test_a_read_that_repeats_or_reorders_is_told_with_the_rule_that_would_be_needed() -> None:
    tiny = graphs.Tiny()
    total = tiny.reduce("SUM", tiny.input("x", 64, 48), 1)
    slid = tiny.op("POOL", total, kernel=(3,), stride=(1,))
    graph = tiny.graph(tiny.op("EXP", slid), total)
    program = optimize_and_compile(graph, threads=1, rules=["-reductions", "-products", "-distribution"])
    places = {kernel.writes[0]: place for place, kernel in enumerate(program.kernels)}
    assert len(places) == 2
    answer = program.why_not(0, 1)
    assert answer.kind == "rules"
    said = "\n".join(answer.reasons)
    assert "fuse_epilogue" in said
    assert "`view` reads no element twice" in said
    assert "no rule computes n1, the fp32[64] that" in answer.verdict
    assert "exp reads n1[i0 + i1] for i0<62, i1<3" in said
    assert "not so" not in said


@pytest.mark.slow
def test_each_read_of_a_contraction_would_be_one_more() -> None:
    """A gated product reads its halves at two places: one kernel of both would hold two contractions."""
    x, weights = tensor.input("x", (64, 96)), tensor.input("w", (96, 128))
    gates = x @ weights
    program = optimize_and_compile(gates[:, :64].sigmoid() * gates[:, 64:].tanh(), threads=1, target="cpu")
    answer = program.why_not(0, 1)
    assert answer.kind == "limits"
    assert "once for each of its 2 reads" in "\n".join(answer.reasons)
    assert "1 contraction for each of 2 reads" in "\n".join(answer.reasons)


def test_a_constant_that_lies_in_another_order_is_the_same_constant() -> None:
    weights = tensor.constant(np.random.default_rng(0).standard_normal((32, 40)).astype(np.float32), name="W")
    run = explore((tensor.input("x", (33, 32)) @ weights).relu(), rules=[], target="cpu")
    written = {name for kernel in run.kernels for name in kernel.writes}
    (copy,) = run.orders.keys() - written
    reader = next(place for place, kernel in enumerate(run.kernels) if copy in kernel.reads)
    assert copy.partition("_")[0] in run.chain(reader).end
    assert copy not in run.chain(reader).end
    assert {run.why_not(reader, other).kind for other in (reader - 1, reader + 1)} == {"rules"}


@pytest.mark.slow
def test_a_kernel_that_cannot_be_generated_has_no_price() -> None:
    """The second kernel writes two results of the product; with the product in it, one of them can be generated."""
    product = tensor.input("a", (8, 64), "fp16") @ tensor.input("b", (64, 8), "fp16")
    program = optimize_and_compile([nn.softmax(product * 0.125), product.cast("fp32")], threads=1, target="cpu")
    answer = program.why_not(0, 1)
    assert "nan" not in str(answer)
    assert all(map(math.isfinite, answer.figures.values()))


def test_kernels_that_do_not_touch(run: Exploration) -> None:
    query, key = (kernel for kernel in run.kernels if kernel.writes[0] in ("n33", "n47"))
    answer = run.why_not(query, key)
    assert answer.kind == "refused"
    assert "accumulators of both" in answer.reasons[0]
    assert "both read" in answer.reasons[-1]
    first, last = run.why_not(0, 0), run.why_not(0, -1)
    assert first.kind == "same"
    assert last.kind == "between"
    assert run.kernels[1].writes[0] in last.reasons[0]


def test_a_kernel_that_is_none_is_refused(run: Exploration) -> None:
    with pytest.raises(EqsatError, match="no kernel 'q'"):
        run.why_not("q", 0)
