"""`make demo`: ResNet-50 and the three programs of seed 002 §5 through the whole path, each checked and measured.

ResNet-50 is compared with onnxruntime, the small programs with the NumPy playback of their Tiny graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsat.api import optimize_and_compile
from eqsat.clock import Progress
from eqsat.runtime.verify import TOLERANCE, relative_error
from eqsat.zoo import light_model
from ir.tiny.playback import playback

if TYPE_CHECKING:
    from eqsat.runtime.program import Program

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Example:
    """A model with its reference, and the largest error allowed, relative to the largest value."""

    name: str
    source: Callable[[], Any]
    dims: Mapping[str, int]
    reference: str
    tolerance: float


@dataclass(frozen=True)
class Outcome:
    """The results for one example; times in ms."""

    example: Example
    program: Program
    compile_seconds: float
    measured_ms: float
    reference_ms: float
    error: float

    @property
    def is_right(self) -> bool:
        return self.error <= self.example.tolerance


EXAMPLES = (
    Example("GEMM", lambda: seed_program("gemm"), {"M": 256, "N": 256, "K": 256}, "playback", TOLERANCE["fp16"]),
    Example(
        "Conv2D",
        lambda: seed_program("conv2d"),
        {"N": 1, "G": 1, "Cin_total": 32, "Cin": 32, "Cout": 64, "Rcout": 64, "H": 28, "W": 28, "Oy": 14, "Ox": 14}
        | {"Kh": 3, "Kw": 3, "Sh": 2, "Sw": 2, "Dh": 1, "Dw": 1, "pt": 1, "pb": 1, "pl": 1, "pr": 1},
        "playback",
        TOLERANCE["fp16"],
    ),
    Example(
        "Attention",
        lambda: seed_program("attention"),
        {"B": 1, "H": 4, "M": 128, "N": 128, "D": 64},
        "playback",
        TOLERANCE["fp16"],
    ),
    Example("ResNet-50", lambda: light_model("resnet50"), {}, "onnxruntime", 1e-4),
)


def seed_program(name: str) -> str:
    """The text of one of seed 002 §5's programs: gemm, conv2d or attention."""
    return (resources.files("eqsat") / "programs" / f"{name}.json").read_text(encoding="utf-8")


def run_example(example: Example, progress: Progress | None = None, repeats: int = 15) -> Outcome:
    """Compile the example without a cache, run it, compare it with its reference, and measure both."""
    model = example.source()
    start = time.perf_counter()
    program = optimize_and_compile(model, dims=example.dims, cache=False, progress=progress)
    seconds = time.perf_counter() - start
    inputs = program.random_inputs()
    reference = _onnxruntime(model) if example.reference == "onnxruntime" else _playback(model, example.dims)
    if progress is not None:
        progress(f"compare with {example.reference}")
    results = program(**inputs)
    got = results if isinstance(results, tuple) else (results,)
    expected = reference(inputs)
    error = max(map(relative_error, got, expected))
    measured = _median_ms(lambda: program(**inputs), repeats)
    reference_ms = _median_ms(lambda: reference(inputs), repeats if example.reference == "onnxruntime" else 1)
    return Outcome(example, program, seconds, measured, reference_ms, error)


def report(outcome: Outcome) -> str:
    """The demo's output for one example."""
    stats = outcome.program.stats
    fired = ", ".join(f"{family} {count}" for family, count in stats.saturation.families.items() if count)
    verdict = "right" if outcome.is_right else "WRONG"
    return "\n".join(
        [
            f"{outcome.example.name}",
            f"  uops in      {stats.uops}",
            f"  kernels      {stats.kernels_before} before, {stats.kernels_after} after",
            f"  rules fired  {fired}",
            f"  compiled in  {outcome.compile_seconds:.1f} s",
            f"  time         {outcome.program.cost / 1e6:.3f} ms estimated, {outcome.measured_ms:.3f} ms measured, "
            f"{outcome.reference_ms:.3f} ms by {outcome.example.reference}",
            f"  error        {outcome.error:.1e} of the largest value, against {outcome.example.reference}: {verdict}",
        ]
    )


def main() -> None:
    from rich.console import Console

    console = Console(stderr=True)
    wrong = []
    for example in EXAMPLES:
        with console.status(example.name) as status:
            outcome = run_example(example, partial(_show, status, example.name))
        print(report(outcome), flush=True)
        if not outcome.is_right:
            wrong.append(example.name)
    if wrong:
        raise SystemExit(f"wrong results: {', '.join(wrong)}")


def _show(status: Any, name: str, stage: str) -> None:
    status.update(f"{name}: {stage}")


def _playback(model: str, dims: Mapping[str, int]) -> Callable[[Arrays], tuple[np.ndarray, ...]]:
    from ir.tiny.bind import load

    graph, _ = load(model, dims)
    return lambda inputs: playback(graph, inputs, wide=True)


def _onnxruntime(model: Any) -> Callable[[Arrays], tuple[np.ndarray, ...]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda inputs: tuple(session.run(None, dict(inputs)))


def _median_ms(call: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


if __name__ == "__main__":
    main()
