"""FlashAttention and other streams, derived: one kernel by general rules, that computes what the program says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from eqsat import nn, tensor
from eqsat.assembly.assemble import AssembledModule, assemble
from eqsat.egraph.view import EGraphView
from eqsat.extraction.extract import extract
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError
from ir.pricer import Price, Rejected
from ir.region.region import Region
from ir.tiny.graph import Graph
from ir.uop.playback import Array
from rules import FAMILIES, RULES
from tests.support.oracles.canary import saturate
from tests.support.oracles.module_playback import play_module
from tests.support.programs.attention import ATTENTION, MEANS, M, N, Program, graph_of, queries
from tests.support.programs.graphs import Tiny, encoder
from tests.support.stages.approximate import ApproximatePricer, check
from tests.support.stages.path import compiled as run_module
from tests.support.stages.path import complaint, covered, covers, pricer

STREAMING = {**ATTENTION, **MEANS}
FEW = ("scaled", "causal", "half", "log_sum_exp_of_logits")
MANY = (*FEW, "biased", "hidden_by_infinity", "grouped_queries", "half_throughout", "by_powers_of_two",
        "as_the_seed_writes_it", "mean_over_the_first_axis", "mean_of_quotients")  # fmt: skip


def programs(quick: Sequence[str]) -> pytest.MarkDecorator:
    """Every program; those that are not quick in the long run only."""
    names = [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in STREAMING]
    return pytest.mark.parametrize("name", names)


def without_stream(region: Region) -> str:
    """A reason against every kernel that does not stream."""
    return "" if any(let.op.kind == "stream" for let in region.body) else "no stream"


def streaming(graph: Graph, view: EGraphView) -> AssembledModule:
    """The cover by kernels that stream, and no others."""
    return assemble(extract(view, graph.outputs, ApproximatePricer(refuse=without_stream)), view, graph)


def is_derived(name: str, graph: Graph, view: EGraphView) -> bool:
    """Whether one kernel is the whole program: streams over the same scores, with no other pass over them."""
    try:
        module, _ = streaming(graph, view)
    except EqsatError:
        return False
    calls = [call for call in module.calls if call.when == "run"]
    kinds = Counter(let.op.kind for call in calls for let in call.region.body)
    nested = name in ATTENTION or name == "log_sum_exp_of_logits"
    alone = name.startswith("log_sum_exp")
    accumulators = kinds["contraction"], kinds["stream"], kinds["reduce"]
    return len(calls) == 1 and accumulators == (nested, 1 if alone else 2, alone)


@cache
def saturated(name: str) -> tuple[Graph, EGraphView]:
    graph = graph_of(STREAMING[name])
    return graph, saturate(graph, RULES)[0]


def inputs_of(graph: Graph, seed: int = 5) -> dict[str, Array]:
    """Ordinary numbers; of every row of a mask some are kept."""
    rng = np.random.default_rng(seed)

    def drawn(shape: tuple[int, ...], name: str) -> Array:
        if not name.startswith("keep"):
            return rng.standard_normal(shape)
        kept = rng.random(shape) < 0.6
        kept[..., :1] = True
        return kept

    types = {name: graph.types[node.id] for name, node in graph.inputs.items()}
    return {name: drawn(type_.shape, name).astype(type_.dtype.numpy) for name, type_ in types.items()}


@pytest.mark.slow
@programs(MANY)
def test_it_is_one_kernel_that_streams(name: str) -> None:
    graph, view = saturated(name)
    assert is_derived(name, graph, view)
    inputs = inputs_of(graph)
    module, _ = streaming(graph, view)
    assert not complaint(graph, inputs, play_module(module, inputs))
    for call in module.calls:
        assert len({let.op for let in call.region.body}) == len(call.region.body), "a value is computed twice"


@pytest.mark.slow
@programs(FEW)
def test_random_covers_agree(name: str) -> None:
    graph, view = saturated(name)
    inputs = inputs_of(graph)
    for module, _ in covers(graph, view, range(3), ApproximatePricer()):
        assert not complaint(graph, inputs, play_module(module, inputs))


CHAINS: dict[str, tuple[str, ...]] = {
    "scaled": (
        *("identity_cast", "divisor_of_left_operand", "finish_on_chip"),
        *("greatest_along_its_axis", "stream_sum", "stream_weighted_left", "nest_scores"),
    ),
    "half": ("drop_narrowing_cast_left",),
    "half_throughout": ("divisor_of_narrow_left_operand",),
    "mean_of_quotients": ("divisor_of_right_operand", "stream_weighted_right"),
    "log_sum_exp_of_logits": ("stream_sum", "nest_scores", "nest_into_maximum"),
}
"""What each derivation cannot do without, beside the rules that move and fuse."""
FUSING = ("inline_producer", "inline_producer_in_place", "compose_load", "fuse_epilogue_in_place", "fuse_binary_left")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *((name, rule) for name, rules in CHAINS.items() for rule in rules),
        *(pytest.param("scaled", rule, marks=pytest.mark.slow) for rule in FUSING),
    ],
)
def test_without_any_rule_of_its_chain_it_is_not_derived(name: str, rule: str) -> None:
    graph = graph_of(STREAMING[name])
    view, _ = saturate(graph, [other for other in RULES if other.name != rule])
    assert not is_derived(name, graph, view)


def test_every_rule_of_the_family_is_on_a_chain() -> None:
    chained = {rule for rules in CHAINS.values() for rule in rules}
    assert {rule.name for rule in FAMILIES["streams"]} <= chained


def diagonal() -> Graph:
    """Σₖ exp(A[k, k] − maxⱼ A[k, j])·v[k]: the maximum is read at k."""
    t = Tiny()
    a, v = t.input("a", N, N), t.input("v", N)
    own = t.op("VIEW", a, result_shape=(N,), index_map=("i0", "i0"))
    powers = t.op("EXP", t.op("SUB", own, t.reduce("MAX", a, 1)))
    return t.graph(t.reduce("SUM", t.op("MUL", powers, v), 0))


def transposed() -> Tensor:
    """Σₖ exp(s[i, k] − maxⱼ s[k, j])·v[k, d]: the maximum of another row for every term."""
    s, v = tensor.input("s", (N, N)), tensor.input("v", (N, 3))
    return (s - s.max(axis=-1).reshape(1, N)).exp() @ v


def of_others() -> Tensor:
    """The maximum of other scores."""
    s, other, v = tensor.input("s", (M, N)), tensor.input("other", (M, N)), tensor.input("v", (N, 3))
    return (s - other.max(-1, keepdims=True)).exp() @ v


def of_a_part() -> Tensor:
    """The maximum of some of the scores."""
    s, v = tensor.input("s", (M, N, 2)), tensor.input("v", (M, N, 2))
    return ((s - s.max(-1, keepdims=True)).exp() * v).sum((1, 2))


@pytest.mark.parametrize("program", [diagonal, transposed, of_others, of_a_part])
def test_other_maxima_are_no_streams(program: Program) -> None:
    graph = graph_of(program)
    view, stats = saturate(graph, RULES)
    assert not any(count for rule, count in stats.matches.items() if rule.startswith("stream_"))
    assert not any(node.ctor == "Stream" for nodes in view.classes.values() for node in nodes)
    inputs = inputs_of(graph)
    check(extract(view, graph.outputs, ApproximatePricer()), view, graph, inputs)


class StreamingPricer:
    """This machine's prices of kernels that stream; others are refused."""

    ordered = False

    def price(self, region: Region) -> Price | Rejected:
        reason = without_stream(region)
        return Rejected(reason) if reason else pricer().price(region)

    def lower_bound(self, flops: float, bytes_moved: float, narrow: bool = True) -> float:
        return pricer().lower_bound(flops, bytes_moved, narrow)


