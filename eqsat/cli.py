"""The command line: `eqsat compile|run|show|explain|explore|rules|bench|check|doctor`, each a few library calls.

Results go to standard output, everything else to standard error. The exit status is 0, 1 for an EqsatError, 2 for a
command line that is none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from eqsat.failure.internal_error import public_call
from eqsat.failure.reproducer import ScriptCall
from eqsat.shown_progress import telling
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail

if TYPE_CHECKING:
    from eqsat.runtime.program import Program


_USAGE = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
_PASSING = (typer.Exit, typer.Abort, _USAGE, BrokenPipeError)
"""Exceptions that the command line itself turns into an exit status."""


def _same_line(name: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[ScriptCall]:
    """The same command line, in a script."""
    return [ScriptCall("", "eqsat.cli:app", (sys.argv[1:],))]


class _Verbs(typer.core.TyperGroup):
    """An EqsatError ends a verb with its message and exit status 1; other failures become an EqsatError first."""

    @public_call(_same_line, _PASSING)
    def _verb(self, ctx: Any) -> Any:
        return super().invoke(ctx)

    def invoke(self, ctx: Any) -> Any:
        try:
            return self._verb(ctx)
        except EqsatError as error:
            from eqsat.command_words import in_words_of, options_of

            options = options_of(self.commands.get(ctx.invoked_subcommand or ""))
            typer.echo(EqsatError(in_words_of(options, diagnostic) for diagnostic in error.diagnostics), err=True)
            raise typer.Exit(1) from None


LAYER_TOLERANCE = 1e-3
"""The error, relative to a tensor's largest value, up to which a tensor agrees with onnxruntime's."""

app = typer.Typer(
    name="eqsat",
    help="Optimize tensor programs by equality saturation, write their kernels, run them.",
    cls=_Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
rules_app = typer.Typer(help="List the rewrite rules, or show one.", invoke_without_command=True)
app.add_typer(rules_app, name="rules")

Model = Annotated[
    str, typer.Argument(help="Tiny IR (text or JSON), Frontend IR (JSON), an ONNX model, or a saved program: a file")
]
Dims = Annotated[list[str] | None, typer.Option("--dim", "-d", help="a size, as M=128; may be repeated")]
Target = Annotated[str, typer.Option(help="auto, cpu, calibrated (as measured by doctor), sm_80 or sm_90")]
Dump = Annotated[str, typer.Option(help="stages to dump, separated by commas: tiny,egraph,module,region,plan,c …")]
DumpDir = Annotated[Path | None, typer.Option(help="write dumps into this folder instead of standard output")]
Threads = Annotated[int | None, typer.Option(help="threads of each call; every core if not given")]
Exactness = Annotated[str, typer.Option(help="the highest level allowed: exact, reassociate, rounding, range")]
Tf32 = Annotated[bool, typer.Option("--tf32", help="let a GPU's products of fp32 round their operands to tf32")]
Emulate = Annotated[bool, typer.Option("--emulate", help="run a GPU's kernels in the emulator")]
Recompile = Annotated[
    bool,
    typer.Option("--recompile", help="of a saved program: write and compile its kernels anew"),
]
Seed = Annotated[int, typer.Option(help="of random inputs")]


@app.command()
def compile(
    model: Model,
    dim: Dims = None,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    threads: Threads = None,
    dump: Dump = "",
    dump_dir: DumpDir = None,
    egraph: Annotated[Path | None, typer.Option(help="draw the e-graph into this .json, .dot or .svg file")] = None,
    autotune: Annotated[
        bool, typer.Option("--autotune", help="measure plans on this machine, take the fastest")
    ] = False,
    tf32: Tf32 = False,
    recompile: Recompile = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="save the program here")] = None,
) -> None:
    """Optimize and compile a model, and print its kernels."""
    from eqsat.explanation.explain import kernel_table, render

    stages = _stages(dump)
    program = _program(model, dim, target, exactness, threads, autotune=autotune, tf32=tf32, recompile=recompile)
    _dump(program, stages, dump_dir)
    if egraph is not None:
        _write(egraph, _egraph_text(program, egraph.suffix).encode())
    if output is not None:
        program.save(output)
    if not stages or dump_dir is not None:
        typer.echo(render(kernel_table(program.kernels)), nl=False)
        typer.echo(program)


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
    emulate: Emulate = False,
    tf32: Tf32 = False,
    recompile: Recompile = False,
) -> None:
    """Run a model once, on given or random inputs."""
    program = _program(model, dim, target, exactness, threads, emulate, tf32=tf32, recompile=recompile)
    results = program(program.random_inputs(seed) if inputs is None else _arrays(inputs))
    named = dict(zip(program.output_names, results if isinstance(results, tuple) else (results,), strict=True))
    for name, array in named.items():
        shown = np.array2string(array, threshold=16, edgeitems=3)
        typer.echo(f"{name}: {array.dtype}{list(array.shape)}  {shown}")
    if output is not None:
        file = BytesIO()
        np.savez(file, allow_pickle=False, **named)
        _write(output, file.getvalue())


@app.command()
def explain(
    model: Model,
    kernel: Annotated[str | None, typer.Argument(help="a kernel: the buffer it writes, its name or its place")] = None,
    dim: Dims = None,
    pair: Annotated[tuple[str, str] | None, typer.Option(help="tell why these two kernels are not one")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    threads: Threads = None,
    tf32: Tf32 = False,
    recompile: Recompile = False,
) -> None:
    """Explain each kernel: its uops, the rules that built it, its plan, its price, and the rejected candidates.

    Of one kernel, print the chain of rewrites as well.
    """
    from eqsat.explanation import command_output

    program = _program(model, dim, target, exactness, threads, tf32=tf32, recompile=recompile)
    names = None if pair is None else tuple(map(command_output.kernel_argument, pair))
    command_output.explain(program, command_output.kernel_argument(kernel), names, as_json)


@app.command()
def explore(
    model: Model,
    dim: Dims = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", "-w", help="compare with a run without this family or rule")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="write the exploration as one page for a browser")] = None,
    part: Annotated[str | None, typer.Option(help="of a model with loops: only this part, not all")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    tf32: Tf32 = False,
) -> None:
    """Show the optimization step by step: rules, growth of the e-graph, kernels with prices, the gain of rules."""
    from eqsat.explanation import command_output

    with _showing("explore"):
        runs = command_output.explore_model(model, part, dims=_dims(dim), target=target, exactness=exactness, tf32=tf32)
        others = {name: run.without(*without) for name, run in runs.items()} if without else {}
    if html is not None:
        command_output.write_page(runs, html, Path(model).name)
        typer.echo(f"written to {html}", err=True)
    if html is None or without or as_json:
        command_output.show(runs, others, as_json)


@app.command()
def show(
    model: Model,
    dim: Dims = None,
    dot: Annotated[Path | None, typer.Option(help="draw the model into this file, in Graphviz's language")] = None,
    svg: Annotated[Path | None, typer.Option(help="draw the model into this file, as a picture")] = None,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="draw its kernels before and after optimization instead")
    ] = False,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    tf32: Tf32 = False,
) -> None:
    """Print a model as Tiny text, or draw it."""
    from eqsat.explanation import command_output

    files = [path for path in (dot, svg) if path is not None]
    if kernels and not files:
        raise typer.BadParameter("needs --dot or --svg", param_hint="--kernels")
    dims = _dims(dim)
    choices = {"--target": target != "auto", "--exactness": exactness != "rounding", "--tf32": tf32}
    if not kernels:
        _refuse(choices, "needs --kernels")
    _refuse_of_saved(model, {"--dim": dims, **choices})
    if not files:
        typer.echo(command_output.tiny_text(model, dims))
        return
    if kernels:
        with _showing("explore"):
            drawn = command_output.kernel_drawings(model, dims=dims, target=target, exactness=exactness, tf32=tf32)
    else:
        drawn = command_output.drawings(model, dims)
    for path in files:
        _write(path, command_output.drawing_text(drawn, is_svg=path is svg).encode())
        typer.echo(f"written to {path}", err=True)


@app.command()
def bench(
    model: Model,
    dim: Dims = None,
    repeats: Annotated[int, typer.Option(help="measured runs", min=1)] = 20,
    seed: Seed = 0,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    threads: Threads = None,
    tf32: Tf32 = False,
    recompile: Recompile = False,
) -> None:
    """Measure a model on random inputs: the estimated and the measured time of every kernel."""
    from eqsat.explanation.explain import kernel_table, render
    from eqsat.explanation.price_text import micros

    program = _program(model, dim, target, exactness, threads, tf32=tf32, recompile=recompile)
    reports = program.profile(program.random_inputs(seed), repeats=repeats)
    measured = micros(sum(report.measured_ns or 0 for report in reports))
    typer.echo(render(kernel_table(reports)), nl=False)
    typer.echo(f"total: {micros(program.cost)} estimated, {measured} measured (sum of medians of {repeats} runs)")


@app.command()
def check(
    model: Model,
    dim: Dims = None,
    seed: Seed = 0,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    threads: Threads = None,
    emulate: Emulate = False,
    tf32: Tf32 = False,
    recompile: Recompile = False,
    inputs: Annotated[Path | None, typer.Option(help="an .npz file with the inputs by name; random if absent")] = None,
    against: Annotated[str | None, typer.Option(help="onnxruntime: also compare every tensor of an ONNX model")] = None,
) -> None:
    """Compare a compiled model with the NumPy playback of its Tiny graph, on random inputs or on given ones."""
    if against not in (None, "onnxruntime"):
        raise typer.BadParameter("onnxruntime is known", param_hint="--against")
    program = _program(model, dim, target, exactness, threads, emulate, tf32=tf32, recompile=recompile)
    given = program.random_inputs(seed) if inputs is None else _arrays(inputs)
    if against is not None:
        _compare_layers(model, given)
    for name, error in program.verify(given).items():
        typer.echo(f"{name}: largest error {error:.2e} of the largest value")


def _compare_layers(model: str, inputs: Mapping[str, np.ndarray]) -> None:
    """Name the first tensor of an ONNX model that differs from onnxruntime's; exit status 1 if there is one."""
    from eqsat.frontends.onnx.compare_layers import compare_layers

    layers = compare_layers(model, inputs)
    differing = [layer for layer in layers if not layer.error <= LAYER_TOLERANCE]
    for layer in differing[:1]:
        typer.echo(f"differs first: {layer.tensor}, by {layer.node} ({layer.op}): error {layer.error:.2e}")
        raise typer.Exit(1)
    largest = max((layer.error for layer in layers), default=0.0)
    typer.echo(f"{len(layers)} tensors agree with onnxruntime: largest error {largest:.2e} of the largest value")


