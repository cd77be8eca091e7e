"""Encoder layers and self-attention in inference, where torch.nn runs one operator for a layer, beside eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the torch door needs torch")

from tests.support.torch.beside_eager import agree, normal  # noqa: E402 - only where torch is installed

WIDTH, HEADS, BATCH, LENGTH = 8, 2, 3, 4
CAUSAL = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)
PADDED = torch.arange(LENGTH) >= torch.tensor([[4], [2], [1]])
KEEP = torch.zeros(BATCH, HEADS, LENGTH, LENGTH, dtype=torch.bool)
MASKS = {
    "none": (None, None),
    "of scores": (CAUSAL, 0),
    "of keys": (PADDED, 1),
    "of keys, in floats": (torch.zeros(BATCH, LENGTH).masked_fill(PADDED, -torch.inf), 1),
    "of each head": (KEEP | PADDED[:, None, None, :], 2),
}


def linear(features: int, width: int) -> tuple[Any, Any]:
    return normal(features, width), normal(features)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("use_gelu", "norm_first"), [(True, False), (False, True)])
def test_an_encoder_layer(mask: str, use_gelu: bool, norm_first: bool) -> None:
    parameters = (*linear(3 * WIDTH, WIDTH), *linear(WIDTH, WIDTH))
    norms, steps = [normal(WIDTH) for _ in range(4)], (*linear(16, WIDTH), *linear(WIDTH, 16))

    def layer(x: Any, parameters: Any, norms: Any, steps: Any, hidden: Any) -> Any:
        how = (use_gelu, norm_first, 1e-5)
        kind = MASKS[mask][1]
        run = torch.ops.aten._transformer_encoder_layer_fwd
        return run(x, WIDTH, HEADS, *parameters, *how, *norms, *steps, hidden, kind)

    run_in_playback(layer, normal(BATCH, LENGTH, WIDTH), parameters, norms, steps, MASKS[mask][0])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("average", [True, False])
def test_self_attention(mask: str, average: bool) -> None:
    parameters = (*linear(3 * WIDTH, WIDTH), *linear(WIDTH, WIDTH))

    def attend(x: Any, parameters: Any, hidden: Any) -> Any:
        run = torch.ops.aten._native_multi_head_attention
        return run(x, x, x, WIDTH, HEADS, *parameters, hidden, True, average, MASKS[mask][1])

    run_in_playback(attend, normal(BATCH, LENGTH, WIDTH), parameters, MASKS[mask][0])


def test_a_row_without_scores_is_what_eager_makes_of_it() -> None:
    parameters = (*linear(3 * WIDTH, WIDTH), *linear(WIDTH, WIDTH))

    def attend(x: Any, parameters: Any, hidden: Any) -> Any:
        return torch.ops.aten._native_multi_head_attention(x, x, x, WIDTH, HEADS, *parameters, hidden, False, True, 1)[
            0
        ]

    run_in_playback(attend, normal(1, LENGTH, WIDTH), parameters, torch.ones(1, LENGTH, dtype=torch.bool))


def run_in_playback(function: Callable[..., Any], *arguments: Any) -> None:
    """The function agrees with eager, without gradients, as these operators have none."""
    with torch.no_grad():
        agree(function, *arguments, kernels=False, rtol=1e-4, atol=1e-4)
