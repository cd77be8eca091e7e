"""The plots of the ablation; matplotlib comes with the `bench` extra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eqsat.studies.knockout_rows import AblationRow, Worth

_COLOURS = {"family": "tab:blue", "term": "tab:orange", "extractor": "tab:green", "": "black"}


def predictions(rows: Sequence[AblationRow], path: Path) -> None:
    """Predicted against measured time, a point per program and knock-out."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(6, 6))
    for kind, colour in _COLOURS.items():
        of = [row for row in rows if row.kind == kind]
        if of:
            axes.scatter(
                [row.predicted_ns / 1e3 for row in of],
                [row.measured_ns / 1e3 for row in of],
                s=12,
                color=colour,
                label=f"without a {kind}" if kind else "everything on",
            )
    ends = [min(row.predicted_ns for row in rows) / 1e3, max(row.predicted_ns for row in rows) / 1e3]
    axes.plot(ends, ends, color="grey", linewidth=0.8, label="as predicted")
    axes.set(xscale="log", yscale="log", xlabel="predicted µs", ylabel="measured µs")
    axes.legend()
    _save(figure, path)


def covers(points: Mapping[str, Sequence[tuple[float, float]]], path: Path) -> None:
    """(predicted, measured) ns of the covers of every program; the chosen cover of a program comes first."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(8, 6.5))
    colours = plt.get_cmap("tab20").colors
    for number, (name, times) in enumerate(points.items()):
        predicted, measured = ([ns / 1e3 for ns in several] for several in zip(*times, strict=True))
        colour = colours[number % len(colours)]
        axes.scatter(predicted, measured, s=10, color=colour, label=name)
        axes.scatter(predicted[:1], measured[:1], s=60, facecolors="none", edgecolors=colour)
    every = [ns / 1e3 for times in points.values() for pair in times for ns in pair]
    axes.plot([min(every), max(every)], [min(every), max(every)], color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="predicted µs", ylabel="measured µs (the chosen cover in a circle)")
    axes.legend(fontsize=7)
    _save(figure, path)


def losses(worths: Sequence[Worth], path: Path) -> None:
    """The loss of every knock-out: the geometric mean over the programs, and a mark at the worst."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7, 0.28 * len(worths) + 1.5))
    names = [f"{worth.kind} {worth.name}" for worth in worths]
    axes.barh(
        names, [worth.measured - 1 for worth in worths], left=1.0, color=[_COLOURS[worth.kind] for worth in worths]
    )
    axes.scatter([worth.worst for worth in worths], names, marker="|", color="black", label="worst program")
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="measured time over that with everything on")
    axes.legend()
    _save(figure, path)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("the plots need matplotlib: pip install 'eqsat[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=150)
