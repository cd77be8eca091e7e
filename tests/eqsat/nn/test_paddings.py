"""Padding with elements of the tensor, and elements at known positions, as slices side by side."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat import nn, tensor
from eqsat.lazy.known_value import known_value
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.nn.paddings import take_known


@pytest.mark.parametrize(
    "positions",
    [[3, 2, 1, 0, 1, 2, 3, 4, 3], [0, 0, 0, 1, 2, 4, 4], [2], [4, 3, 2, 1, 0], [1, 3, 0, 2, 4, 1], [0, 0], []],
    ids=str,
)
def test_known_positions_are_taken(positions: list[int]) -> None:
    x = np.arange(30.0, dtype=np.float32).reshape(2, 3, 5)
    taken = take_known(tensor.constant(x), np.array(positions, np.int64), 2)
    np.testing.assert_array_equal(known_value(taken, "the part"), x[:, :, positions])


def test_few_runs_need_no_gather() -> None:
    x = tensor.input("x", (2, 6))
    for positions, gathers in (([3, 2, 1, 0, 1, 2, 3, 4, 5, 5, 5], False), ([1, 3, 0, 2, 5, 1], True)):
        text, _ = tensor_to_tiny(take_known(x, np.array(positions), 1))
        assert ("GATHER" in str(text)) == gathers


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_elements_are_cut_as_torch_cuts_them(mode: str) -> None:
    torch = pytest.importorskip("torch")
    x = np.arange(24.0, dtype=np.float32).reshape(1, 2, 12)
    for widths in ((-2, 5), (5, -2), (-1, 11), (11, -1), (-2, -3), (4, 3), (-5, 0)):
        result = known_value(nn.pad(tensor.constant(x), widths, mode), "the result")
        wanted = torch.nn.functional.pad(torch.from_numpy(x), widths, mode).numpy()
        np.testing.assert_array_equal(result, wanted, err_msg=str(widths))
