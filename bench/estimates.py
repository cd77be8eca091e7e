"""Compares estimates with times: of the kernels of `bench.peers`, and of whole models with all their kernels.

    python -m bench.estimates [--only TEXT] [--rounds 15] [--fresh]

The Target is calibrated: its figures were measured on this machine (`eqsat doctor`). A time is the median of profiled
calls, summed over a program's kernels. Spearman's rank correlation is taken over the kernels of the table, and over
those of each model. Writes `bench/results/estimates.json`.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, NamedTuple

import numpy as np

from bench.arguments import containing, count
from bench.facts import facts, warn_of_load, write
from bench.peers.kernels import Kernel, kernels
from bench.peers.systems import program_of, varying_arrays
from eqsat.find_target import calibrated_target
from eqsat.studies.fidelity import rank_correlation
from eqsat.zoo import light_model
from ir.target import Target

MODELS = ("resnet50", "densenet121", "inception_v2", "vgg19")
WANTED_RANK, WANTED_RATIO = 0.95, 1.25
"""Goals: the least rank correlation of kernels, and the most that a model's time and estimate differ."""


class Estimate(NamedTuple):
    """Predicted and measured ns of the kernels of one program."""

    name: str
    predicted: tuple[float, ...]
    measured: tuple[float, ...]

    @property
    def predicted_us(self) -> float:
        return sum(self.predicted) / 1e3

    @property
    def measured_us(self) -> float:
        return sum(self.measured) / 1e3

    @property
    def ratio(self) -> float:
        """Measured over predicted time of the whole program."""
        return self.measured_us / self.predicted_us

    @property
    def rank(self) -> float:
        """Spearman's correlation over the program's kernels; NaN of fewer than three."""
        return rank_correlation(self.predicted, self.measured)

    def __str__(self) -> str:
        times = f"{self.predicted_us:>14.1f}{self.measured_us:>13.1f}{self.ratio:>20.2f}"
        return f"{self.name:<34}{times}{self.rank:>7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kernels and models whose name contains this")
    parser.add_argument("--rounds", type=count, default=15)
    parser.add_argument("--fresh", action="store_true", help="calibrate anew")
    options = parser.parse_args()
    table = kernels()
    chosen = containing(parser, options.only, (*table, *MODELS))
    warn_of_load()
    target = calibrated_target(again=options.fresh)
    print(f"{'program':<34}{'predicted µs':>14}{'measured µs':>13}{'measured/predicted':>20}{'rank':>7}")
    estimates = []
    for name in chosen:
        program, inputs = _kernel(table[name], target) if name in table else _model(name, target)
        estimates.append(estimate(name, program, inputs, options.rounds))
        print(estimates[-1], flush=True)
    print(_verdict(estimates))
    if not options.only:
        write("estimates", facts() | {"target": target.name, "rounds": options.rounds}, [*map(_row, estimates)])


def estimate(name: str, program: Any, inputs: dict[str, Any], rounds: int) -> Estimate:
    """The estimates of a program's kernels beside the medians of their times in so many profiled calls."""
    times = [[kernel.measured_ns for kernel in program.profile(**inputs)] for _ in range(rounds)]
    measured = np.median(times, axis=0)
    return Estimate(name, tuple(kernel.estimated_ns for kernel in program.kernels), tuple(map(float, measured)))


def _kernel(kernel: Kernel, target: Target) -> tuple[Any, dict[str, Any]]:
    return program_of(kernel, target=target), varying_arrays(kernel)


def _model(name: str, target: Target) -> tuple[Any, dict[str, Any]]:
    from eqsat import optimize_and_compile

    program = optimize_and_compile(light_model(name), target=target)
    return program, program.random_inputs()


def _verdict(estimates: list[Estimate]) -> str:
    of_table = [one for one in estimates if one.name not in MODELS]
    models = [one for one in estimates if one.name in MODELS]
    rank = rank_correlation([one.predicted_us for one in of_table], [one.measured_us for one in of_table])
    furthest = max((max(one.ratio, 1 / one.ratio) for one in models), default=float("nan"))
    return (
        f"rank over {len(of_table)} kernels of the table {rank:.3f} (goal {WANTED_RANK}); "
        f"models differ from their estimates by {furthest:.2f} at most (goal {WANTED_RATIO})"
    )


def _row(one: Estimate) -> dict[str, Any]:
    times = {"predicted us": round(one.predicted_us, 1), "measured us": round(one.measured_us, 1)}
    return {"program": one.name, **times} | ({} if math.isnan(one.rank) else {"rank": round(one.rank, 3)})


if __name__ == "__main__":
    main()
