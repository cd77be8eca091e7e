"""Swaps of kernels in a finished cover, which is joined and laid out."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.extraction.candidate import CandidateCover
from eqsat.extraction.covering.cover_search import CoverSearch
from eqsat.extraction.covering.oracles.shuffled import shuffle
from eqsat.tensor import Tensor


def fire() -> Tensor:
    """SqueezeNet's module: ordinary fusion gives the cheapest cover once its buffers are laid out, not before."""
    weights = np.random.default_rng(0)

    def filters(*shape: int) -> Tensor:
        return tensor.constant(weights.standard_normal(shape, dtype=np.float32))

    x = nn.max_pool2d(tensor.input("x", (1, 16, 27, 27)), 3, 2)
    y = nn.relu(nn.conv2d(x, filters(16, 16, 1, 1)) + filters(16, 1, 1))
    wide = [nn.relu(nn.conv2d(y, filters(64, 16, n, n), padding=n // 2)) for n in (1, 3)]
    return nn.max_pool2d(tensor.concatenate(wide, axis=1), 3, 2)


@pytest.mark.slow
def test_no_swap_of_the_finished_cover_is_known_to_be_cheaper() -> None:
    program = optimize_and_compile(fire(), target="cpu")
    rivals = [rival for kernel in program.kernels for rival in kernel.selection.rivals if rival.extra_ns is not None]
    assert min(rival.extra_ns or 0.0 for rival in rivals) >= 0
    assert "cheaper by the estimate" not in program.explain()


@pytest.mark.slow
def test_swaps_that_are_cheaper_once_finished_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a random cover, in place of the best one that the search finds."""
    best = optimize_and_compile(fire(), target="cpu")

    def random_cover(search: CoverSearch, is_baseline: bool = False) -> tuple[CandidateCover, None]:
        shuffled = CoverSearch(search._candidates, partial(shuffle, rng=random.Random(1)))
        return shuffled.cover_with_known_prices(), None

    monkeypatch.setattr(CoverSearch, "best", random_cover)
    improved = optimize_and_compile(fire(), target="cpu", cache=False)
    assert improved.cost == pytest.approx(best.cost)
    monkeypatch.setattr("eqsat.extraction.extract._finish_swaps", lambda chosen, cover, *_: (chosen, cover))
    assert improved.cost < optimize_and_compile(fire(), target="cpu", cache=False).cost
