"""Products and convolutions of operands that are read backwards, enlarged, repeated or with zeros between, as people
write them: whole numbers come out bit for bit on CPUs and on emulated GPUs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.tensor import Tensor
from ir.tiny.playback import playback


def x(*shape: int) -> Tensor:
    return tensor.input("x", shape)


def w(*shape: int) -> Tensor:
    return tensor.input("w", shape)


def doubled(image: Tensor) -> Tensor:
    """Nearest upsampling."""
    n, c, high, wide = image.shape
    repeated = image.reshape(n, c, high, 1, wide, 1).expand(n, c, high, 2, wide, 2)
    return repeated.reshape(n, c, 2 * high, 2 * wide)


def spread(image: Tensor) -> Tensor:
    """A zero after each pixel: what a transposed convolution of stride 2 runs over."""
    n, c, high, wide = image.shape
    between = image.reshape(n, c, high, 1, wide, 1).pad([(0, 0), (0, 0), (0, 0), (0, 1), (0, 0), (0, 1)])
    return between.reshape(n, c, 2 * high, 2 * wide)


def stretched(image: Tensor) -> Tensor:
    n, c, high, wide = image.shape
    shape = (n, c, high, wide * 4 // 3)
    return Tensor("VIEW", [image], {"result_shape": shape, "index_map": ["i0", "i1", "i2", "(i3*3)//4"]})


PROGRAMS: dict[str, Callable[[], Tensor]] = {
    "rows backwards": lambda: x(64, 32)[::-2] @ w(32, 33),
    "terms backwards": lambda: x(33, 32) @ w(64, 33)[::-2],
    "image turned": lambda: nn.conv2d(x(1, 4, 33, 35).flip([2, 3]), w(8, 4, 3, 3), stride=2),
    "image turned, padded on one side": lambda: nn.conv2d(
        x(2, 8, 36, 33).flip(3), w(3, 8, 3, 3), stride=2, padding=((0, 1), (2, 0))
    ),
    "image doubled": lambda: nn.conv2d(doubled(x(1, 8, 9, 17)), w(16, 8, 3, 3), padding=1),
    "image doubled, every third pixel": lambda: nn.conv2d(
        doubled(x(1, 16, 12, 63)), w(3, 16, 3, 3), stride=3, padding=1, dilation=2
    ),
    "image with zeros between": lambda: nn.conv2d(spread(x(1, 3, 16, 5)), w(16, 3, 3, 3), padding=2),
    "image tiled": lambda: nn.conv2d(
        x(1, 3, 1, 8, 9).expand(1, 3, 4, 8, 9).reshape(1, 3, 32, 9), w(16, 3, 3, 3), padding=(2, 1)
    ),
    "image stretched": lambda: nn.conv2d(stretched(x(1, 4, 8, 24)), w(16, 4, 3, 3), padding=1),
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "sm_80"])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_whole_numbers_are_exact(kind: str, target: str) -> None:
    program = optimize_and_compile(PROGRAMS[kind](), target=target, emulate=target != "cpu", threads=2)
    compiled, rng = program._compiled, np.random.default_rng(0)
    given = {name: rng.integers(-3, 4, buffer.shape).astype("float32") for name, buffer in compiled.inputs.items()}
    (wanted,) = playback(compiled.bound.graph, {**given, **compiled.bound.constants})
    np.testing.assert_array_equal(program(**given), wanted)


def test_names_that_isl_cannot_read() -> None:
    """Inputs are called what their authors like."""
    program = optimize_and_compile(tensor.input("größe", (33, 20)) @ tensor.input("重み", (20, 40)), target="cpu")
    assert program.verify()
    assert "gr__e" in str(program.dump("poly_view", as_json=True))
