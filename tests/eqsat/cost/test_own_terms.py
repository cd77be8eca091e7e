"""Cost terms of a caller: they decide the cover, and a wrong one is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import CostModel, EqsatError, optimize_and_compile
from eqsat import tensor as t
from eqsat.cost.own_terms import KernelEstimate
from eqsat.options import check_options, chosen_terms
from eqsat.runtime.program import Program
from ir.diagnostics import Kind
from ir.pricer import Parts

WRONG: dict[str, Callable[[KernelEstimate], Any]] = {
    "returned nan": lambda kernel: math.nan,
    "returned inf": lambda kernel: math.inf,
    "returned -1.0": lambda kernel: -1.0,
    "returned None": lambda kernel: None,
    "returned True": lambda kernel: True,
    "returned '1'": lambda kernel: "1",
    "raised ZeroDivisionError": lambda kernel: kernel.work.flops / 0,
    "raised AttributeError": lambda kernel: kernel.flops,  # type: ignore[attr-defined]
    "raised TypeError": lambda: 1.0,  # type: ignore[misc, dict-item]
}


def chain() -> t.Tensor:
    return (t.input("x", (64, 64)).exp() + 1).sum(1) + 2


def at_most_two_ops(kernel: KernelEstimate) -> float:
    return 1e9 if len(kernel.region.body) > 2 else 0


@pytest.fixture(scope="module")
def unfused() -> Program:
    return optimize_and_compile(chain(), target="cpu", cost_model={"size": at_most_two_ops})


def test_a_term_decides_the_cover(unfused: Program) -> None:
    assert len(optimize_and_compile(chain(), target="cpu").kernels) == 1
    assert [len(kernel.uops) for kernel in unfused.kernels] == [2, 1, 1]
    x = np.ones((64, 64), np.float32)
    np.testing.assert_allclose(unfused(x), (np.exp(x) + 1).sum(1) + 2, rtol=1e-5)


def test_terms_are_added_changed_and_left_out() -> None:
    terms: Mapping[str, Any] = {
        "launch": lambda kernel: 2 * kernel.parts.launch + 7,
        "energy": lambda kernel: np.float32(kernel.work.bytes / 1e3),
        "layout": None,
        "memory": True,
    }
    plain = optimize_and_compile(chain(), target="cpu", cost_model="-layout")
    own = optimize_and_compile(chain(), target="cpu", cost_model=terms)
    (before,), (after,) = plain.explained()["kernels"], own.explained()["kernels"]
    assert after["price"]["own"] == {"energy": pytest.approx(16.64)}
    assert after["price"]["launch"] == 2 * before["price"]["launch"] + 7
    assert after["price"]["layout"] == 0
    added = before["price"]["launch"] + 7 + 16.64
    assert after["estimated_ns"] == pytest.approx(before["estimated_ns"] + added)
    assert "+ energy 16.6 ns" in own.explain()


def test_the_largest_term_of_a_callers_own_is_the_bound() -> None:
    parts = Parts(1.0, 2.0, 0.0, 0.0, 0.0, 0.5, own=(("energy", 3.0),))
    assert (parts.time, parts.bound) == (5.5, "energy")


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_term_is_named_with_its_kernel(said: str) -> None:
    with pytest.raises(EqsatError) as caught:
        optimize_and_compile(chain(), target="cpu", cost_model={"mine": WRONG[said]})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.kind is Kind.INVALID_OPTION
    assert diagnostic.message.startswith(f"the cost term 'mine' {said}")
    assert diagnostic.at
    assert "ns" in str(diagnostic.hint)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({}, "names no term"),
        ({"launches": None}, "no term 'launches' to leave out"),
        ({"launches": True}, "no term 'launches' to keep"),
        ({"occupancy": at_most_two_ops}, "'occupancy' is no time"),
        ({"own": False}, "no term 'own'"),
        ({"mine": 3.0}, "'mine' cannot be 3.0"),
        ({"a b": at_most_two_ops}, "'a b' is no name"),
        ({1: at_most_two_ops}, "1 is no name"),
    ],
)
def test_what_is_no_term_is_refused(wanted: Any, said: str) -> None:
    with pytest.raises(EqsatError, match="InvalidOption") as caught:
        chosen_terms(wanted)
    assert said in str(caught.value)


class Energy(CostModel):
    """Terms that are added, replaced and left out; `rate` and `_scaled` are no terms."""

    without = ("layout",)
    rate = 1e3

    def launch(self, kernel: KernelEstimate) -> float:
        return 2 * super().launch(kernel) + 7

    def energy(self, kernel: KernelEstimate) -> float:
        return self._scaled(kernel.work.bytes)

    def _scaled(self, count: float) -> float:
        return count / self.rate


class Doubled(Energy):
    without = ("energy",)

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def launch(self, kernel: KernelEstimate) -> float:
        return self.factor * super().launch(kernel)


def test_a_subclass_has_the_terms_of_its_methods() -> None:
    plain, own, doubled = (
        optimize_and_compile(chain(), target="cpu", cost_model=model).explained()["kernels"][0]["price"]
        for model in ("-layout", Energy, Doubled(3.0))
    )
    assert own["own"] == {"energy": pytest.approx(16.64)}
    assert own["launch"] == 2 * plain["launch"] + 7
    assert own["layout"] == 0
    assert "own" not in doubled or not doubled["own"]
    assert doubled["launch"] == 3 * own["launch"]


def test_a_subclass_without_terms_is_the_cost_model() -> None:
    class Same(CostModel):
        pass

    assert chosen_terms(Same()) == chosen_terms(CostModel) == chosen_terms("roofline")
    model = Energy()
    assert chosen_terms(model) == chosen_terms(model)


class NoMethod(CostModel):
    launch = 5_000.0  # type: ignore[assignment]


class Unknown(CostModel):
    without = "launches"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (NoMethod, "NoMethod.launch is 5000.0, and no method"),
        (Unknown(), "no term 'launches' to leave out"),
        (Doubled, "Doubled cannot be made without arguments"),
    ],
)
def test_a_subclass_that_is_no_cost_model_is_refused(wanted: Any, said: str) -> None:
    with pytest.raises(EqsatError, match="InvalidOption") as caught:
        chosen_terms(wanted)
    assert said in str(caught.value)


def test_programs_with_own_terms_are_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two functions of one name are two programs, whatever lies in the cache."""
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path))

    def cost_with(ns: float) -> float:
        return optimize_and_compile(chain(), target="cpu", cost_model={"mine": lambda kernel: ns}).cost

    costs = [cost_with(ns) for ns in (0, 9)]
    assert costs[1] - costs[0] == pytest.approx(9)
    assert not list(tmp_path.glob("programs/*"))


def test_one_function_has_one_reference() -> None:
    first, again = (check_options(None, "rounding", "pareto", {"mine": at_most_two_ops}, None) for _ in range(2))
    assert first == again


def test_a_loaded_program_runs_without_its_terms(
    unfused: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in another process, which does not have the functions: only what asks for prices names them."""
    unfused.save(tmp_path / "program.eqsat")
    monkeypatch.setattr("eqsat.cost.own_terms._ADMITTED", {})
    loaded = eqsat.load(tmp_path / "program.eqsat")
    x = np.zeros((64, 64), np.float32)
    np.testing.assert_array_equal(loaded(x), unfused(x))
    assert loaded.explain() == unfused.explain()
    with pytest.raises(EqsatError, match="a cost term of its caller's, size"):
        loaded.plans(loaded.kernels[0].name)
