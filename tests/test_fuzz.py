"""The fuzzer finds nothing: in a few tries always, in thousands among the slow tests; and it finds what is wrong."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from eqsat import nn, tensor
from eqsat.model import read_model
from eqsat.tensor import Tensor
from ir.tiny.graph import Graph
from ir.tiny.playback import playback
from tests.support.fuzz.case import Case, case_of, difference
from tests.support.fuzz.corpus import Corpus
from tests.support.fuzz.dying_tries import dying
from tests.support.fuzz.idiom_tries import reduced, run_idioms
from tests.support.fuzz.idioms.program import FAMILIES, MAX_UOPS, written
from tests.support.fuzz.limited import HangError, limited
from tests.support.fuzz.mutated_tries import run_chunk
from tests.support.fuzz.report import Report
from tests.support.fuzz.strategies import random_graph, random_inputs
from tests.support.fuzz.together import Setting
from tests.support.fuzz.workers import fuzz
from tests.support.oracles import plain_numpy
from tests.support.oracles.agree import disagreement
from tests.support.oracles.plain_numpy import evaluate
from tests.support.oracles.whole_numbers import exact_values

SEED = 0
TRIES = 200
JOBS = os.cpu_count() or 1


def ranges(tries: int, length: int) -> list[tuple[int, ...]]:
    return [tuple(range(low, min(low + length, tries))) for low in range(0, tries, length)]


def total_of(kind: str, tries: int, length: int, folder: Path) -> Report:
    total = Report()
    for _, report in fuzz(iter(ranges(tries, length)), kind, SEED, folder, JOBS):
        total.add(report)
    assert not total.findings, "\n".join(map(str, total.findings))
    assert total.tries == tries
    return total


@pytest.mark.slow
def test_a_few_mutated_programs_find_nothing() -> None:
    report = run_chunk(1, range(120))
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.compiled > 10


@pytest.mark.slow
@pytest.mark.parametrize("emulated", [False, True], ids=["cpu", "emulated"])
def test_a_few_idioms_find_nothing(emulated: bool, tmp_path: Path) -> None:
    report = run_idioms(1, range(4 if emulated else 8), tmp_path, lambda index: None, emulated)
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.compiled == report.tries
    assert report.exact


@pytest.mark.slow
def test_mutated_programs_are_right_or_refused(tmp_path: Path) -> None:
    """At least 30 % stay valid programs, one in ten is compiled and run, and nearly all that they compute is
    well-conditioned enough to be held against playback."""
    report = total_of("mutated", TRIES, 100, tmp_path)
    assert report.valid >= 0.3 * TRIES
    assert report.compiled >= 0.1 * TRIES
    assert report.judged >= 0.98 * report.elements


@pytest.mark.slow
def test_programs_of_idioms_are_right(tmp_path: Path) -> None:
    total_of("idioms", 8, 4, tmp_path)
    total_of("emulated", 4, 2, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["idioms", "emulated", "mutated"])
def test_an_hour_of_fuzzing_finds_nothing(kind: str, tmp_path: Path) -> None:
    """Twenty minutes of each kind."""
    until, total = time.monotonic() + 1200, Report()
    endless = (tuple(range(low, low + 16)) for low in range(10_000, 10_000_000, 16))
    limited = iter(lambda: next(endless) if time.monotonic() < until else (), ())
    for _, report in fuzz(limited, kind, SEED, tmp_path, JOBS):
        total.add(report)
    assert not total.findings, "\n".join(map(str, total.findings))


# the generator


@pytest.mark.slow
def test_idioms_are_deterministic_and_all_are_written() -> None:
    names: set[str] = set()
    for index in range(450):
        program = written(3, index, emulated=True)
        names.update(program.idioms)
        assert len(program.graph.nodes) <= MAX_UOPS
        if index % 100 == 0:
            assert written(3, index, emulated=True).graph == program.graph
    assert names == {idiom.__name__ for family in FAMILIES for idiom in family}


# the second evaluator


def test_both_evaluators_agree() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng)
        inputs = random_inputs(graph, rng, specials=seed % 2 == 0)
        verdicts = disagreement(graph, inputs, evaluate(graph, inputs), once=True)
        assert not any(verdict.wrong for verdict in verdicts), (seed, verdicts)


def test_a_misreading_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plain_numpy.POINTWISE, "ROUND", lambda x: np.floor(x + 0.5))
    graph, inputs, _ = drawn([(X(9) * 0.5).round()])
    assert any(verdict.wrong for verdict in disagreement(graph, inputs, evaluate(graph, inputs), once=True))


# the judge


def X(*shape: int) -> Tensor:  # noqa: N802 - a matrix
    return tensor.input("x", shape)


def drawn(outputs: Sequence[Tensor], whole: bool = True) -> tuple[Graph, dict[str, np.ndarray], frozenset[str]]:
    model = read_model(list(outputs))
    bound = model.bind(model.infer({}), False)
    rng = np.random.default_rng(0)
    fresh = {
        name: np.asarray(rng.integers(-3, 4, type_.shape) if whole else rng.standard_normal(type_.shape)).astype(
            type_.dtype.numpy
        )
        for name, type_ in bound.signature.items()
    }
    return bound.graph, {**fresh, **bound.constants}, frozenset(bound.constants)


def test_whole_numbers_have_one_answer_until_something_rounds() -> None:
    x = X(8, 5)
    graph, inputs, _ = drawn([x @ tensor.input("w", (5, 3)), (x * 0.5).floor(), x / 3, nn.softmax(x), x.argmax(-1)])
    certain = exact_values(graph, inputs)
    assert [ref in certain for ref in graph.outputs] == [True, True, False, False, True]
    huge = {**inputs, "x": inputs["x"] * np.float32(2**23)}
    assert graph.outputs[0] not in exact_values(graph, huge)


def test_one_element_off_by_a_bit_is_seen_where_there_is_one_answer() -> None:
    graph, inputs, _ = drawn([X(8, 5) @ tensor.input("w", (5, 3))])
    (right,) = playback(graph, inputs)
    assert not difference(graph, inputs, [right], Setting())
    off = np.where(np.arange(24).reshape(8, 3) == 7, np.nextafter(right, np.float32(99)), right)
    assert "bit for bit" in difference(graph, inputs, [off], Setting())


def test_two_roundings_of_one_value_are_seen() -> None:
    """Some element of a softmax equals the greatest, whatever its rounding; kernels that round it twice find none."""
    p = nn.softmax(X(8, 16) @ tensor.input("w", (16, 4)))
    graph, inputs, _ = drawn([(p == p.max(-1, keepdims=True)).sum(-1)], whole=False)
    (right,) = playback(graph, inputs)
    assert not any(verdict.wrong for verdict in disagreement(graph, inputs, [right], once=True))
    none = right.copy()
    none[3] = 0
    assert any(verdict.wrong for verdict in disagreement(graph, inputs, [none], once=True))


def test_nan_of_infinities_may_be_another_value_above_exact() -> None:
    """c·Σx is inf where Σ(c·x) is NaN; what comes of a NaN stays one, and a number stays that number."""
    graph, *_ = drawn([(X(3, 4) * tensor.input("c", (1, 4))).sum(0)])
    x = np.ones((3, 4), np.float32)
    x[:, 1], x[0, 2] = (-1, -math.inf, 2), math.nan
    given = {"x": x, "c": np.asarray([[1, -math.inf, 1, 1]], np.float32)}
    (right,) = playback(graph, given)
    assert np.isnan(right[1:3]).all()

    def is_wrong(*result: float, exact: bool) -> bool:
        return disagreement(graph, given, [np.asarray(result, np.float32)], exact=exact)[0].wrong > 0

    assert not is_wrong(3, math.inf, math.nan, 3, exact=False)
    assert is_wrong(3, math.inf, math.nan, 3, exact=True)
    assert is_wrong(3, math.nan, 3, 3, exact=False)
    assert is_wrong(3, math.nan, math.nan, math.inf, exact=False)


def test_a_count_may_see_another_value_than_nan_of_infinities() -> None:
    """max(x + c) may be max(x) + c: equal to an infinity of the row where a NaN as written equals nothing."""
    v = X(3, 4) + tensor.input("c", (1, 4))
    graph, *_ = drawn([(v == v.max(axis=0)).sum(0).cast("fp16")])
    x = np.ones((3, 4), np.float32)
    x[1:, 1] = -math.inf, 5
    given = {"x": x, "c": np.asarray([[1, math.inf, 1, 1]], np.float32)}

    def is_wrong(*result: float, exact: bool) -> bool:
        return disagreement(graph, given, [np.asarray(result, np.float16)], exact=exact)[0].wrong > 0

    assert not is_wrong(3, 0, 3, 3, exact=True)
    assert not is_wrong(3, 2, 3, 3, exact=False)
    assert is_wrong(3, 2, 3, 3, exact=True)
    assert is_wrong(3, 0, 2, 3, exact=False)


@pytest.mark.slow
def test_limits_of_time_nest() -> None:
    """A hang is seen within a limit, and the limit around it holds afterwards."""

    def hang_twice() -> None:
        with contextlib.suppress(HangError), limited(1):
            spin()
        spin()

    with pytest.raises(HangError, match="2 s of CPU"), limited(2):
        hang_twice()


@pytest.mark.slow
def test_who_waits_is_no_hang_until_much_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a program that needs 7 s of CPU took a minute of wall clock."""
    monkeypatch.setattr("tests.support.fuzz.limited.WAITING", 2)
    with limited(1):
        time.sleep(1.2)
    with pytest.raises(HangError, match="2 s of wall clock"), limited(1):
        time.sleep(60)


