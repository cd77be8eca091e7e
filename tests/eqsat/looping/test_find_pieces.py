"""What does not repeat is cut into pieces where one value is handed over."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.looping import cut_calls, find_pieces
from eqsat.looping.parts import Part, parts_of
from eqsat.looping.split import split
from eqsat.tensor import Tensor
from ir.tiny.bind import load
from tests.eqsat.looping.test_repeated_blocks import given


def widening(count: int) -> Tensor:
    """Layers, each wider than the one before, so that none repeats."""
    value = given("x", 4, 8)
    for place in range(count):
        size = value.shape[-1]
        hidden = nn.gelu(nn.softmax(value @ given(f"up{place}", size, size + 8)))
        value = nn.layer_norm(hidden) + value @ given(f"skip{place}", size, size + 8)
    return value


def parts(outputs: Tensor | list[Tensor]) -> list[Part]:
    return list(parts_of(split(load(tensor_to_tiny(outputs)[0])[0], ())))


def test_pieces_are_handed_one_value() -> None:
    several = parts(widening(12))
    assert len(several) >= 2
    for before, after in pairwise(several):
        (handed,) = before.graph.outputs
        assert handed in after.reads.values()
        assert sum(node.uop != "INPUT" for node in after.graph.nodes) >= find_pieces.LEAST_UOPS


def test_small_programs_and_values_that_live_long_are_not_cut() -> None:
    assert len(parts(widening(2))) == 1
    early = given("early", 4, 4).exp()
    value = given("x", 4, 4)
    for place in range(40):
        value = nn.softmax(value @ given(f"w{place}", 4, 4)) * early + place
        early = early.tanh()
    assert len(parts([value, early])) == 1


@pytest.mark.slow
def test_pieces_compute_the_same_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = widening(6)
    assert len(parts(outputs)) == 2
    cut = optimize_and_compile(outputs, threads=1, cache=False, verify=True)
    monkeypatch.setattr(cut_calls, "find_pieces", lambda *_: [])
    whole = optimize_and_compile(outputs, threads=1, cache=False)
    assert cut.cost <= whole.cost * 1.02
    arrays = cut.random_inputs()
    np.testing.assert_allclose(cut(arrays), whole(arrays), rtol=1e-4, atol=1e-4)


def test_a_program_of_constants_alone_is_not_cut() -> None:
    assert len(parts(tensor.constant(np.ones(3, np.float32)).exp())) == 1
