"""What each family of algebra gains: small programs, their covers without the family and with it, and their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from eqsat.assembly.assemble import assemble
from eqsat.egraph.saturate import saturate
from eqsat.extraction.extract import extract
from ir.term.rule import Exactness, Rule
from ir.tiny.graph import Graph
from rules import FAMILIES, RULES, select
from tests.support.oracles.module_playback import play_module
from tests.support.programs.graphs import Tiny
from tests.support.stages.path import complaint, pricer

BIG = (64, 512)


class Case(NamedTuple):
    """A program, the family and the rules that better it, and the level they need."""

    family: str
    rules: str
    graph: Callable[[], Graph]
    level: Exactness = Exactness.ROUNDING


class Cover(NamedTuple):
    kernels: int
    flops: float
    time_ns: float


def _program(build: Callable[[Tiny, str], str], *shape: int, dtype: str = "fp32") -> Callable[[], Graph]:
    def graph() -> Graph:
        t = Tiny(dtype)
        return t.graph(build(t, t.input("x", *(shape or BIG))))

    return graph


def _row_scaled_sum(t: Tiny, x: str) -> str:
    rows, size = t.shape(x)
    return t.reduce("SUM", t.op("FDIV", x, t.spread(t.input("r", rows), 1, size)), 1)


def _mean_of_means(t: Tiny, x: str) -> str:
    rows = t.op("MUL", t.reduce("SUM", x, 1), 1 / t.shape(x)[1])
    return t.op("MUL", t.reduce("SUM", rows, 0), 1 / t.shape(x)[0])


def _bert_mask(t: Tiny, x: str) -> str:
    kept = t.cast(t.op("CMPGT", x, 0.0), "fp32")
    return t.op("MUL", t.op("SUB", 1.0, kept), -1e4)


def _rms(t: Tiny, x: str) -> str:
    mean = t.op("FDIV", t.reduce("SUM", t.op("POW", x, 2.0), 1), float(t.shape(x)[1]))
    scale = t.op("FDIV", 1.0, t.op("SQRT", t.op("ADD", mean, 1e-5)))
    return t.op("MUL", x, t.spread(scale, 1, t.shape(x)[1]))


def _masked_by_size(t: Tiny, x: str) -> str:
    shape = t.shape(x)
    index = t.op("IOTA", shape=shape, axis=1, dtype="i32")
    inside = t.op("CMPLT", t.op("ADD", t.op("MUL", index, 2), 1), 2 * shape[1] + 1)
    return t.op("WHERE", inside, t.op("EXP", x), x)


def _positions(t: Tiny, x: str) -> str:
    """Every second row of a table, by an index that is computed."""
    rows, width = t.shape(x)
    index = t.op("MUL", t.op("IOTA", shape=(rows // 2, width), axis=0, dtype="i32"), 2)
    return t.op("RELU", t.op("GATHER", x, index, axis=0))


def _log_softmax(t: Tiny, x: str) -> str:
    return t.op("LOG", t.softmax(x))


CASES = {
    "x/3 + 0": Case("algebra", "divide_by_number add_positive_zero",
                    _program(lambda t, x: t.op("ADD", t.op("FDIV", x, 3.0), 0.0))),
    "((x·2 − 1) − 1)/4": Case(
        "algebra", "subtract_a_number regroup_numbers divide_by_power_of_two",
        _program(lambda t, x: t.op("FDIV", t.op("SUB", t.op("SUB", t.op("MUL", x, 2.0), 1.0), 1.0), 4.0))),
    "−(−x) − (−x)": Case("algebra", "involution subtract_negative",
                         _program(lambda t, x: t.op("SUB", t.op("NEG", t.op("NEG", x)), t.op("NEG", x)))),
    "relu(relu(x))": Case("algebra", "idempotent_unary", _program(lambda t, x: t.op("RELU", t.op("RELU", x)))),
    "⌊⌊i/3⌋/5⌋ mod 8": Case(
        "algebra", "divide_twice remainder_by_power_of_two",
        _program(lambda t, x: t.op("MOD", t.op("IDIV", t.op("IDIV", x, 3), 5), 8), dtype="i32")),
    "softmax": Case("algebra", "quotient", _program(lambda t, x: t.softmax(x))),
    "rms norm": Case("elementary", "square recip_of_sqrt", _program(_rms)),
    "x^0.75": Case("elementary", "power_three_quarters", _program(lambda t, x: t.op("POW", x, 0.75))),
    "log(softmax)": Case("elementary", "log_of_quotient", _program(_log_softmax), Exactness.RANGE),
    "(1 − mask)·−10⁴": Case("logic", "cast_of_bool number_and_chosen_numbers binary_of_chosen_numbers",
                           _program(_bert_mask)),
    "¬(x = 0) ? x : 1": Case("logic", "not_of_comparison",
                             _program(lambda t, x: t.op("WHERE", t.op("NOT", t.op("CMPEQ", x, 0.0)), x, 1.0))),
    "2i + 1 < 2n + 1": Case("indices", "index_and_number compare_index_with_number", _program(_masked_by_size)),
    "T[2i]": Case("indices", "index_and_number gather_by_index", _program(_positions)),
    "mean of means": Case("reductions", "factor_of_sum nested_sums", _program(_mean_of_means)),
    "Σₖ x[i,k]/r[i]": Case("reductions", "invariant_divisor", _program(_row_scaled_sum)),
    "max relu(2x)": Case(
        "reductions", "rising_op_of_extremum positive_factor_of_extremum",
        _program(lambda t, x: t.reduce("MAX", t.op("RELU", t.op("MUL", x, 2.0)), 1))),
    "max of max": Case("reductions", "nested_extrema",
                       _program(lambda t, x: t.reduce("MAX", t.reduce("MAX", x, 1), 0))),
    "Σ (x + 1)": Case("reductions", "addend_of_sum",
                      _program(lambda t, x: t.reduce("SUM", t.op("ADD", x, 1.0), 1)), Exactness.RANGE),
    "Σ of fp16·3": Case("reductions", "factor_of_narrow_sum",
                        _program(lambda t, x: t.reduce("SUM", t.op("MUL", x, 3.0), 1), dtype="fp16")),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_family_gains_and_the_result_stays(name: str) -> None:
    case = CASES[name]
    graph = case.graph()
    others = tuple(rule for rule in select(exactness=case.level) if rule.family != case.family)
    before, _, _ = _covered(graph, others, case.level)
    after, fired, wrong = _covered(graph, select(exactness=case.level), case.level)
    assert not wrong
    assert set(case.rules.split()) <= fired
    assert after.kernels <= before.kernels
    gains = after.flops < before.flops or after.kernels < before.kernels or after.time_ns < before.time_ns
    assert gains, (before, after)
    assert after.time_ns <= before.time_ns * (1 + 1e-9)


def _covered(graph: Graph, rules: tuple[Rule, ...], level: Exactness) -> tuple[Cover, set[str], str]:
    view, stats = saturate(graph, rules, level)
    module, prices = assemble(extract(view, graph.outputs, pricer()), view, graph)
    inputs = _inputs(graph)
    wrong = complaint(graph, inputs, play_module(module, inputs))
    flops = sum(price.work.flops for price in prices)
    cover = Cover(len(prices), flops, sum(price.time_ns for price in prices))
    return cover, {name for name, count in stats.matches.items() if count}, wrong


def _inputs(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    types = {node.arg["tensor_id"]: graph.types[node.id] for node in graph.nodes if node.uop == "INPUT"}
    return {name: (3 * rng.standard_normal(type_.shape)).astype(type_.dtype.numpy) for name, type_ in types.items()}


def test_every_family_of_algebra_has_a_case() -> None:
    assert {case.family for case in CASES.values()} == {"algebra", "elementary", "logic", "indices", "reductions"}
    known = {rule.name for rule in RULES}
    for case in CASES.values():
        assert set(case.rules.split()) <= known
        assert all(any(rule.name == name for rule in FAMILIES[case.family]) for name in case.rules.split())


if __name__ == "__main__":
    print(f"{'program':22} {'family':11} {'kernels':>9} {'flops':>21} {'estimated ns':>21}")
    for name, case in CASES.items():
        graph = case.graph()
        chosen = select(exactness=case.level)
        without = tuple(rule for rule in chosen if rule.family != case.family)
        a, b = (_covered(graph, rules, case.level)[0] for rules in (without, chosen))
        cells = (f"{x:,.0f} → {y:,.0f}" for x, y in zip(a, b, strict=True))
        print(f"{name:22} {case.family:11} {next(cells):>9} {next(cells):>21} {next(cells):>21}")
