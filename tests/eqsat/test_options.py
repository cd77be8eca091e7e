"""The keywords of the public calls: what is no choice is InvalidOption and says what there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.cost import ALL_TERMS, Terms
from eqsat.options import Budget, Options, checked_options, checked_threads, exactness_named
from ir.diagnostics import EqsatError, Kind
from ir.rule import Exactness

DEFAULTS: dict[str, Any] = {
    "rules": None,
    "exactness": "rounding",
    "extractor": "pareto",
    "cost_model": "roofline",
    "budget": None,
}


@pytest.fixture(scope="module")
def program() -> Program:
    return optimize_and_compile(t.input("x", (3,)) + 1, threads=1)


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(EqsatError) as caught:
        call()
    assert caught.value.kind is Kind.INVALID_OPTION, str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("rules", 3, "fusion"),
        ("rules", ["fushion"], "fusion"),
        ("rules", [["fusion"]], "fusion"),
        ("rules", np.array("fusion"), "movement"),
        ("exactness", "roughly", "reassociate"),
        ("exactness", [], "reassociate"),
        ("exactness", None, "reassociate"),
        ("extractor", "magic", "greedy"),
        ("extractor", [], "greedy"),
        ("cost_model", "guess", "roofline"),
        ("cost_model", {}, "roofline"),
        ("budget", 3, "Budget"),
        ("budget", Budget(nodes="a"), "nodes"),
        ("budget", Budget(nodes=-1), "nodes"),
        ("budget", Budget(iterations=2.5), "iterations"),
        ("budget", Budget(copies=None), "copies"),
        ("budget", Budget(seconds=-1.0), "seconds"),
        ("budget", Budget(seconds=float("nan")), "seconds"),
        ("budget", Budget(seconds="soon"), "seconds"),
    ],
)
def test_what_is_no_choice_is_refused(option: str, value: Any, word: str) -> None:
    assert word in refused(lambda: checked_options(**{**DEFAULTS, option: value}))


def test_choices_are_kept() -> None:
    assert checked_options(**DEFAULTS) == Options()
    terms = Terms(launch=False)
    chosen = checked_options("fusion", Exactness.EXACT, "greedy", terms, Budget(nodes=5, seconds=0.5))
    assert chosen == Options(("fusion",), Exactness.EXACT, "greedy", terms, Budget(nodes=5, seconds=0.5))
    assert checked_options(["fusion", "casts"], "exact", "tree", "roofline", None).rules == ("fusion", "casts")
    assert checked_options(**DEFAULTS).cost_model is ALL_TERMS
    assert exactness_named("reassociate") is Exactness.REASSOCIATE
    assert (checked_threads(None, 7), checked_threads(np.int64(2), 7)) == (7, 2)


def test_the_public_calls_refuse_what_is_no_option(program: Program, tmp_path: Path) -> None:
    source = t.input("x", (3,)) + 1
    for keywords in (
        {"threads": 0},
        {"threads": True},
        {"threads": "two"},
        {"verify": "yes"},
        {"strict": None},
        {"cache": np.ones(2)},
        {"progress": 3},
        {"constants": [1]},
        {"constants": 0},
    ):
        (name,) = keywords
        assert name in refused(lambda keywords=keywords: optimize_and_compile(source, **keywords))
    assert "repeats" in refused(lambda: program.profile(np.ones(3, np.float32), repeats="x"))
    for path in (None, 3, "", "a\0b"):
        refused(lambda path=path: eqsat.load(path))
        refused(lambda path=path: program.save(path))
    refused(lambda: program.save(tmp_path))
    assert "plan" in refused(lambda: program.dump("plans"))
    refused(lambda: program.dump([]))
    refused(lambda: program.random_inputs("x"))
