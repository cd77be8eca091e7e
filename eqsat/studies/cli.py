"""The verbs `eqsat ablate` and `eqsat fidelity`: studies of the optimizer on models of the user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqsat.shown_progress import showing

if TYPE_CHECKING:
    from eqsat.studies.ablation import Ablation
    from eqsat.studies.fidelity import FidelityStudy

Models = Annotated[list[str], typer.Argument(help="files: Tiny IR, Frontend IR or ONNX")]
Dims = Annotated[list[str] | None, typer.Option("--dim", "-d", help="a size: M=128")]
Target = Annotated[str, typer.Option(help="calibrated (as measured by doctor), or cpu (nominal figures)")]
Out = Annotated[Path | None, typer.Option(help="write tables and every measured kernel as CSV into this folder")]


def ablate(
    models: Models,
    dim: Dims = None,
    kinds: Annotated[
        str, typer.Option(help="of ideas: family, term, extractor; with commas")
    ] = "family,term,extractor",
    rounds: Annotated[int, typer.Option(help="samples of each program", min=1)] = 8,
    target: Target = "calibrated",
    out: Out = None,
) -> None:
    """Measure what every rule family, term of the cost model and extractor is worth on models of yours."""
    from eqsat.studies import ablation, knockouts

    chosen = [kind for kind in kinds.split(",") if kind]
    for kind in chosen:
        if kind not in knockouts.KINDS:
            raise typer.BadParameter(f"{kind!r} is none of {', '.join(knockouts.KINDS)}", param_hint="--kinds")
    with showing("ablate"):
        study = ablation.ablate(_named(models), dims=_sizes(dim, "ablate"), kinds=chosen, rounds=rounds, target=target)
    for program in study.programs.values():
        typer.echo(ablation.summary(program.rows))
        for knockout, why in program.passed_over.items():
            typer.echo(f"  without {knockout}: {why}", err=True)
    _finish(study, out)


def fidelity(
    models: Models,
    dim: Dims = None,
    covers: Annotated[int, typer.Option(help="of each model, beside the chosen one", min=1)] = 30,
    rounds: Annotated[int, typer.Option(help="samples of each cover", min=1)] = 20,
    target: Target = "calibrated",
    out: Out = None,
) -> None:
    """Measure covers of models of yours beside their prices: do cheaper ones run faster?

    Of each model: Spearman's rank correlation of predicted and measured times, the chosen cover's time relative to the
    best one's, and the median of measured over predicted time.
    """
    from eqsat.studies.fidelity import measure_fidelity

    sizes = _sizes(dim, "fidelity")
    with showing("fidelity"):
        study = measure_fidelity(_named(models), dims=sizes, covers=covers, rounds=rounds, target=target)
    _finish(study, out)


def _named(models: list[str]) -> dict[str, str]:
    """The models by the names of their files; by their paths where two files have one name."""
    names = [Path(model).name for model in models]
    return {(model if names.count(name) > 1 else name): model for name, model in zip(names, models, strict=True)}


def _sizes(dim: list[str] | None, verb: str) -> dict[str, int]:
    from eqsat.command_dims import read_dims, single_sizes

    return single_sizes(read_dims(dim), verb)


def _finish(study: Ablation | FidelityStudy, out: Path | None) -> None:
    """Prints and writes what was measured; the exit status is 1 where a model failed."""
    if study.programs:
        typer.echo(study)
        if out is not None:
            study.write(out)
            typer.echo(f"written to {out}", err=True)
    for name, error in study.failures.items():
        typer.echo(f"{name}: {error}", err=True)
    if study.failures:
        raise typer.Exit(1)