@app.command()
def doctor(
    model: Annotated[str | None, typer.Argument(help="an ONNX model: list what it needs, and what eqsat lacks")] = None,
) -> None:
    """Measure this machine in a few seconds, for `--target calibrated`, and list what it offers; or examine a model.

    The exit status is 1 if there are warnings, or if the model needs what eqsat lacks.
    """
    if model is not None:
        _examine_model(model)
        return
    from eqsat.api import examine

    facts, warnings = examine()
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:<{width}}  {value}")
    for warning in warnings:
        typer.echo(warning, err=True)
    raise typer.Exit(1 if warnings else 0)


def _examine_model(path: str) -> None:
    """List the inputs and the operators of an ONNX model, those that are missing first."""
    from eqsat.frontends.onnx.survey import survey_onnx

    survey = survey_onnx(path)
    typer.echo("opsets: " + ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in survey.opsets.items()))
    for name, text in survey.inputs.items():
        typer.echo(f"input {name}: {text}")
    width = max((len(use.name) for use in survey.operators), default=0)
    for use in sorted(survey.operators, key=lambda use: use.support != "missing"):
        typer.echo(f"{use.name:<{width}}  {use.nodes:5}  {use.support}")
    for message, tensor in survey.types.items():
        typer.echo(f"{message}: {tensor}")
    lacks = len(survey.missing) + len(survey.types)
    if lacks:
        typer.echo(f"missing: {', '.join((*survey.missing, *survey.types))}", err=True)
    raise typer.Exit(1 if lacks else 0)