@programs(FEW)
def test_its_kernel_runs(name: str) -> None:
    graph, assembly, run = running(name)
    inputs = inputs_of(graph)
    assert len(assembly.prices) == 1
    assert not complaint(graph, inputs, run(inputs))


@cache
def running(name: str) -> tuple[Graph, AssembledModule, Callable[[Mapping[str, Array]], list[Array]]]:
    """The one kernel of a program, compiled."""
    graph, view = saturated(name)
    assembly = assemble(extract(view, graph.outputs, StreamingPricer()), view, graph)
    return graph, assembly, run_module(*assembly)


def test_long_rows_are_streamed_since_that_is_cheaper() -> None:
    graph = graph_of(lambda: nn.attention(*queries(m=512, n=1024, d=64, dv=64)))
    view, _ = saturate(graph, RULES)
    cover = extract(view, graph.outputs, pricer())
    assert len(cover.kernels) == 1
    assert not without_stream(cover.kernels[0].region)


def test_the_mask_of_a_long_sequence_is_no_matrix_in_memory() -> None:
    graph = graph_of(lambda: nn.attention(*queries(m=4096, n=4096, d=64, dv=64), causal=True))
    view, _ = saturate(graph, RULES)
    (kernel,) = extract(view, graph.outputs, pricer()).kernels
    assert sorted(buffer.name for buffer in kernel.region.inputs) == ["k", "q", "v"]


