"""The two main calls: `optimize_and_compile` and `load`."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from importlib import metadata
from typing import Any

from codegen.measure import doctor
from eqsat.building.workers import can_build_apart, make_apart, stalls_others
from eqsat.compile_model import Make, compile_model
from eqsat.executors import check_executor
from eqsat.explanation.kernel_by_name import Wanted
from eqsat.failure.internal_error import public_call
from eqsat.failure.reproducer_calls import of_load, of_making
from eqsat.find_target import find_target
from eqsat.load_program import load_stored, unpickled
from eqsat.model import BoundModel, Model, read_model
from eqsat.options import (
    Budget,
    CostModelChoice,
    RuleChoice,
    check_mapping,
    check_options,
    check_path,
    check_running,
    check_switches,
    check_threads,
)
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.compiled import Compiled
from eqsat.runtime.program import Program
from eqsat.runtime.verify import verify_compiled
from eqsat.serving.buckets import check_related, split_dims, split_related
from eqsat.serving.padding import Padding
from eqsat.serving.when_missing import WhenMissing, check_when_missing, serving
from eqsat.shown_progress import ProgressChoice, telling
from eqsat.updates import check_arguments_of_updates, check_results_of_updates, check_target_of_updates
from eqsat.version import __version__
from ir.diagnostics import EqsatError, Kind, fail
from ir.plan.plan import WantedPlan
from ir.target import Target
from ir.term.rule import Exactness


@public_call(of_making)
def optimize_and_compile(
    source: Any,
    *,
    target: str | Target = "auto",
    dims: Mapping[str, int | Sequence[int] | str] | None = None,
    constants: Mapping[str, Any] | None = None,
    rules: RuleChoice = None,
    exactness: str | Exactness = Exactness.ROUNDING,
    extractor: str = "pareto",
    cost_model: CostModelChoice = "roofline",
    budget: Budget | None = None,
    threads: int | None = None,
    verify: bool = False,
    strict: bool = False,
    cache: bool = True,
    emulate: bool = False,
    graph: bool = False,
    autotune: bool | float = False,
    tf32: bool = False,
    progress: ProgressChoice = None,
    when_missing: WhenMissing = "wait",
    plans: Mapping[Wanted, WantedPlan] | None = None,
    executor: Executor | None = None,
    updates: Mapping[str, str] | None = None,
) -> Program:
    """Optimize a program into fewer and faster kernels, write the kernels, and compile them.

    Args:
        source: Tiny IR (dict, Tiny or JSON text, a file, `ir.tiny.graph.Graph`), lazy tensors (one, several, or a dict
            of named outputs), a function of lazy tensors (`tensor.program`), Frontend IR, an ONNX model, or a
            torch.export.ExportedProgram. A string with a line break or a brace, or that begins with %, is a text;
            others are paths.
        target: "auto" (the GPU, or the CPU if there is none), "cpu" (nominal figures: the same program on every run),
            "calibrated" (the CPU as measured by `eqsat doctor`), "sm_80", "sm_90", "sm_100" or "sm_120" (compiled on
            any machine; calls need such a GPU or a newer one, or `emulate`), a name in `eqsat.cost.targets.GPUS`, or a
            Target.
        dims: sizes of symbolic dims. If some stay free, the program compiles a variant at each new shape. Several sizes
            (`Buckets(1, 2, 4, 8)`, a list, a range) leave a dim free, and name the sizes that `program.prepare()`
            builds ahead of calls, and that `when_missing="pad"` pads to. A text is an expression of other sizes:
            `{"past": [256], "total": "past + 1"}`.
        constants: arrays by input name; they leave the signature, are folded, and packed. None makes an argument of a
            constant that the source holds, such as an initializer of an ONNX model.
        rules: a list of families to use, of `"-name"`s (families or rules) to leave out, and of your own rules. None
            means every family, and so does a list without family names. An empty list means no rules: the program runs
            as written. Your own rules are checked first.
        exactness: the highest level allowed: "exact" < "reassociate" < "rounding" < "range"; "exact" also keeps the
            order in which floats are summed.
        extractor: "pareto"; the rest are for comparison: the oracles "exact" (a binary program: the cheapest cover) and
            "windowed", and the baselines "greedy" and "tree".
        cost_model: "roofline" (seed 000 §11), a list of "-name"s of its terms to leave out,
            `eqsat.cost.roofline.Terms`, or a mapping of terms of your own: functions of an
            `eqsat.cost.own_terms.KernelEstimate` that return ns, by the name of the term that each replaces or adds;
            None leaves a term out; or a subclass of `eqsat.CostModel`, whose methods are such terms (docs/cost.md).
            Such programs are not kept in the cache.
        budget: limits of saturation, as `eqsat.Budget(nodes=50_000, seconds=2)`.
        threads: of each call on a CPU; None is every core.
        verify: compare with playback on random inputs before returning.
        strict: refuse a program that the loader would have to complete.
        cache: store optimized programs on disk, and reuse them.
        emulate: run a GPU's kernels in the emulator (docs/emulator.md): slow, but every race and stray access is
            reported as a KernelFault.
        graph: on a GPU, capture the calls after the first as a CUDA graph.
        autotune: measure on this machine the best plans of each kernel, and of the kernels of the 8 covers with the
            least estimates, and take the fastest. A number is the seconds that this may take; True sets no limit.
            Measurements are stored, and used only by calls with autotune=. A program that was tuned says so in its
            diagnostics, and may differ from machine to machine.
        executor: a concurrent.futures.Executor that runs the measurements of autotune= on machines like this one.
        tf32: on a GPU, products of fp32 may round their operands to tf32 (10 bits of mantissa; sums stay fp32) if
            tensor cores are faster then; on a CPU nothing changes.
        progress: called with the name of each stage, and of each kernel that is tuned, as it begins. True: shown with
            counts and times where standard error is a terminal, and in notebooks.
        when_missing: what a call does whose sizes are not built yet: "wait" for its code; "pad": run the code of larger
            sizes on padded arguments, where no result depends on the padding; "eager": evaluate with NumPy, slowly, in
            both cases while the code is built; or "adapt": build code for the first sizes, and then for powers of two,
            which answers all smaller sizes. A mapping gives a word by symbol (docs/serving.md).
        plans: plans of your own by kernel, as `Program.replan` takes them (docs/explore.md).
        updates: argument by result: `{"present": "past"}` writes the result `present` into the array that a call gives
            as `past`, without a copy where kernels can write it there. On a CPU only (docs/serving.md).

    Raises:
        EqsatError: any error in the program, the options or the machine, as diagnostics. A failure of eqsat itself is
            an InternalError, which names a file that reproduces it.
    """
    if check_executor(executor) is not None and not autotune:
        fail(Kind.INVALID_OPTION, "options", "executor= runs the measurements of autotune=", hint="autotune=True")
    switches = {"verify": verify, "strict": strict, "cache": cache, "emulate": emulate, "graph": graph}
    check_switches(progress, **switches, tf32=tf32)
    options = check_options(rules, exactness, extractor, cost_model, budget, autotune, tf32, updates)
    chosen = find_target(target)
    running = check_running(emulate, graph, chosen, options.autotune)
    workers = check_threads(threads, chosen.units)
    check_when_missing(when_missing)
    check_mapping("plans", plans)
    check_target_of_updates(options, chosen)
    rest, related = split_related(dims)
    sizes, buckets = split_dims(rest)
    model = replace(read_model(source, constants, sizes), related=related, updates=dict(options.updates))
    check_arguments_of_updates(model)

    def make_here(*job: Any) -> Artifact:
        from eqsat.make_artifact import make_artifact  # programs from the cache need no optimizer

        return partial(make_artifact, executor=executor)(*job)

    def compile_bound(bound: BoundModel, make: Make = make_here) -> Compiled:
        check_results_of_updates(model.updates, bound)
        with telling(progress) as report:
            compiled = compile_model(bound, chosen, options, cache, report, running, make)
        if plans:
            from eqsat.replan_kernels import with_plans

            compiled = with_plans(compiled, plans)
        if verify:
            verify_compiled(compiled, workers)
        return compiled

    def specialise(sizes: Mapping[str, int]) -> Compiled:
        make = make_apart if executor is None and stalls_others() and can_build_apart(options) else make_here
        bound = model.bind(sizes, strict)
        return compile_bound(bound if chosen.is_gpu else padding.model_to_build(bound, sizes), make)

    bound = _bound_or_free(model, strict)
    unbound = () if isinstance(bound, BoundModel) else bound
    check_related(related, {*unbound, *model.symbols}, model.infer({}))
    free = tuple(symbol for symbol in unbound if symbol not in related)
    padding = Padding(model, serving(buckets, when_missing, free), has_masks=not chosen.is_gpu)
    padding.check(free)
    if isinstance(bound, BoundModel):
        return Program(model, specialise, workers, {(): compile_bound(bound)}, unpickled)
    return Program(model, specialise, workers, {}, unpickled, free, padding)


def _bound_or_free(model: Model, strict: bool) -> BoundModel | tuple[str, ...]:
    """The model at its known sizes, or the names of the sizes that calls must supply."""
    try:
        return model.bind(model.infer({}), strict)
    except EqsatError as error:
        if error.kind is not Kind.UNBOUND_DIM:
            raise
        return tuple(error.diagnostics[0].details.get("missing", ()))


@public_call(of_load)
def load(
    path: str | os.PathLike[str], threads: int | None = None, *, emulate: bool = False, recompile: bool = False
) -> Program:
    """A program that `Program.save` wrote. A machine like the one that saved it needs no compiler, unless the program
    is emulated or recompiled.

    Trust a saved program as you trust a program: its machine code runs. Checksums, and checks of all tables against
    each other and against the code, find damage, but not a careful forgery.

    Args:
        emulate: run a GPU's kernels in the emulator.
        recompile: take graph, regions, constants and the choice of plans from the file, and write and compile the
            kernels here. Machine code and texts in the file are not used, and may be damaged. Regions are verified, and
            a plan must be one that the planner makes for its region; `Program.verify` checks that regions compute the
            graph.

    Raises:
        EqsatError: MalformedGraph for a damaged file, UnknownTarget for another kind of machine.
    """
    check_switches(None, emulate=emulate, recompile=recompile)
    return load_stored(check_path(path), threads, emulate, recompile)


@public_call()
def examine() -> tuple[dict[str, str], tuple[str, ...]]:
    """The output of `eqsat doctor`: versions, facts and peaks of this machine by name; and warnings."""
    packages = ("numpy", "egglog", "islpy", "onnx", "torch")
    installed = {
        distribution.metadata["Name"]: distribution.version
        for distribution in map(_distribution, packages)
        if distribution is not None
    }
    versions = {"eqsat": __version__, "python": platform.python_version(), **installed}
    facts, warnings = doctor.examine()
    return {"versions": ", ".join(f"{name} {version}" for name, version in versions.items()), **facts}, warnings


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
