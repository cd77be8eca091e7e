"""Measures how the optimizer's time and memory grow: encoders of 1, 4, 12 and 36 layers, and the nine light models.

    python -m bench.scale [--rounds 3] [--only encoder]

Every sample runs in a process of its own; two samples of one program must have the same result. Medians are reported
and written to `bench/results/`. Times start with Tiny IR in memory and all libraries imported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.arguments import LIGHT
from bench.optimizing import (
    Program,
    Sample,
    light_program,
    median_of_samples,
    program_of,
    run_bench,
    sample_optimization,
)

LAYERS = (1, 4, 12, 36)


def encoder(layers: int, length: int = 128, width: int = 768, heads: int = 12) -> Program:
    """A pre-norm transformer encoder."""
    from eqsat import nn, tensor

    def given(name: str, *shape: int) -> Any:
        return tensor.input(name, shape)

    def linear(x: Any, name: str, features: int) -> Any:
        return x @ given(f"{name}.w", x.shape[-1], features) + given(f"{name}.b", features)

    def norm(x: Any, name: str) -> Any:
        return nn.layer_norm(x, given(f"{name}.g", width), given(f"{name}.b", width))

    def split(x: Any) -> Any:
        return x.reshape(length, heads, width // heads).permute(1, 0, 2)

    x = given("x", length, width)
    for layer in range(layers):
        name = f"l{layer}"
        y = norm(x, f"{name}.n1")
        q, k, v = (split(linear(y, f"{name}.{part}", width)) for part in "qkv")
        x = x + linear(nn.attention(q, k, v).permute(1, 0, 2).reshape(length, width), f"{name}.o", width)
        hidden = nn.gelu(linear(norm(x, f"{name}.n2"), f"{name}.up", 4 * width))
        x = x + linear(hidden, f"{name}.down", width)
    return program_of([x], ("x",))


def programs() -> dict[str, Callable[[], Program]]:
    """All programs by name."""
    encoders = {f"encoder ×{layers}": partial(encoder, layers) for layers in LAYERS}
    return {**encoders, **{name: partial(light_program, name) for name in LIGHT}}


def measure(name: str) -> Sample:
    """One optimization of a program."""
    return sample_optimization(programs()[name])


def main() -> None:
    def sample(name: str, rounds: int) -> Sample:
        return median_of_samples(rounds, measure, name)

    run_bench(__doc__, "scale", programs(), sample, lambda row: row["seconds"]["total"])


if __name__ == "__main__":
    main()