Change = Callable[[dict[str, Array]], None]


def hide_a_row(inputs: dict[str, Array]) -> None:
    inputs["keep"][2] = False


def put_nan(inputs: dict[str, Array]) -> None:
    inputs["q"][0, 1, 0] = math.nan


def put_infinity(inputs: dict[str, Array]) -> None:
    inputs["q"][0, 1] = math.inf


def put_nan_into_values(inputs: dict[str, Array]) -> None:
    inputs["v"][0, 3, 0] = math.nan


@pytest.mark.parametrize("change", [hide_a_row, put_nan, put_infinity, put_nan_into_values])
def test_odd_rows_give_what_playback_gives(change: Change) -> None:
    graph, assembly, run = running("hidden_by_infinity")
    inputs = inputs_of(graph)
    change(inputs)
    with np.errstate(all="ignore"):
        for (result,) in (play_module(assembly.module, inputs), run(inputs)):
            assert not complaint(graph, inputs, [result])
            if change is hide_a_row:
                assert np.isnan(result[:, 2]).all()
                assert np.isfinite(np.delete(result, 2, axis=1)).all()


SIZES: list[dict[str, int]] = [
    {"m": 1, "dv": 1},
    {"n": 1},
    {"d": 1},
    {"m": 0},
    {"n": 0},
    {"d": 0, "dv": 0},
]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes_at_the_edge_are_right(sizes: Mapping[str, Any]) -> None:
    graph = graph_of(lambda: nn.attention(*queries(2, **sizes), causal=True))
    view, _ = saturate(graph, RULES)
    inputs = inputs_of(graph)
    module, _ = covered(graph, view, 1, ApproximatePricer())
    assert not complaint(graph, inputs, play_module(module, inputs))


def test_the_scores_may_be_an_output_as_well() -> None:
    t = Tiny()
    q, k, v = t.input("q", 2, M, 4), t.input("k", 2, 4, N), t.input("v", 2, N, 4)
    scores = t.op("MUL", t.matmul(q, k), 0.5)
    graph = t.graph(scores, t.matmul(t.softmax(scores), v))
    view, _ = saturate(graph, RULES)
    check(extract(view, graph.outputs, ApproximatePricer()), view, graph, inputs_of(graph))


def test_a_stream_of_stored_scores_is_a_choice_too() -> None:
    """Where a product of matrices cannot be nested, the scores are stored, and the rest streams."""
    graph, view = saturated("scaled")

    def flat(region: Region) -> str:
        kinds = {let.op.kind for let in region.body}
        return "nested, or several passes" if kinds >= {"stream", "contraction"} or "reduce" in kinds else ""

    cover = extract(view, graph.outputs, ApproximatePricer(refuse=flat))
    assert any(let.op.kind == "stream" for kernel in cover.kernels for let in kernel.region.body)
    assert len(cover.kernels) == 2
    check(cover, view, graph, inputs_of(graph))


@pytest.mark.slow
def test_a_deep_model_grows_by_a_few_percent_only() -> None:
    graph = encoder(1)
    without = [rule for rule in RULES if rule.family != "streams"]
    before, after = (saturate(graph, rules)[1].nodes for rules in (without, RULES))
    assert before < after < 1.05 * before
