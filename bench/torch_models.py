"""Models of torch in eager, in torch.compile's inductor and in eqsat: results and losses compared, then times.

    python -m bench.torch_models [--only bert] [--small] [--steps 20] [--rounds 10] [--without-inductor]

Needs torch, torchvision and transformers. A row has the largest difference of a result and of a loss from eager's,
relative to the greatest value, and median times of a forward pass in inference and of a training step.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import argparse
import copy
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bench.arguments import containing, count
from bench.facts import facts, load, warn_of_load, write
from bench.torch_families import Family, families
from eqsat import EqsatWarning

RESULT_TOLERANCE, LOSS_TOLERANCE = 1e-3, 1e-2
"""Largest difference of a result and of a loss from eager's, relative to the greatest value."""


class Run(NamedTuple):
    """What one compiler made of a model. results: the tensors of a forward pass. first_s: seconds of the first forward
    pass and of the first step, with compiling. forward_ms, step_ms: medians. warnings: of operators left to eager."""

    results: list[Any]
    losses: list[float]
    first_s: tuple[float, float]
    forward_ms: float
    step_ms: float
    warnings: list[str]


def run(family: Family, model: Any, batch: Mapping[str, Any], backend: str, steps: int, rounds: int) -> Run:
    """Runs a copy of the model: forward passes in inference, then training steps."""
    import torch

    torch._dynamo.reset()
    own = copy.deepcopy(model)
    called = own if backend == "eager" else torch.compile(own, backend=backend)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EqsatWarning)
        own.eval()
        with torch.no_grad():
            results, first_forward = _timed(lambda: called(**batch))
            forward = [_timed(lambda: called(**batch))[1] for _ in range(rounds)]
        own.train()
        optimizer = torch.optim.AdamW(own.parameters(), 1e-3)

        def step() -> float:
            optimizer.zero_grad()
            loss = family.loss(called(**batch), batch)
            loss.backward()
            optimizer.step()
            return float(loss)

        timed = [_timed(step) for _ in range(steps)]
    messages = [str(each.message) for each in caught if issubclass(each.category, EqsatWarning)]
    step_ms = statistics.median(seconds for _, seconds in timed[1:]) * 1e3 if steps > 1 else 0.0
    losses, first_step = [loss for loss, _ in timed], timed[0][1]
    return Run(
        _tensors(results), losses, (first_forward, first_step), statistics.median(forward) * 1e3, step_ms, messages
    )


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = function()
    return found, time.perf_counter() - start


def _tensors(results: Any) -> list[Any]:
    """The tensors among results, in order; a result of transformers is a mapping."""
    import torch
    from torch.utils import _pytree as pytree

    plain = dict(results) if isinstance(results, Mapping) else results
    return [leaf for leaf in pytree.tree_leaves(plain) if isinstance(leaf, torch.Tensor)]


def result_difference(ours: Run, theirs: Run) -> float:
    """The largest difference of a result, relative to its greatest value."""
    pairs = zip(ours.results, theirs.results, strict=True)
    return max(float((one - other).abs().max() / other.abs().max().clamp(min=1e-30)) for one, other in pairs)


def loss_difference(ours: Run, theirs: Run) -> float:
    """The largest difference of a step's loss, relative to the first loss."""
    pairs = zip(ours.losses, theirs.losses, strict=True)
    return max(abs(one - other) for one, other in pairs) / abs(theirs.losses[0])


def compare(family: Family, small: bool, backends: list[str], steps: int, rounds: int) -> dict[str, Any]:
    """A row of the table: of eager and of these backends.

    Raises:
        AssertionError: a result or a loss of eqsat differs from eager's by more than the tolerance.
    """
    import torch

    torch.manual_seed(0)
    model, batch = family.model(small), family.inputs(small)
    for parameter in model.parameters():
        if not parameter.any():  # a head of zeros would hide every difference
            torch.nn.init.normal_(parameter, std=0.02)
    eager = run(family, model, batch, "eager", steps, rounds)
    row: dict[str, Any] = {"eager ms": eager.forward_ms, "eager step ms": eager.step_ms}
    for backend in backends:
        found = run(family, model, batch, backend, steps, rounds)
        differences = result_difference(found, eager), loss_difference(found, eager)
        row[f"{backend} ms"], row[f"{backend} step ms"] = found.forward_ms, found.step_ms
        row[f"{backend} first s"] = [round(seconds, 1) for seconds in found.first_s]
        row[f"{backend} differences"] = [float(f"{difference:.1e}") for difference in differences]
        if backend == "eqsat":
            row["left to eager"] = found.warnings
            assert differences[0] <= RESULT_TOLERANCE, f"results differ by {differences[0]:.1e}"
            assert differences[1] <= LOSS_TOLERANCE, f"losses differ by {differences[1]:.1e}"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="models whose name contains this; nothing is written")
    parser.add_argument("--small", action="store_true", help="two layers and small sizes; nothing is written")
    parser.add_argument("--steps", type=count, default=20)
    parser.add_argument("--rounds", type=count, default=10)
    parser.add_argument("--without-inductor", action="store_true")
    options = parser.parse_args()
    known = families()
    warn_of_load()
    backends = ["eqsat"] if options.without_inductor else ["eqsat", "inductor"]
    rows = []
    for name in containing(parser, options.only, known):
        row = {"model": name, **compare(known[name], options.small, backends, options.steps, options.rounds)}
        print(*(f"{key}: {value:.2f}" if isinstance(value, float) else f"{key}: {value}" for key, value in row.items()))
        rows.append(row)
    if not options.only and not options.small:
        write("torch_models", {**facts(), "load after": load()}, rows)


if __name__ == "__main__":
    main()
