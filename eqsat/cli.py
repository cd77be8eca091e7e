"""The command line: `eqsat compile|run|explain|rules|bench|check|doctor`. Each verb is a few library calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

if TYPE_CHECKING:
    from eqsat.program import Program

app = typer.Typer(
    name="eqsat",
    help="Optimize tensor programs by equality saturation, write their kernels, run them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
rules_app = typer.Typer(help="List the rewrite rules, or show one.", invoke_without_command=True)
app.add_typer(rules_app, name="rules")

Model = Annotated[str, typer.Argument(help="Tiny or Frontend IR (JSON file), an ONNX model, or a saved program")]
Dims = Annotated[list[str] | None, typer.Option("--dim", "-d", help="a size, as M=128; may be repeated")]
Target = Annotated[str, typer.Option(help="auto, cpu")]
Dump = Annotated[str, typer.Option(help="stages to dump, separated by commas: tiny,egraph,module,region,plan,c …")]
DumpDir = Annotated[Path | None, typer.Option(help="write dumps into this folder instead of standard output")]
Threads = Annotated[int | None, typer.Option(help="threads of each call; every core if not given")]
Exactness = Annotated[str, typer.Option(help="the highest level allowed: exact, reassociate, rounding, range")]
Seed = Annotated[int, typer.Option(help="of random inputs")]


def main() -> None:
    """The entry point: an EqsatError becomes a message and exit status 1."""
    from ir.diagnostics import EqsatError

    try:
        app()
    except EqsatError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None


@app.command()
def compile(
    model: Model,
    dim: Dims = None,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    threads: Threads = None,
    dump: Dump = "",
    dump_dir: DumpDir = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="save the program here")] = None,
) -> None:
    """Optimize and compile a model; say what came of it."""
    program = _program(model, dim, target, exactness, threads)
    _dump(program, dump, dump_dir)
    if output is not None:
        program.save(output)
    if not dump or dump_dir is not None:
        _say(program)


@app.command()
def run(
    model: Model,
    dim: Dims = None,
    inputs: Annotated[Path | None, typer.Option(help="an .npz file with the inputs by name; random if absent")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="write the outputs to this .npz file")] = None,
    seed: Seed = 0,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    threads: Threads = None,
) -> None:
    """Run a model once, on given or random inputs."""
    program = _program(model, dim, target, exactness, threads)
    given = dict(np.load(inputs)) if inputs is not None else program.random_inputs(seed)
    results = program(**given)
    named = dict(zip(program.output_names, results if isinstance(results, tuple) else (results,), strict=True))
    for name, array in named.items():
        print(f"{name}: {array.dtype}{list(array.shape)}  {np.array2string(array, threshold=16, edgeitems=3)}")
    if output is not None:
        np.savez(output, **named)


@app.command()
def explain(
    model: Model, dim: Dims = None, target: Target = "auto", exactness: Exactness = "rounding", threads: Threads = None
) -> None:
    """Per kernel: its uops, the rules that built it, its plan, its price."""
    print(_program(model, dim, target, exactness, threads).explain())


@app.command()
def bench(
    model: Model,
    dim: Dims = None,
    repeats: Annotated[int, typer.Option(help="measured runs")] = 20,
    seed: Seed = 0,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    threads: Threads = None,
) -> None:
    """Measure a model on random inputs: estimated beside measured time, per kernel."""
    from eqsat.explain import kernel_table, micros, rendered

    program = _program(model, dim, target, exactness, threads)
    reports = program.profile(**program.random_inputs(seed), repeats=repeats)
    print(rendered(kernel_table(reports)), end="")
    measured = sum(report.measured_ns or 0 for report in reports)
    print(f"total: {micros(program.cost)} estimated, {micros(measured)} measured (sum of medians of {repeats} runs)")


@app.command()
def check(
    model: Model,
    dim: Dims = None,
    seed: Seed = 0,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    threads: Threads = None,
) -> None:
    """Compare a compiled model with the NumPy playback of its Tiny graph, on random inputs."""
    program = _program(model, dim, target, exactness, threads)
    errors = program.verify(seed)
    for name, error in errors.items():
        print(f"{name}: largest error {error:.2e} of the largest value")


@app.command()
def doctor() -> None:
    """What this machine offers: compiler, vector units, caches, measured peaks, versions."""
    from eqsat.api import examine

    for name, value in examine().items():
        print(f"{name:<22} {value}")


@rules_app.callback()
def list_rules(context: typer.Context) -> None:
    """One line per rule: name, exactness, equation."""
    if context.invoked_subcommand is None:
        from rules import RULES

        for rule in RULES:
            print(f"{rule.name:<40} {rule.exactness.name.lower():<12} {rule.equation}")


@rules_app.command("show")
def show_rule(name: str) -> None:
    """One rule: its equation, its conditions, both sides."""
    from eqsat.explain import rule_text

    print(rule_text(name))


def _program(model: str, dim: list[str] | None, target: str, exactness: str, threads: int | None) -> Program:
    from eqsat.api import load, optimize_and_compile

    if model.endswith(".eqsat"):
        return load(model, threads)
    with _progress() as progress:
        return optimize_and_compile(
            model,
            dims=_dims(dim),
            target=target,
            exactness=exactness,
            threads=threads,
            progress=progress,
        )


def _dims(given: list[str] | None) -> dict[str, int]:
    sizes = {}
    for each in given or ():
        name, equals, size = each.partition("=")
        if not (name and equals and size.isdigit()):
            raise typer.BadParameter(f"{each!r} is not NAME=SIZE", param_hint="--dim")
        sizes[name] = int(size)
    return sizes


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Shows the stage at work on standard error while it lasts, where that is a terminal."""
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield status.update


def _dump(program: Program, stages: str, folder: Path | None) -> None:
    for stage in filter(None, map(str.strip, stages.split(","))):
        data = program.dump(stage)
        text = data if isinstance(data, str) else json.dumps(data, indent=2)
        if folder is None:
            print(text)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{stage}{'.c' if stage == 'c' else '.json'}").write_text(text + "\n")


def _say(program: Program) -> None:
    from eqsat.explain import kernel_table, rendered

    for diagnostic in program.diagnostics:
        print(diagnostic, file=sys.stderr)
    print(rendered(kernel_table(program.kernels)), end="")
    print(program)


if __name__ == "__main__":
    main()
