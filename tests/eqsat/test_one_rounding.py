"""Covers that compute one sum several times round its products in all of them or in none."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from eqsat import tensor as t
from eqsat.assembly.assemble import assemble
from eqsat.extraction.extract import extract
from eqsat.extraction.extractors import EXTRACTORS
from eqsat.extraction.kernel_tree import Forest
from eqsat.extraction.one_rounding import Roundings
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.tiny_playback import playback
from tests.support.approximate import ApproximatePricer, saturated
from tests.support.module_playback import play_module
from tests.support.random_covers import random_cover

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
    p = (s.permute(1, 0) - s.max(1)).exp()
    return p / p.sum(0, keepdims=True)


@pytest.mark.parametrize("build", [softmax, transposed_softmax])
def test_large_scores_survive_every_cover(build: Callable[[], Tensor]) -> None:
    """Scores near 2e4: any cover gives what rounded products give, or what exact ones give, never a mixture."""
    graph, view = saturated(tensor_to_tiny(build())[0])
    rng = np.random.default_rng(0)
    inputs = {name: (60 * rng.standard_normal((SIZE, SIZE))).astype(np.float16) for name in graph.inputs}
    references = [playback(graph, inputs, wide=wide)[0].astype(np.float64) for wide in (False, True)]
    roundings, seen = Roundings(view, Forest(view).type_of), set()
    for seed in range(30):
        cover = random_cover(view, graph.outputs, ApproximatePricer(), random.Random(seed))
        marks = {mark for kernel in cover.kernels for tree in kernel.trees for mark in roundings.marks(tree)}
        assert len(marks) <= 1
        seen |= marks
        (result,) = play_module(assemble(cover, view, graph).module, inputs)
        assert min(np.abs(result - reference).max() for reference in references) < 1e-2
    assert len(seen) == 2, "both roundings occur, each in covers of its own"
    for extractor in EXTRACTORS:
        cover = extract(view, graph.outputs, ApproximatePricer(), extractor=extractor)
        assert len({mark for kernel in cover.kernels for tree in kernel.trees for mark in roundings.marks(tree)}) == 1