def spin() -> None:
    while True:
        pass


# findings


def test_a_finding_is_reduced_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that fails where it has a POOL of some size becomes that POOL, and reads back from its file."""

    def complaint(case: Case) -> tuple[str, str]:
        return ("compile", "a POOL") if any(node.uop == "POOL" for node in case.graph.nodes) else ("", "")

    monkeypatch.setattr(Case, "complaint", complaint)
    y = nn.avg_pool2d(tensor.input("x", (2, 3, 8, 8)).relu() + 1, 3).exp()
    graph, inputs, constants = drawn([y, y.sum(1)])
    case = Case(graph, inputs, constants, Setting("sm_80", "exact"), 2)
    small, result = reduced(case, ("compile", "a POOL"), lambda: None)
    assert result == ("compile", "a POOL")
    assert [node.uop for node in small.graph.nodes] == ["INPUT", "POOL"]
    again = case_of(small.to_json())
    assert (again.graph, again.setting, again.threads) == (small.graph, small.setting, 2)
    assert all(np.array_equal(again.inputs[name], array) for name, array in small.inputs.items())


# the workers


@pytest.mark.slow
def test_what_kills_or_hangs_a_worker_is_found(tmp_path: Path) -> None:
    total = Report()
    for _, report in fuzz(iter(ranges(16, 8)), "idioms", SEED, tmp_path, 2, dying, silent_seconds=4):
        total.add(report)
    assert total.tries == 16
    assert sorted(finding.index for finding in total.findings) == [5, 9, 13]


def test_a_corpus_goes_on_where_it_was(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path, "idioms", 0)
    take = corpus.ranges(4)
    first, second = next(take), next(take)
    assert corpus.done(second, Report(tries=4, features={"idiom pad": 1})) == ["idiom pad"]
    again = Corpus(tmp_path, "idioms", 0)
    left = again.ranges(4)
    assert (next(left), next(left)) == (first, (8, 9, 10, 11))
    assert again.total.tries == 4