@rules_app.callback()
def list_rules(context: typer.Context) -> None:
    """One line per rule: name, family, exactness, certificate, equation."""
    if context.invoked_subcommand is None:
        from eqsat.explanation.rule_text import rule_line
        from rules import RULES

        for rule in RULES:
            typer.echo(rule_line(rule))


@rules_app.command("show")
def show_rule(name: str) -> None:
    """One rule: its equation, its conditions, its certificate, both sides, and an example."""
    from eqsat.explanation.rule_text import rule_text

    typer.echo(rule_text(name))


def _program(
    model: str,
    dim: list[str] | None,
    target: str,
    exactness: str,
    threads: int | None,
    emulate: bool = False,
    autotune: bool = False,
    tf32: bool = False,
    recompile: bool = False,
) -> Program:
    """The program of a model or of a saved file; its diagnostics go to standard error."""
    from eqsat.api import load, optimize_and_compile
    from eqsat.runtime.store import is_saved

    dims = _dims(dim)
    if is_saved(Path(model)):
        choices = {"--dim": dims, "--target": target != "auto", "--exactness": exactness != "rounding"}
        _refuse_of_saved(model, {**choices, "--autotune": autotune, "--tf32": tf32})
        program = load(model, threads, emulate=emulate, recompile=recompile)
    elif recompile:
        raise typer.BadParameter(f"{model} is no saved program", param_hint="--recompile")
    else:
        program = optimize_and_compile(
            model,
            dims=dims,
            target=target,
            exactness=exactness,
            threads=threads,
            emulate=emulate,
            autotune=autotune,
            tf32=tf32,
            progress=True,
        )
    if program.variants:
        _note(program.diagnostics)
    return program


