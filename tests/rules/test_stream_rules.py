"""Streams as rules: each is of use where there is no attention, and none captures a variable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqsat import nn, tensor
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind
from ir.index.expr import axis, box_of
from ir.index.map import axis_map, parse_map
from ir.term.language import App, Contract, PMax, Primitive, PUn, PView, Reduce, Scan, subterms
from ir.term.rule import Exactness, pattern_variables
from ir.term.text import parse_sizes
from rules import FAMILIES, RULES, rule_named, select
from rules.primitives import domain, picks, several
from rules.soundness import check
from tests.support.oracles.canary import saturate
from tests.support.programs.attention import MEANS, Program, graph_of, log_sum_exp


def scaled_rows() -> Tensor:
    """Rows divided by their sum, then multiplied: the divisor waits."""
    x = tensor.input("x", (6, 8))
    return (x / x.sum(-1, keepdims=True)) @ tensor.input("w", (8, 3))


def scaled_half_rows() -> Tensor:
    x = tensor.input("x", (6, 8), "fp16")
    return (x / tensor.input("r", (6, 1), "fp16")) @ tensor.input("w", (8, 3), "fp16")


def normalised_then_projected() -> Tensor:
    return nn.rms_norm(tensor.input("x", (6, 8), "fp16")) @ tensor.input("w", (8, 3), "fp16")


def log_softmax() -> Tensor:
    return nn.log_softmax(tensor.input("x", (6, 8)))


def mean_by_powers_of_two() -> Tensor:
    s, v = tensor.input("s", (9, 4)), tensor.input("v", (9, 4))
    powers = (s - s.max(0, keepdims=True)).exp2()
    return (powers * v).sum(0) / powers.sum(0)


CHAIN: dict[str, Program] = {
    "divisor_of_left_operand": scaled_rows,
    "divisor_of_narrow_left_operand": scaled_half_rows,
    "drop_narrowing_cast_left": normalised_then_projected,
    "finish_on_chip": log_softmax,
    "greatest_along_its_axis": log_softmax,
    "stream_sum": log_sum_exp,
    "stream_weighted_left": mean_by_powers_of_two,
    "stream_weighted_right": MEANS["mean_of_quotients"],
    "nest_scores": MEANS["log_sum_exp_of_logits"],
    "nest_into_maximum": MEANS["log_sum_exp_of_logits"],
}
"""A program that is no attention for every rule that attention needs beside those that fuse."""


@pytest.mark.parametrize("rule", CHAIN)
def test_it_fires_where_there_is_no_attention(rule: str) -> None:
    _, stats = saturate(graph_of(CHAIN[rule]), RULES)
    assert stats.matches[rule]


def test_every_rule_of_the_family_has_such_a_program() -> None:
    assert {rule.name for rule in FAMILIES["streams"]} <= CHAIN.keys()


@pytest.mark.parametrize("rule", CHAIN)
def test_it_knows_of_one_reduction_only(rule: str) -> None:
    reductions = [subterm for subterm in subterms(rule_named(rule).lhs)
                  if isinstance(subterm, App) and subterm.ctor in (Reduce, Contract, Scan)]  # fmt: skip
    assert len(reductions) <= 1


def test_the_default_level_has_them() -> None:
    assert {rule.name for rule in select()} >= CHAIN.keys()
    assert not [rule for rule in select(["streams"], Exactness.REASSOCIATE) if rule.name.startswith("stream_")]


def _captured(view: str, sizes: str) -> str:
    """(i, k) ↦ (m(i, k), k): the row that m reads may change with k."""
    read, counts = parse_map(view), parse_sizes(sizes)
    if read.is_empty or read.sizes[len(read.sizes) - len(counts) :] != counts:
        return ""
    own = [axis(len(read.sizes) - len(counts) + at, box_of(read.sizes)) for at in range(len(counts))]
    return str(axis_map(read.sizes, (*read.exprs, *own), read.guards))


captured = Primitive(_captured)


@pytest.mark.slow
def test_a_maximum_that_is_read_at_the_reduced_variable_is_refused() -> None:
    """Σₖ exp(A[k, k] − maxⱼ A[k, j]): the maximum belongs to a row that changes with k."""
    p, d, k, m = pattern_variables("p:P d:S k:S m:S")
    rule = rule_named("greatest_along_its_axis")
    lifted = captured(m, k)
    wrong = replace(rule, rhs=PUn("cast", d, PMax(domain(m), k, PView(p, lifted))), when=(several(k), rule.when[2]))
    with pytest.raises(EqsatError) as refused:
        check(wrong, np.random.default_rng(1), instances=200, attempts=60_000)
    assert refused.value.kind is Kind.UNSOUND_RULE


@pytest.mark.parametrize(
    ("view", "type_", "sizes", "holds"),
    [
        ("[4,8] -> [i0, i1]", "fp32[4,8]", "[8]", True),
        ("[4,3,8] -> [i0, i2]", "fp32[4,8]", "[8]", True),
        ("[8,4] -> [i1, i0]", "fp32[4,8]", "[4]", True),
        ("[4,8] -> [i0]", "fp32[4]", "[8]", False),
        ("[4,8] -> [i0, 0]", "fp32[4,1]", "[8]", False),
        ("[4,8] -> [i0, i1]", "fp32[4,9]", "[8]", False),
        ("[4,8] -> [i0 + i1]", "fp32[11]", "[8]", False),
        ("[6,8] -> [i0//3, i1]", "fp32[2,8]", "[8]", False),
        ("[4,8] -> [i0, i1] if 1<=i1<8 else 0", "fp32[4,8]", "[8]", False),
        ("[4,3,1] -> [i0, i1]", "fp32[4,3]", "[3,1]", True),
    ],
)
def test_scores_are_read_whole(view: str, type_: str, sizes: str, holds: bool) -> None:
    assert bool(picks.fn(view, type_, sizes)) == holds


def test_several_points() -> None:
    assert [bool(several.fn(sizes)) for sizes in ("[]", "[1]", "[1,1]", "[0]", "[2,0]", "[2]", "[1,3]")] == [
        *([False] * 5),
        *([True] * 2),
    ]
