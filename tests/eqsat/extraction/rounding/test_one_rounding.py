"""All computations of a value in a cover have the same bits: one form, one order of a sum, one evaluator."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.assembly.assemble import assemble
from eqsat.egraph.view import EGraphView
from eqsat.extraction.cover import Cover
from eqsat.extraction.covering.agreement import find_dispute
from eqsat.extraction.covering.extractors import EXTRACTORS
from eqsat.extraction.extract import extract
from eqsat.extraction.rounding.one_rounding import Roundings
from eqsat.extraction.rounding.value_forms import ValueForms
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.region.region import is_order_bound
from ir.tiny.graph import Graph
from ir.tiny.playback import playback
from tests.support.oracles.module_playback import play_module
from tests.support.stages.approximate import ApproximatePricer, saturated
from tests.support.stages.random_covers import random_covers

SIZE = 16


def scores() -> Tensor:
    """q·kᵀ with products rounded to fp16, summed in fp32."""
    q, k = t.input("q", (SIZE, SIZE), "fp16"), t.input("k", (SIZE, SIZE), "fp16")
    return (q.reshape(SIZE, 1, SIZE) * k.reshape(1, SIZE, SIZE)).sum(2, dtype="fp32")


def softmax() -> Tensor:
    s = scores()
    p = (s - s.max(1, keepdims=True)).exp()
    return p / p.sum(1, keepdims=True)


def transposed_softmax() -> Tensor:
    """The scores are read at two views of them."""
    s = scores()
    p = (s.permute(1, 0) - s.max(axis=1)).exp()
    return p / p.sum(0, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("build", [softmax, transposed_softmax])
def test_large_scores_survive_every_cover(build: Callable[[], Tensor]) -> None:
    """Scores near 2e4: any cover gives what rounded products give, or what exact ones give, never a mixture."""
    graph, view = saturated(tensor_to_tiny(build())[0])
    rng = np.random.default_rng(0)
    inputs = {name: (60 * rng.standard_normal((SIZE, SIZE))).astype(np.float16) for name in graph.inputs}
    references = [playback(graph, inputs, wide=wide)[0].astype(np.float64) for wide in (False, True)]
    for cover in covers(graph, view):
        (result,) = play_module(assemble(cover, view, graph).module, inputs)
        assert min(np.abs(result - reference).max() for reference in references) < 1e-2


def greatest_is_there() -> list[Tensor]:
    """Which quotients are the greatest of their row: several kernels may compute them, as products by reciprocals."""
    x = t.input("x", (SIZE, 24))
    p = x.exp() / x.exp().sum(1, keepdims=True)
    return [p == p.max(1, keepdims=True)]


def scaled_is_itself() -> list[Tensor]:
    """A sum of scaled terms, which rules scale after the sum, beside itself."""
    x, w = t.input("x", (SIZE, 24)), t.input("w", (24, SIZE))
    y = (x * 0.3) @ w
    return [y.max(1, keepdims=True) == y]


def scaled_again_is_itself() -> list[Tensor]:
    """The greatest of scaled values, which rules scale after the maximum, beside values that are scaled thrice."""
    once = t.input("x", (SIZE, 24)) * 0.3
    twice = once * 2.7
    p = twice * 1.3
    return [once, twice, p == p.max(1, keepdims=True)]


def rounded_is_itself() -> list[Tensor]:
    """The greatest is picked from narrow values, or from those that are as wide again: both are one value."""
    p = t.input("x", (SIZE, 24)).cast("fp16").cast("fp32")
    return [p == p.max(1, keepdims=True)]


def rounded_product_is_itself() -> list[Tensor]:
    """A sum of products that is narrowed and widened again may lose its rounding, but not beside its greatest."""
    p = (t.input("x", (SIZE, 24)) @ t.input("w", (24, 20))).cast("fp16").cast("fp32")
    return [p == p.max(1, keepdims=True)]


def covers(graph: Graph, view: EGraphView, count: int = 20) -> list[Cover]:
    """Random covers and that of every extractor, none of which computes a value in two ways."""
    result = list(random_covers(view, graph.outputs, ApproximatePricer(), map(random.Random, range(count))))
    result += [extract(view, graph.outputs, ApproximatePricer(), extractor=extractor) for extractor in EXTRACTORS]
    roundings = Roundings(view)
    for cover in result:
        assert find_dispute(roundings.marks(kernel.trees, kernel.price is None) for kernel in cover.kernels) is None
        assert not any(roundings.disagree(kernel.trees) for kernel in cover.kernels)
        assert not any(roundings.repeats_sums(kernel.trees, kernel.region) for kernel in cover.kernels)
    return result


@pytest.mark.parametrize(
    "build", [greatest_is_there, scaled_is_itself, scaled_again_is_itself, rounded_is_itself, rounded_product_is_itself]
)
def test_every_row_has_its_greatest_in_every_cover(build: Callable[[], list[Tensor]]) -> None:
    graph, view = saturated(tensor_to_tiny(build())[0])
    rng = np.random.default_rng(1)
    inputs = {name: rng.standard_normal(graph.types[node.id].shape, np.float32) for name, node in graph.inputs.items()}
    for cover in covers(graph, view):
        *_, result = play_module(assemble(cover, view, graph).module, inputs)
        assert result.any(1).all()


def softmax_both_ways() -> list[Tensor]:
    """One kernel may write both, in which the denominators could be a stream at one place and a sum at the other."""
    p = nn.softmax(t.input("x", (SIZE, 24)))
    return [p, p.permute(1, 0)]


def total_beside_terms() -> list[Tensor]:
    """A sum and its terms lie in one buffer, and both are read from there."""
    y = t.input("x", (9, 70)) * t.input("y", (9, 70))
    both = t.concatenate([y, y.sum(1, keepdims=True)], 1)
    terms, total = both[:, :70], both[:, 70:]
    return [total.exp() * t.input("w", (23,)), terms / total, total - 1]


@pytest.mark.slow
@pytest.mark.parametrize("build", [softmax_both_ways, total_beside_terms])
def test_one_place_computes_the_sum_in_every_cover(build: Callable[[], list[Tensor]]) -> None:
    graph, view = saturated(tensor_to_tiny(build())[0])
    for cover in covers(graph, view):
        sums = [let.op for kernel in cover.kernels for let in kernel.region.body if is_order_bound(let.op)]
        assert sum(op.shape != () for op in sums) == 1, "sums of padding alone have no axes"


def test_a_slice_that_is_all_padding_is_no_point_of_what_is_padded() -> None:
    """Else all that is padded in one place would be one value, and its forms alternatives of each other."""
    _, view = saturated(tensor_to_tiny(total_beside_terms())[0])
    forms, result = ValueForms(view), defaultdict[str, set[int]](set)
    for node in (node for nodes in view.classes.values() for node in nodes):
        form = forms.of(node)
        if form is not None and (op := node.fields.get("op")) in ("sum", "mul"):
            result[str(op)].update(forms.disputes(form))
    assert result["sum"]
    assert not result["sum"] & result["mul"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_expert_that_is_asked_is_the_one_that_is_weighed(seed: int) -> None:
    """Top-1 routing: the position of the greatest weight and that weight come of one softmax."""
    rng = np.random.default_rng(seed)
    tokens, width, experts, inner = 8, 16, 4, 32

    def weights(*shape: int) -> Tensor:
        return t.constant(rng.standard_normal(shape).astype(np.float32))

    x = t.input("x", (tokens, width))
    p = nn.softmax(x @ weights(width, experts))
    chosen = p.argmax(-1)
    hidden = (x[:, None, :] @ weights(experts, width, inner).take(chosen, 0)).relu()
    y = (hidden @ weights(experts, inner, width).take(chosen, 0))[:, 0] * p.max(axis=-1)[:, None]
    optimize_and_compile(y, target="cpu", threads=1, cache=False).verify()


def test_a_constant_is_evaluated_in_one_place() -> None:
    """exp(c) folds when the program is built, or a kernel computes it: a comparison of both sees other bits."""
    c = t.constant(np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32))
    x = t.input("x", (64, 64))
    e = c.exp()
    program = optimize_and_compile([e + x, e == e.max(1, keepdims=True), (e * x).sum(1)], target="cpu", cache=False)
    zeros = np.zeros((64, 64), np.float32)
    plain, greatest, _ = program(zeros)
    assert greatest.any(1).all()
    np.testing.assert_array_equal(greatest, plain == plain.max(1, keepdims=True))


@pytest.mark.parametrize("target", ["cpu", "sm_80"])
def test_no_kernel_sums_a_row_at_two_places(target: str) -> None:
    """r[i] - r[j]: lanes along j would sum r[i] by parts and r[j] term by term."""
    x = t.input("x", (12, 70))
    r = (x * x).sum(1)
    program = optimize_and_compile(r[:, None] - r[None, :], target=target, emulate=target != "cpu", cache=False)
    result = program(np.random.default_rng(0).standard_normal((12, 70)).astype(np.float32))
    np.testing.assert_array_equal(np.diagonal(result), 0)


@pytest.mark.parametrize(("second", "kernels"), [(slice(16, 32), 1), (slice(15, 31), 2)])
def test_sums_at_points_apart_are_two_values(second: slice, kernels: int) -> None:
    """A gate multiplies two halves of a product: one kernel may compute both, unless a column is in both."""
    z = t.input("x", (SIZE, 8)) @ t.input("w", (8, 32))
    graph, view = saturated(tensor_to_tiny(z[:, :16].sigmoid() * z[:, second])[0])
    assert len(extract(view, graph.outputs, ApproximatePricer()).kernels) == kernels


def test_a_number_that_bounds_a_product_is_no_other_form_of_the_product() -> None:
    """max(x · w, 1) picks elements of the product, whose sums one kernel computes and bounds."""
    x, w = t.input("x", (20, 30)), t.input("w", (30, 40))
    for bounded in ((x @ w).maximum(1.0), (x @ w).minimum(6.0).maximum(0.0), (x @ w * 0.5).maximum(0.0)):
        program = optimize_and_compile(bounded, cache=False)
        assert len(program.kernels) == 1
        program.verify()
