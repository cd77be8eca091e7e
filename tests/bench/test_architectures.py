"""The comparison of transformers' architectures, on stand-ins for models: transformers is not installed here."""

# mypy: allow-subclassing-any, allow-untyped-calls
from __future__ import annotations

import math
import os
from typing import Any

import pytest
import torch

from bench import architectures
from bench.architectures import CRASHED, OUT_OF_SCOPE, RANDOM, RIGHT, WRONG, Verdict, difference
from bench.own_process import CrashError, call_alone


class Twice(torch.nn.Module):
    """A model whose results are x + x in a mapping, and a number. `noise`: what eager adds, in turns with 0."""

    def __init__(self, noise: float) -> None:
        super().__init__()
        self.noise, self.calls = noise, 0

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"twice": (x + x,), "count": 2}

    def __call__(self, **batch: torch.Tensor) -> Any:
        self.calls += 1
        results = super().__call__(**batch)
        return {"twice": (results["twice"][0] + self.noise * (self.calls % 2),), "count": 2}


def test_verdicts(monkeypatch: Any) -> None:
    def of(model: Any) -> Verdict:
        monkeypatch.setattr(architectures, "_in_eager", lambda *_: (model, {"x": torch.ones(3)}))
        monkeypatch.setattr(torch, "compile", lambda model, **_: lambda x: {"twice": (2 * x + shift,)})
        return architectures.run(("stand-in", "Twice", 100))

    shift = 0.0
    assert of(Twice(0.0)).kind == RIGHT
    shift = 1.0
    assert (of(Twice(0.0)).kind, of(Twice(0.0)).error) == (WRONG, 0.5)
    assert of(Twice(5.0)).kind == RANDOM


def test_what_transformers_cannot_build_is_out_of_scope(monkeypatch: Any) -> None:
    def refuse(*_: Any) -> Any:
        raise architectures._OutOfScopeError("no such size\nat line 3")

    monkeypatch.setattr(architectures, "_in_eager", refuse)
    verdict = architectures.run(("stand-in", "Twice", 100))
    assert (verdict.kind, verdict.reason) == (OUT_OF_SCOPE, "no such size")


def test_a_process_that_dies_is_a_crash(monkeypatch: Any) -> None:
    with pytest.raises(CrashError, match="code 3"):
        call_alone(os._exit, 3, start="fork")
    monkeypatch.setattr(architectures, "call_alone", lambda run, task: call_alone(os._exit, 3, start="fork"))
    verdict = architectures.run_alone(("stand-in", "Twice", 100))
    assert (verdict.kind, verdict.reason) == (CRASHED, "the process ended with code 3")


def test_results_of_other_types_are_wrong() -> None:
    ones = torch.ones(2)
    assert architectures._error([ones], [ones.double()]) == math.inf
    assert architectures._error([ones], []) == math.inf
    assert architectures._error([ones, ones], [ones, 1.5 * ones]) == 0.5


def test_differences_from_the_stored_verdicts_are_named() -> None:
    verdict = Verdict("bert", WRONG, "")
    assert difference(verdict, {"bert": {"kind": RIGHT}}) == "bert: right → wrong result "
    assert difference(verdict, {}) == "bert: not run → wrong result "
    assert not difference(verdict, {"bert": {"kind": WRONG}})