def _refuse_of_saved(model: str, choices: Mapping[str, Any]) -> None:
    """Refuses choices that were made when a saved program was compiled."""
    from eqsat.runtime.store import is_saved

    if is_saved(Path(model)):
        _refuse(choices, "a saved program is as it was compiled")


def _refuse(choices: Mapping[str, Any], message: str) -> None:
    """Refuses the options that are given."""
    refused = [option for option, given in choices.items() if given]
    if refused:
        raise typer.BadParameter(message, param_hint=refused)


def _note(diagnostics: Iterable[Diagnostic]) -> None:
    """Print notes and warnings in the words of the command line."""
    from eqsat.command_words import in_words_of, options_of

    verbs = typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
    options = {keyword: option for verb in verbs for keyword, option in options_of(verb).items()}
    for diagnostic in diagnostics:
        typer.echo(in_words_of(options, diagnostic), err=True)


def _dims(given: list[str] | None) -> dict[str, int]:
    sizes = {}
    for dim in given or ():
        name, equals, size = dim.partition("=")
        if not (name and equals and size.isdecimal()):
            raise typer.BadParameter(f"{dim!r} is not NAME=SIZE", param_hint="--dim")
        if name in sizes:
            raise typer.BadParameter(f"{name} is given twice", param_hint="--dim")
        sizes[name] = int(size)
    return sizes


@contextmanager
def _showing(stage: str) -> Iterator[None]:
    """Shows this stage on standard error, if that is a terminal."""
    with telling(True) as told:
        if told is not None:
            told(stage)
        yield


def _stages(given: str) -> list[str]:
    from eqsat.runtime.dump import check_stage

    stages = [stage for stage in map(str.strip, given.split(",")) if stage]
    for stage in stages:
        check_stage(stage)
    return stages


def _egraph_text(program: Program, suffix: str) -> str:
    from eqsat.egraph import dump as egraph_dump

    match suffix:
        case ".dot":
            return egraph_dump.to_dot(program.egraph())
        case ".svg":
            return egraph_dump.to_svg(program.egraph())
        case ".json":
            return json.dumps(program.dump("egraph"), indent=2)
    raise typer.BadParameter(f"{suffix!r} is none of .json, .dot, .svg", param_hint="--egraph")


def _dump(program: Program, stages: list[str], folder: Path | None) -> None:
    for stage in stages:
        data = program.dump(stage)
        text = data if isinstance(data, str) else json.dumps(data, indent=2)
        if folder is None:
            typer.echo(text)
        else:
            name = f"{stage}.{stage}" if isinstance(data, str) else f"{stage}.json"
            _write(folder / name, f"{text}\n".encode())


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; bf16, which NumPy stores as two raw bytes, is restored."""
    from ir.dtype import bf16

    try:
        with np.load(path) as file:
            arrays = dict(file)
    except Exception as error:  # a damaged zip or array header fails in many ways
        fail(Kind.INPUT_MISMATCH, "run", f"not an .npz file of arrays: {error}", at=str(path))
    return {name: array.view(bf16.numpy) if array.dtype == np.dtype("V2") else array for name, array in arrays.items()}


def _write(path: Path, data: bytes) -> None:
    from ir.host.atomic_file import write_atomically

    try:
        write_atomically(path, data)
    except OSError as error:
        fail(Kind.INVALID_OPTION, "write", f"cannot write the file: {error.strerror or error}", at=str(path))


def main() -> None:
    """The entry point."""
    app()
