"""The command line: `eqsat compile`, `eqsat profile` and other verbs, each a few library calls.

Results go to standard output, everything else to standard error. The exit status is 0, 1 for an EqsatError, 2 for a
command line that is none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from eqsat.failure.internal_error import public_call
from eqsat.failure.reproducer import ScriptCall
from eqsat.shown_progress import showing
from eqsat.studies import cli as studies
from ir.diagnostics import Diagnostic, EqsatError

if TYPE_CHECKING:
    from eqsat.command_dims import CommandDims
    from eqsat.explanation.profile import Profile
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


app = typer.Typer(
    name="eqsat",
    help="Optimize tensor programs by equality saturation, write their kernels, run them.",
    cls=_Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(studies.ablate)
app.command()(studies.fidelity)

Model = Annotated[
    str, typer.Argument(help="Tiny IR (text or JSON), Frontend IR (JSON), an ONNX model, or a saved program: a file")
]
Dims = Annotated[list[str] | None, typer.Option("--dim", "-d", help="a size, or sizes: M=128, M=1,4,8, M=1..64")]
Target = Annotated[
    str, typer.Option(help="auto, cpu, calibrated (as measured by doctor), sm_80, sm_90, sm_100, sm_120")
]
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
EGraph = Annotated[
    Path | None,
    typer.Option(help="write the e-graph: .json (egraph-serialize), .dot (Graphviz) or .svg"),
]
Autotune = Annotated[
    bool, typer.Option("--autotune", help="measure plans and covers on this machine, take the fastest")
]
Seconds = Annotated[float | None, typer.Option("--autotune-seconds", help="--autotune for so long at most")]
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
    egraph: EGraph = None,
    autotune: Autotune = False,
    seconds: Seconds = None,
    tf32: Tf32 = False,
    recompile: Recompile = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="save the program here")] = None,
) -> None:
    """Optimize and compile a model, and print its kernels."""
    from eqsat.command_dims import read_dims, single_sizes
    from eqsat.command_files import check_egraph_file, stages_of, write_dumps
    from eqsat.command_programs import prepared
    from eqsat.explanation.screen import print_fitting

    tuning = autotune if seconds is None else seconds
    check_egraph_file(egraph)
    stages, dims = stages_of(dump), read_dims(dim)
    if stages or egraph is not None:
        single_sizes(dims, "compile --dump" if stages else "compile --egraph")
    program = _program(model, dims, target, exactness, threads, autotune=tuning, tf32=tf32, recompile=recompile)
    for title in prepared(program):
        if title:
            _note(program.diagnostics)
        write_dumps(program, stages, dump_dir)
        if egraph is not None:
            from eqsat.explanation.egraph_files import write_egraph

            write_egraph(program.egraph(), program.output_names, egraph)
        if not stages or dump_dir is not None:
            _print_title(title)
            print_fitting(program.kernels.view())
            typer.echo(program)
    if output is not None:
        program.save(output)


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
    from eqsat.command_files import read_arrays

    program = _program(model, _single(dim, "run"), target, exactness, threads, emulate, tf32=tf32, recompile=recompile)
    results = program(program.random_inputs(seed) if inputs is None else read_arrays(inputs))
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

    program = _program(model, _single(dim, "explain"), target, exactness, threads, tf32=tf32, recompile=recompile)
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
    measure: Annotated[
        bool, typer.Option("--measure", help="with --html: also compile the model, and show measured times")
    ] = False,
    part: Annotated[str | None, typer.Option(help="of a model of several parts: only this one")] = None,
    egraph: EGraph = None,
    around: Annotated[
        str | None, typer.Option(help="with --egraph: only this class, kernel or uop, and --steps around it")
    ] = None,
    steps: Annotated[int, typer.Option(help="with --around: edges to go from there", min=0)] = 0,
    rules: Annotated[
        list[str] | None, typer.Option(help="families to use, or -NAME to leave one out; with commas or repeated")
    ] = None,
    extractor: Annotated[str, typer.Option(help="pareto, or exact, windowed, greedy, tree to compare")] = "pareto",
    cost_model: Annotated[
        list[str] | None, typer.Option(help="-TERM of the cost model to leave out; with commas or repeated")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="limits of saturation: nodes=50000,seconds=2")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    tf32: Tf32 = False,
) -> None:
    """Show the optimization step by step: rules, growth of the e-graph, kernels with prices, the gain of rules."""
    from eqsat.command_choices import budget_in, names_in
    from eqsat.command_files import check_egraph_file
    from eqsat.command_programs import given_options, refuse_of_saved
    from eqsat.explanation import command_output
    from eqsat.explanation.html_page import write_page

    check_egraph_file(egraph)
    if (around is not None or steps) and egraph is None:
        raise typer.BadParameter("needs --egraph", param_hint=["--around", "--steps"])
    if measure and html is None:
        raise typer.BadParameter("needs --html", param_hint="--measure")
    choices = {
        "target": target,
        "exactness": exactness,
        "tf32": tf32,
        "rules": names_in(rules),
        "extractor": extractor,
        "cost_model": names_in(cost_model) or "roofline",
        "budget": budget_in(budget),
    }
    dims = _single(dim, "explore")
    refuse_of_saved(model, {"--dim": dims, **given_options(command_output.EXPLORED, choices)})
    with showing("explore"):
        runs = command_output.explore_model(model, part, dims=dims, **choices)
        others = {name: run.without(*without) for name, run in runs.items()} if without else {}
    if html is not None:
        measured = command_output.measured_kernels(model, dims=dims, **choices) if measure else ()
        write_page(runs, html, Path(model).name, measured=measured)
        typer.echo(f"written to {html}", err=True)
    if egraph is not None:
        command_output.write_egraph_of(runs, egraph, around, steps)
        typer.echo(f"written to {egraph}", err=True)
    if (html is None and egraph is None) or without or as_json:
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
    from eqsat.command_dims import each_combination, read_dims, several_symbols, title_of
    from eqsat.command_programs import refuse, refuse_of_saved
    from eqsat.explanation import command_output

    files = [path for path in (dot, svg) if path is not None]
    if kernels and not files:
        raise typer.BadParameter("needs --dot or --svg", param_hint="--kernels")
    dims = read_dims(dim)
    choices = {"--target": target != "auto", "--exactness": exactness != "rounding", "--tf32": tf32}
    if not kernels:
        refuse(choices, "needs --kernels")
    refuse_of_saved(model, {"--dim": dims, **choices})
    by_size = {title_of(sizes, several_symbols(dims)): sizes for sizes in each_combination(dims)}
    if not files:
        for title, sizes in by_size.items():
            _print_title(title)
            typer.echo(command_output.tiny_text(model, sizes))
        return
    keywords = {"target": target, "exactness": exactness, "tf32": tf32}
    with showing("explore"):
        drawn = [
            drawing
            for title, sizes in by_size.items()
            for drawing in command_output.titled(
                title,
                command_output.kernel_drawings(model, dims=sizes, **keywords)
                if kernels
                else command_output.drawings(model, sizes),
            )
        ]
    for path in files:
        _write(path, command_output.drawing_text(drawn, is_svg=path is svg).encode())
        typer.echo(f"written to {path}", err=True)


@app.command("bench", help="Another name of profile.")
@app.command()
def profile(
    model: Model,
    dim: Dims = None,
    repeats: Annotated[int, typer.Option(help="measured runs", min=1)] = 20,
    trace: Annotated[Path | None, typer.Option(help="write a Chrome trace into this .json file")] = None,
    csv: Annotated[Path | None, typer.Option(help="write the measurements into this .csv file")] = None,
    seed: Seed = 0,
    target: Target = "auto",
    exactness: Exactness = "rounding",
    threads: Threads = None,
    tf32: Tf32 = False,
    recompile: Recompile = False,
    autotune: Autotune = False,
    seconds: Seconds = None,
) -> None:
    """Show where the time of a model goes: the share, the times and the rates of every kernel, on random inputs."""
    from eqsat.explanation.profile import csv_text, trace_text
    from eqsat.explanation.screen import print_fitting

    measured: dict[str, Profile] = {}
    tuning = autotune if seconds is None else seconds
    for title, program in _programs(
        model, dim, target, exactness, threads, tf32=tf32, recompile=recompile, autotune=tuning
    ):
        result = program.profile(program.random_inputs(seed), repeats=repeats)
        measured[f"{Path(model).name} {title}".strip()] = result
        _print_title(title)
        print_fitting(result.view())
        _hint(result)
    for path, text_of in ((trace, trace_text), (csv, csv_text)):
        if path is not None:
            _write(path, text_of(measured).encode())
            typer.echo(f"written to {path}", err=True)


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
    from eqsat.command_files import read_arrays
    from eqsat.command_surveys import compare_layers_aloud

    if against not in (None, "onnxruntime"):
        raise typer.BadParameter("onnxruntime is known", param_hint="--against")
    if inputs is not None:
        _single(dim, "check --inputs")
    for title, program in _programs(model, dim, target, exactness, threads, emulate, tf32=tf32, recompile=recompile):
        _print_title(title)
        given = program.random_inputs(seed) if inputs is None else read_arrays(inputs)
        if against is not None:
            compare_layers_aloud(model, given)
        for name, error in program.verify(given).items():
            typer.echo(f"{name}: largest error {error:.2e} of the largest value")


@app.command()
def doctor(
    model: Annotated[str | None, typer.Argument(help="an ONNX model: list what it needs, and what eqsat lacks")] = None,
) -> None:
    """Measure this machine in a few seconds, for `--target calibrated`, and list what it offers; or examine a model.

    The exit status is 1 if there are warnings, or if the model needs what eqsat lacks.
    """
    if model is not None:
        from eqsat.command_surveys import examine_model

        examine_model(model)
        return
    from eqsat.api import examine
    from eqsat.explanation.screen import wrap_text

    facts, warnings = examine()
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(wrap_text(f"{name:<{width}}  {value}", width + 2))
    for warning in warnings:
        typer.echo(warning, err=True)
    raise typer.Exit(1 if warnings else 0)


@app.command("rules")
def list_rules(
    name: Annotated[
        str | None, typer.Argument(help="a rule, to show its conditions, both sides and an example")
    ] = None,
) -> None:
    """List the rewrite rules, a line each, or show one."""
    from eqsat.explanation.rule_text import rule_line, rule_text
    from eqsat.explanation.screen import wrap_text
    from rules import RULES

    if name is not None:
        typer.echo(wrap_text(rule_text(name), 13))
        return
    for rule in RULES:
        typer.echo(wrap_text(rule_line(rule)))


def _program(model: str, dims: CommandDims, *choices: Any, **others: Any) -> Program:
    """The program of a model or of a saved file; its diagnostics go to standard error. choices, others: the fields of
    `Choices`."""
    from eqsat.command_programs import Choices, make_program

    program = make_program(model, dims, Choices(*choices, **others))
    if program.variants:
        _note(program.diagnostics)
    return program


def _programs(model: str, dim: list[str] | None, *choices: Any, **others: Any) -> Iterator[tuple[str, Program]]:
    """A program for every combination of sizes, with the sizes in words; diagnostics go to standard error. choices,
    others: the fields of `Choices`."""
    from eqsat.command_dims import read_dims
    from eqsat.command_programs import Choices, programs_by_size

    printed: set[str] = set()
    for title, program in programs_by_size(model, read_dims(dim), Choices(*choices, **others)):
        _note(diagnostic for diagnostic in program.diagnostics if str(diagnostic) not in printed)
        printed.update(map(str, program.diagnostics))
        yield title, program


def _print_title(title: str) -> None:
    """The sizes above the output for them; nothing where there is one size."""
    if title:
        typer.echo(f"{title}:")


def _hint(measured: Profile) -> None:
    """On standard error, the target whose estimates would be nearer."""
    from eqsat.command_words import with_options

    if hint := measured.hint:
        typer.echo(with_options(_options(), hint), err=True)


def _note(diagnostics: Iterable[Diagnostic]) -> None:
    """Print notes and warnings in the words of the command line, and in one block what autotuning changed."""
    from eqsat.command_words import in_words_of, tuned_text

    tuned, others = tuned_text(diagnostics)
    if tuned:
        typer.echo(tuned, err=True)
    for diagnostic in others:
        typer.echo(in_words_of(_options(), diagnostic), err=True)


def _options() -> dict[str, str]:
    """The options of all verbs, by the library's keywords."""
    from eqsat.command_words import options_of

    verbs = typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
    return {keyword: option for verb in verbs for keyword, option in options_of(verb).items()}


def _single(dim: list[str] | None, verb: str) -> dict[str, int]:
    """The dims of a verb that takes one size of each."""
    from eqsat.command_dims import read_dims, single_sizes

    return single_sizes(read_dims(dim), verb)


def _write(path: Path, data: bytes) -> None:
    from ir.host.output_file import write_output

    write_output(path, data, "write")


def main() -> None:
    """The entry point."""
    app()
