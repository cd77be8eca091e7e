"""Every generated mutant of every rule is killed, steers the search only, applies to nothing, or is explained."""

from __future__ import annotations

import pytest

from ir.term.language import Fact, subterms
from ir.term.rule import Rule
from rules import RULES
from rules.proof import is_proved
from tests.rules.equivalent import EQUIVALENT
from tests.rules.mutants import Verdict, judge, mutants, originals, survivors

ORIGINALS = originals()
QUICK = (
    *("view_of_imm", "compose_index", "view_through_gather", "reduce_nothing", "fuse_epilogue_in_place"),
    *("compose_epilogue_views", "reduce_widening_cast"),
)


def explained(rule: Rule) -> set[str]:
    return {change for name, change in EQUIVALENT if name == rule.name}


@pytest.mark.exhaustive
@pytest.mark.parametrize("rule", ORIGINALS, ids=lambda rule: rule.name)
def test_survivors_are_those_that_are_explained(rule: Rule) -> None:
    assert set(survivors(rule)) == explained(rule)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_survivors_of_a_few(name: str) -> None:
    rule = next(rule for rule in ORIGINALS if rule.name == name)
    assert set(survivors(rule)) == explained(rule)


@pytest.mark.slow
def test_every_explanation_is_of_a_mutant() -> None:
    written = {(rule.name, mutant.change) for rule in ORIGINALS for mutant in mutants(rule)}
    assert set(EQUIVALENT) <= written


@pytest.mark.exhaustive
def test_no_mutant_that_is_killed_has_a_proof() -> None:
    """The proofs are checked, too: by the counterexamples."""
    wrong = [
        f"{rule.name}: {mutant.change}"
        for rule in filter(is_proved, ORIGINALS)
        for mutant in mutants(rule)
        if is_proved(mutant.rule) and judge(rule, mutant) is Verdict.KILLED
    ]
    assert not wrong


def test_what_steers_is_no_value() -> None:
    facts = ((rule.name, subterm) for rule in RULES for subterm in subterms(rule.rhs) if isinstance(subterm, Fact))
    assert not [(name, str(fact)) for name, fact in facts if fact.analysis.steers]
