"""The rows of the ablation: programs without one idea, and the worth of every idea over all programs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AblationRow:
    """One program without one idea. `optimize_s`: seconds of saturation and extraction; ns: of one call, summed over
    kernels; `loss`: measured time over that of the program with everything on."""

    program: str
    kind: str
    name: str
    kernels: int
    bytes: float
    predicted_ns: float
    measured_ns: float
    loss: float
    optimize_s: float


@dataclass(frozen=True)
class Worth:
    """One knock-out over all programs: geometric means of ratios to everything on, and the largest loss."""

    kind: str
    name: str
    predicted: float
    measured: float
    kernels: float
    bytes: float
    optimize: float
    worst: float
    program: str


def worth(rows: Iterable[AblationRow]) -> list[Worth]:
    """The worth of every knock-out, the largest loss of its kind first."""
    rows = list(rows)
    base = {row.program: row for row in rows if not row.kind}
    worths = []
    for kind, name in dict.fromkeys((row.kind, row.name) for row in rows if row.kind):
        of = [row for row in rows if (row.kind, row.name) == (kind, name)]
        dearest = max(of, key=lambda row: row.loss)

        def mean(column: str, of: Sequence[AblationRow] = of) -> float:
            return statistics.geometric_mean(getattr(row, column) / getattr(base[row.program], column) for row in of)

        means = mean("predicted_ns"), mean("measured_ns"), mean("kernels"), mean("bytes"), mean("optimize_s")
        worths.append(Worth(kind, name, *means, dearest.loss, dearest.program))
    kinds = list(dict.fromkeys(item.kind for item in worths))
    return sorted(worths, key=lambda item: (kinds.index(item.kind), -item.measured))
