"""Every rule: sound on random instances, and it fires in the engine; unsound rules are caught."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from eqsat.egraph.loading import Marked
from ir.diagnostics import EqsatError, Kind
from ir.dtype import TensorType, dtype
from ir.term.language import App, Contract, Fact, Fin, Imm, Load, PBin, PUn, Pure, PView, Reduce, Sort, Store, subterms
from ir.term.playback import evaluate
from ir.term.rule import Certificate, Exactness, Rule, pattern_variables
from ir.term.text import type_text
from rules import RULES
from rules import analyses as known
from rules.certificates import certificate
from rules.concatenation import InputPlace
from rules.instances import Instance
from rules.primitives import domain, moves, reads_all
from rules.rational import NotRational, exact_value
from rules.soundness import applications, check
from tests.support.oracles.egraph_values import describe, node_values
from tests.support.sampling import one_in
from tests.support.stages.terms import saturate_terms

p, q, r, b, m, n, o, t, d, c, k, v = pattern_variables("p:P q:P r:P b:B m:S n:S o:S t:S d:S c:S k:S v:S")
DEAR = (
    *("tiles_of_2x2_for_right_weights_of_3x3", "tiles_of_4x4_for_right_weights_of_3x3"),
    *("tiles_of_2x2_for_left_weights_of_5x5", "tiles_of_2x2_for_right_weights_of_5x5"),
)
"""Rules whose instances take seconds each; those of one axis, and those for left weights of 3×3, are made alike."""
by_name = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


@one_in(7, RULES, dear=DEAR)
def test_both_sides_agree(rule: Rule) -> None:
    assert check(rule, np.random.default_rng(1), instances=5) == 5


@pytest.mark.exhaustive
@by_name
def test_both_sides_agree_on_many(rule: Rule) -> None:
    assert check(rule, np.random.default_rng(2), instances=1000, attempts=200_000) == 1000


@pytest.mark.slow
@one_in(7, RULES, dear=DEAR)
def test_it_fires_and_the_egraph_stays_sound(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rules.tiles.LEAST_RESULTS", 1)
    rng = np.random.default_rng(3)
    for instance in islice(_instances(rule, rng), 40):
        terms = _with_buffers(*(_stored(term, instance) for term in (instance.term, *instance.others)))
        view, stats = saturate_terms(terms, [rule], Exactness.RANGE, marks=_marks(rule, instance, terms))
        if not stats.matches[rule.name]:
            continue  # a fact that steers the search, such as HasFin, does not hold here
        assert stats.families == {rule.family: stats.matches[rule.name]}
        for number, node, value, first in node_values(view, instance.inputs, wide=True):
            assert value.shape == first.shape, describe(view, number, node)
            close = np.allclose(value.astype(float), first.astype(float), rtol=1e-6, atol=1e-6, equal_nan=True)
            assert close, describe(view, number, node)
        return
    pytest.fail(f"{rule.name} never fires")


def _instances(rule: Rule, rng: np.random.Generator) -> Iterator[Instance]:
    """Instances of ordinary numbers to which the rule applies, with as many accumulators as it asks to be stored."""
    stored = sum(isinstance(condition, Fact) and condition.analysis is known.Reduced for condition in rule.when)
    for instance, _ in applications(rule, rng, 40_000):
        result = sum(isinstance(subterm, App) and subterm.ctor is Fin for subterm in subterms(instance.term))
        if instance.is_plain and result >= stored:
            yield instance


def _with_buffers(*roots: App) -> list[tuple[str, App]]:
    """The terms and every buffer within them, so that each counts as computed."""
    below = (subterm for root in roots for subterm in subterms(root))
    buffers = dict.fromkeys(term for term in below if isinstance(term, App) and term.ctor.result is Sort.BUF)
    return [(f"b{position}", buffer) for position, buffer in enumerate(buffers)]


def _marks(rule: Rule, instance: Instance, terms: list[tuple[str, App]]) -> Marked:
    """All that can be given holds for every buffer; what the rule calls A and B are the first inputs of a group."""
    names = [name for name, _ in terms]
    count = 2 if "of_all" in rule.name else 3
    place = {instance.binding.get(letter): InputPlace(0, count, at, at) for at, letter in enumerate("AB")}
    return {
        **dict.fromkeys((*known.GIVEN, known.LowRank, known.Merged, known.Parted), names),
        known.Place: {name: str(place[term]) for name, term in terms if term in place},
    }


def _stored(term: App, instance: Instance) -> App:
    """The term as what a kernel stores."""
    value = evaluate(term, instance.inputs)
    type_ = type_text(TensorType.of(dtype(value.dtype), value.shape))
    match term:
        case App(ctor=ctor) as term if ctor.result is Sort.BUF:
            return term
        case App(ctor=ctor) as term if ctor.result is Sort.PRO:
            return Store(Pure(term), type_)
        case App(ctor=ctor) as term if ctor.result is Sort.ACC:
            return Store(Fin(term), type_)
        case term:
            return Store(term, type_)


UNSOUND = {
    "a slice taken for the whole": Rule(
        "slice", "bad", "T[m(i)] = p", Load(Store(Pure(p), t), m), p, (domain(m),)
    ),
    "a guard forgotten at an immediate": Rule(
        "imm", "bad", "v(n(i)) = v", PView(Imm(d, v, k), n), Imm(d, v, domain(n))
    ),
    "a guard pushed through any op": Rule(
        "push", "bad", "o(p)(n(i)) = o(p(n(i)))", PView(PUn(o, d, p), n), PUn(o, d, PView(p, n))
    ),
    "subtraction commutes": Rule(
        "commute", "bad", "p − q = q − p", PBin("sub", d, p, q), PBin("sub", d, q, p)
    ),
    "a maximum of products is a contraction": Rule(
        "contract", "bad", "max p·q = Σ p·q", Reduce("max", d, k, PBin("mul", d, p, q)), Contract(d, k, p, q),
        exactness=Exactness.ROUNDING,
    ),
    "integer casts vanish": Rule(
        "cast", "bad", "cast(p) = p", Contract(d, k, PUn("cast", c, p), q), Contract(d, k, p, q)
    ),
    "the sign of a zero": Rule(
        "sign", "bad", "p + 0 = p", PBin("add", d, p, Imm(d, "0.0", k)), p
    ),
    "a cast that wraps": Rule(
        "wrap", "bad", "cast(cast(p)) = cast(p)", PUn("cast", d, PUn("cast", c, p)), PUn("cast", d, p)
    ),
    "another order of sums, said to be exact": Rule(
        "order", "bad", "(p + q) + r = p + (q + r)",
        PBin("add", d, PBin("add", d, p, q), r), PBin("add", d, p, PBin("add", d, q, r)),
    ),
    "an overflow, said to be a rounding": Rule(
        "overflow", "bad", "ln eᵖ = p", PUn("log", d, PUn("exp", d, p)), p, exactness=Exactness.ROUNDING
    ),
    "what NumPy broadcasts and the language does not": Rule(
        "shape", "bad", "v·p = v·p", PBin("mul", d, Imm(d, v, k), p), PBin("mul", d, Imm(d, v, "[]"), p)
    ),
    "x·0 = 0 for infinities too": Rule(
        "zero", "bad", "p·0 = 0", PBin("mul", d, p, Imm(d, v, k)), Imm(d, v, k),
        (reads_all("[] -> []", "fp32[]"),),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("rule", UNSOUND.values(), ids=UNSOUND.keys())
def test_an_unsound_rule_is_caught(rule: Rule) -> None:
    with pytest.raises(EqsatError) as caught:
        check(rule, np.random.default_rng(4), instances=400)
    assert caught.value.kind is Kind.UNSOUND_RULE


@pytest.mark.slow
def test_an_overflow_of_a_narrow_dtype_may_vanish_with_its_cast_but_not_come() -> None:
    scaled = PBin("mul", "fp32", p, Imm("fp32", "100000.0", k))
    narrow = PUn("cast", "fp32", PUn("cast", "fp16", scaled))
    drop = Rule("drop", "fair", "cast(p·v) ≈ p·v", narrow, scaled, exactness=Exactness.ROUNDING)
    assert check(drop, np.random.default_rng(8), instances=100) == 100
    for unfair in (replace(drop, exactness=Exactness.EXACT), replace(drop, lhs=scaled, rhs=narrow)):
        with pytest.raises(EqsatError):
            check(unfair, np.random.default_rng(8), instances=100)


@one_in(7, RULES, dear=DEAR)
def test_what_is_certified_as_exact_is_compared_in_fractions(rule: Rule) -> None:
    if certificate(rule) is not Certificate.EXACT:
        return
    rng = np.random.default_rng(6)
    compared = 0
    for instance, rhs in applications(rule, rng, 8_000):
        try:
            compared += np.array_equal(exact_value(instance.term, instance.inputs), exact_value(rhs, instance.inputs))
        except NotRational:
            continue
        if compared == 4:
            return
    assert compared


def test_a_rule_whose_condition_never_holds_has_no_instances() -> None:
    never = Rule("never", "bad", "p = p", PView(p, n), PView(p, n), (moves("[] -> []", "fp32[]"),))
    assert check(never, np.random.default_rng(5), attempts=100) == 0
