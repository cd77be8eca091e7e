"""The compiled program as users hold it: a callable with methods that show how it was optimized."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsat.egraph.view import EGraphView
from eqsat.failure.internal_error import as_eqsat_error, passes, reports_all
from eqsat.failure.reproducer_calls import of_program
from eqsat.logs.records import tell_call, tell_kernels
from eqsat.logs.topics import CALL
from eqsat.model import Model
from eqsat.options import check_path, check_switches, check_threads, is_count
from eqsat.runtime.arrays import any_on_device, is_on_device, shape_of
from eqsat.runtime.bound_call import BoundCall
from eqsat.runtime.call_arguments import CallArguments
from eqsat.runtime.compiled import Compiled
from eqsat.runtime.device_call import call_on_device
from eqsat.runtime.host_call import adopt_all, answer_on_host, bind_on_host, call_on_host
from eqsat.runtime.out_arrays import targets_of
from eqsat.runtime.stats import Stats
from eqsat.serving.buckets import Buckets
from eqsat.serving.padding import Padding
from eqsat.serving.preparation import Preparation, combinations
from eqsat.serving.shape_keys import ShapeKeys
from eqsat.serving.stand_in import StandIn
from eqsat.serving.variants import Key, Specialise, Variants, key_of
from eqsat.serving.when_missing import EXACT
from eqsat.shown_progress import ProgressChoice, telling
from ir.diagnostics import Diagnostic, Kind, fail
from ir.grammar import with_article, with_count

if TYPE_CHECKING:
    from rich.console import Group

    from eqsat.explanation.chain import Chain
    from eqsat.explanation.explore import Exploration
    from eqsat.explanation.kernel_by_name import Wanted
    from eqsat.explanation.notebook import KernelReports
    from eqsat.explanation.profile import Profile
    from eqsat.explanation.why_absent import WhyAbsent
    from eqsat.explanation.why_not import WhyNot
    from eqsat.planning.choose_plan import PlanOption
    from ir.plan.plan import Plan


Unpickled = Callable[[bytes, int], "Program"]
"""Makes a program from the bytes of `Program.save` and a number of threads. Pickles refer to this function by name."""


@reports_all(of_program)
class Program:
    """Call the program with arrays, by name, by position, or as one mapping: `program({"x": a, "out": b})`.

    A program whose sizes were all known has one variant. A program with free dims compiles a variant at the first call
    with new sizes, and keeps the latest `eqsat.serving.variants.MOST_VARIANTS` and all that `prepare` built. Methods
    without arguments (kernels, explain, dump …) are about the variant of the latest call. A program may be called from
    many threads at once; calls of sizes that are ready do not wait for sizes that are being built.
    """

    def __init__(
        self,
        model: Model,
        specialise: Specialise,
        threads: int,
        known: Mapping[Key, Compiled],
        unpickled: Unpickled,
        free: Sequence[str] = (),
        padding: Padding | None = None,
    ) -> None:
        self._model = model
        self._arguments = model.arguments
        self._specialise = specialise
        self._variants = Variants(specialise, known)
        self._threads = threads
        self._unpickled = unpickled
        self._free = tuple(free)
        self._only = None if free else next(iter(known.values()), None)
        self._padding = padding or Padding(model, EXACT)
        self._serving = self._padding.serving
        self._stand_in = StandIn(self._padding, self._variants) if self._serving.stands_in else None
        self._keys = ShapeKeys(model)
        self._of_call = CallArguments(self._arguments, model.constants)

    def __call__(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """The outputs, as arrays of the caller's library: one array, or a tuple in signature order.

        Args:
            out: an array, or a tuple of arrays, one for each result that updates no argument (`updates=`). Results are
                written into it, and it is returned.

        Raises:
            EqsatError: InputMismatch for a missing, unknown or double argument, a wrong shape or dtype, or an `out`
                that cannot take the results; AxisSizeMismatch for arguments that contradict each other.
        """
        try:
            if CALL.isEnabledFor(logging.INFO):
                return self._tell(args, out, named)
            return self._answer_call(args, out, named)
        except BaseException as error:
            if passes(error):
                raise
            keywords = named if out is None else {**named, "out": out}
            raise as_eqsat_error(error, "__call__", lambda: of_program("__call__", (self, *args), keywords)) from error

    def _tell(self, args: Sequence[Any], out: Any, named: Mapping[str, Any]) -> Any:
        """A call that the log tells of."""
        start = time.perf_counter_ns()
        results = self._answer_call(args, out, named)
        tell_call(time.perf_counter_ns() - start, self.kernels, dict(next(reversed(self._variants.held), ())))
        if CALL.isEnabledFor(logging.DEBUG) and not any_on_device(self._of_call.by_name(args, named), out):
            tell_kernels(self.profile(*args, repeats=1, **named))
        return results

    def _answer_call(self, args: Sequence[Any], out: Any, named: Mapping[str, Any]) -> Any:
        in_order = self._of_call.in_order(args, named)
        if in_order is not None and out is None:
            ready = self._ready(in_order)
            results = ready.direct(in_order, self._threads) if ready is not None and ready.direct is not None else None
            if results is not None:
                return results[0] if len(results) == 1 else tuple(results)
        given = self._of_call.by_name(args, named)
        if self._stand_in is not None and not any_on_device(given, out):
            return self._answer(self._stand_in, given, out)
        compiled = self._variant(given)
        if compiled.on_device is not None and any_on_device(given, out):
            targets = None if out is None else targets_of(len(compiled.outputs), out)
            on_device = call_on_device(compiled.on_device, compiled.bound, given, targets)
            return out if out is not None else on_device[0] if len(on_device) == 1 else on_device
        return call_on_host(compiled, self._model.updates, given, out, self._threads)

    def bound(self, /, *args: Any, out: Any = None, **named: Any) -> BoundCall:
        """A call with fixed arguments and results: `run = program.bound(x=x, w=w)`; then `run()` reads x and w as they
        are at that time, and returns the same array every time. It takes the least time that a call can take.

        Args:
            out: an array, or a tuple of arrays, which every call fills; new arrays, if it is None.

        Raises:
            EqsatError: all that a call raises; InputMismatch for an argument that a call would have to copy, for one
                that shares memory with `out`, and for an array on a device.
        """
        given = self._of_call.by_name(args, named)
        return bind_on_host(self._variant(given), self._model.updates, given, out, self._threads)

    def __repr__(self) -> str:
        latest = self._variants.latest
        if latest is None:
            return f"Program(free dims: {', '.join(self._free)}; no variant yet)"
        from eqsat.explanation.price_text import micros

        kernels = with_count(len(self.kernels), "kernel")
        return f"Program({kernels} for {latest.artifact.target.name}, {micros(self.cost)} estimated)"

    def _repr_html_(self) -> str:
        """The program in a notebook: its figures and its kernels."""
        from eqsat.explanation.notebook import html_of, program_view

        return html_of(program_view(repr(self), self._variants.latest))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return self._arguments

    @property
    def output_names(self) -> list[str]:
        """The names of the results, in order."""
        return [name for name, _ in self._compiled.outputs]

    @property
    def variants(self) -> list[dict[str, int]]:
        """The sizes that there is compiled code for, the latest call's last; one empty entry if no size is free."""
        return [dict(key) for key in self._variants.held]

    @property
    def kernels(self) -> KernelReports:
        """One report per kernel launch, in order."""
        from eqsat.explanation.notebook import KernelReports

        return KernelReports(self._compiled.kernels)

    @property
    def cost(self) -> float:
        """The estimated time of one call in ns, by the cost model of seed 000 §11."""
        return sum(kernel.estimated_ns for kernel in self.kernels)

    @property
    def stats(self) -> Stats:
        """Sizes, how often rules fired, why saturation stopped, seconds per stage."""
        return self._compiled.artifact.stats

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Notes and warnings of the optimizer and the compiler."""
        return self._compiled.notes

    def explain(self, kernel: Wanted | None = None) -> str:
        """Per kernel: its uops, the rules that built it, its price, and the rejected candidates with their prices. For
        one kernel, also the chain of rewrites that led to it.

        kernel: the kernel's place, its report, the buffer that it writes, or its name if that is unique.

        Raises:
            EqsatError: InvalidOption if no kernel or several kernels have the name, or if a loaded program was made
                with the caller's own rules and they are not known here.
        """
        from eqsat.explanation.explain import explain

        return explain(self._compiled, kernel)

    def explanation(self, kernel: Wanted | None = None) -> Group:
        """The text of `explain` as a renderable of rich."""
        from eqsat.explanation.explain import explanation

        return explanation(self._compiled, kernel)

    def explained(self, kernel: Wanted | None = None) -> dict[str, Any]:
        """The content of `explain` as JSON-ready data."""
        from eqsat.explanation.explain import explained

        return explained(self._compiled, kernel)

    def chain(self, kernel: Wanted) -> Chain:
        """The rewrites, in order, from the uops of a kernel to the kernel. `kernel` as in `explain`; if it names one of
        several outputs, the rewrites are that output's, else the first output's."""
        from eqsat.explanation.chain import chain_at
        from eqsat.explanation.kernel_by_name import output_of

        place, output = output_of(self.kernels, kernel)
        return chain_at(*self._compiled.part_at(place), output)

    def why_not(self, first: Wanted, second: Wanted) -> WhyNot:
        """Why two kernels were not fused: an illegal fusion with the analysis that says so, or the two prices."""
        from eqsat.explanation.why_not import why_not_in_program

        return why_not_in_program(self._compiled, first, second)

    def why_absent(self, uop: str) -> WhyAbsent:
        """Why no kernel computes a uop: the rules that made it vanish. Errors as `Exploration.why_absent`."""
        from eqsat.explanation.why_absent import why_absent_in_program

        return why_absent_in_program(self._compiled, uop)

    def explore(self, part: str | None = None) -> Exploration:
        """Runs the optimization again and records its steps, as data, tables or (`html(path)`) a page for a browser.

        part: of a program of several; `explorations` names them. Raises EqsatError, InvalidOption, if there is no such
        part, or if there are several and none is named.
        """
        from eqsat.explanation.explore import Explorer

        return Explorer(self._compiled.setting, part=part).finish()

    def explorations(self) -> dict[str, Exploration]:
        """The exploration of every part of the program, by name; of a program of one part, `main`."""
        from eqsat.explanation.explore import explore_parts

        return explore_parts(self._compiled.setting)

    def source(self, kernel: Wanted | None = None) -> str:
        """The text of all kernels, or of one; `kernel` and errors as in `explain`."""
        return self._compiled.stages.text("cu" if self._compiled.artifact.target.is_gpu else "c", self._place(kernel))

    def dump(self, stage: str, kernel: Wanted | None = None, *, as_json: bool = False) -> Any:
        """One stage of the path from the graph to the text, in its printed form.

        Args:
            stage: frontend, tiny, egraph, module; or, of every kernel, region, indexbook, poly_view, poly_core, plan,
                cpu and c (on a GPU: gpu and cu).
            kernel: only this kernel's; named as in `explain`.
            as_json: JSON-ready data instead; of kernels by name, unless one is asked for. c and cu stay texts.

        Raises:
            EqsatError: InvalidOption for a stage that the program did not go through, for one kernel of a stage of the
                whole program, and for the name of no kernel.
        """
        check_switches(None, as_json=as_json)
        stages = self._compiled.stages
        return (stages if as_json else stages.text)(stage, self._place(kernel))

    def _place(self, kernel: Wanted | None) -> int | None:
        """The place of a kernel; None for all kernels."""
        from eqsat.explanation.kernel_by_name import place_of

        return None if kernel is None else place_of(self.kernels, kernel)

    def plans(self, kernel: Wanted) -> list[PlanOption]:
        """All plans that the planner makes for a kernel, the best first. `kernel` and errors as in `explain`."""
        from eqsat.explanation.kernel_by_name import place_of
        from eqsat.replan_kernels import plans_at

        return plans_at(self._compiled, place_of(self.kernels, kernel))

    def replan(
        self,
        kernel: Wanted | None = None,
        plan: Plan | None = None,
        *,
        plans: Mapping[Wanted, Any] | None = None,
        **fields: Any,
    ) -> Program:
        """A program whose kernel has another plan: `program.replan("dot_relu", tile=(64, 128, 256), warp_tile="6x32")`.
        `plan` is one of your own, `fields` are those of one of the planner's, `plans` either by kernel; errors as in
        docs/explore.md."""
        from eqsat.replan_kernels import with_plans

        wanted = {**(plans or {}), **({} if kernel is None else {kernel: fields if plan is None else plan})}
        if not wanted or (kernel is None and (fields or plan)) or (fields and plan):
            fail(Kind.INVALID_OPTION, "replan", "no kernel is named", hint='replan("dot_relu", tile=(64, 128, 256))')
        compiled = with_plans(self._compiled, wanted)
        key = next(reversed(self._variants.held))
        known = {key: compiled}
        return Program(self._model, self._specialise, self._threads, known, self._unpickled, self._free, self._padding)

    def egraph(self, part: str | None = None) -> EGraphView:
        """The saturated e-graph as data; part: as in `explore`."""
        return self._compiled.stages.egraph(part)

    def profile(self, /, *args: Any, repeats: int = 10, **named: Any) -> Profile:
        """The kernel reports with the median measured time of `repeats` runs, in ns, beside the estimate. `print` shows
        them as a table; `rows()`, `csv(path)` and `trace(path)` give data for pandas, a spreadsheet and Chrome."""
        compiled, inputs = self._bound(args, named)
        if not is_count(repeats, least=1):
            fail(Kind.INVALID_OPTION, "profile", f"repeats= is a number from 1 on, not {repeats!r}")
        from eqsat.explanation.profile import Profile

        return Profile.of(compiled, compiled.profile(inputs, self._threads, repeats))

    def random_inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Seeded arrays for the arguments: unit normal floats, small integers, fair bools."""
        from eqsat.runtime.verify import random_inputs

        return random_inputs(self._compiled.inputs, seed)

    def verify(self, /, *args: Any, seed: int = 0, **named: Any) -> dict[str, float]:
        """The error of each output against playback, on these arguments, or on random ones if there are none.

        Raises:
            EqsatError: WrongResult if an output is further off than its dtype allows; all that a call raises.
        """
        from eqsat.runtime.verify import verify_compiled

        if args or named:
            compiled, inputs = self._bound(args, named)
            return verify_compiled(compiled, self._threads, inputs)
        return verify_compiled(self._compiled, self._threads, adopt_all(self._compiled, self.random_inputs(seed)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes every variant to a file for `eqsat.load`, atomically. A like machine needs no compiler to load it."""
        from eqsat.runtime.store import save

        if not self._variants.held:
            self._model.fail_unbound(self._free)
        save(self._model, self._free, self._variants.held, self._serving, check_path(path))

    def __reduce__(self) -> tuple[Callable[..., Program], tuple[bytes, int]]:
        """Pickles and deep copies contain the bytes that `save` writes, with the present variants."""
        from eqsat.runtime.store import pack

        if not self._variants.held:
            self._model.fail_unbound(self._free)
        stored = pack(self._model, self._free, self._variants.held, self._serving)
        return self._unpickled, (stored, self._threads)

    def prepare(
        self,
        sizes: Mapping[str, Any] | None = None,
        /,
        *,
        background: bool = False,
        progress: ProgressChoice = None,
        **named: Any,
    ) -> Preparation:
        """Builds the code for sizes ahead of calls: `program.prepare(batch=[1, 8], seq=range(64, 513, 64))` builds
        every combination. Prepared sizes are not dropped, however many there are.

        Args:
            sizes: a size or several sizes by symbol, as the keywords; for a symbol that is named like a keyword. A
                symbol that is not given has the buckets that `dims=` gave.
            background: return at once; `wait()` of the result waits, and raises the errors.
            progress: called with a line for each size that is ready. True: a bar where standard error is a terminal,
                and in notebooks. Without effect in the background.

        Raises:
            EqsatError: InvalidOption for a name that is no free dim, a symbol without sizes, or a value that is no
                size; the errors of all sizes that cannot be built.
        """
        check_switches(progress, background=background)
        if sizes is not None and not isinstance(sizes, Mapping):
            message = f"sizes are given by symbol, not as {with_article(type(sizes).__name__)}"
            fail(Kind.INVALID_OPTION, "prepare", message, hint="prepare(batch=[1, 8])")
        wanted = combinations({**(sizes or {}), **named}, self._serving.buckets, self._free)
        complete = [self._complete(sizes) for sizes in wanted] if self._free else []
        preparation = Preparation(self._variants, complete, self._free)
        if background:
            return preparation
        with telling(progress, steps=len(preparation)) as report:
            return preparation.wait(progress=report)

    def is_ready(self, /, *args: Any, build: bool = False, **named: Any) -> bool:
        """Whether a call with arguments of these shapes finds its own code. build: begin to build the code in the
        background, unless it is ready or an earlier build of it has failed."""
        in_order = self._of_call.in_order(args, named)
        if in_order is not None and self._ready(in_order) is not None:
            return True
        dims = self._sizes_of(self._of_call.by_name(args, named)) if self._free else {}
        is_ready = self._variants.ready(key_of(dims)) is not None
        if build and not is_ready and not self._variants.has_failed(key_of(dims)):
            self._variants.start(dims)
        return is_ready

    def with_threads(self, threads: int) -> Program:
        """This program with so many threads for each call. Both share their code, present and future."""
        other = object.__new__(Program)
        other.__dict__.update({**self.__dict__, "_threads": check_threads(threads, threads)})
        return other

    @property
    def buckets(self) -> dict[str, Buckets]:
        """The buckets of the free dims that have some, as `dims=` gave them."""
        return dict(self._serving.buckets)

    @property
    def _compiled(self) -> Compiled:
        latest = self._variants.latest
        if latest is None:
            self._model.fail_unbound(self._free)
        return latest

    def _bound(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Compiled, list[np.ndarray]]:
        """The variant for these arguments, and the arguments as arrays that it takes."""
        given = self._of_call.by_name(args, named)
        compiled = self._variant(given)
        return compiled, adopt_all(compiled, given)

    def _variant(self, given: Mapping[str, Any]) -> Compiled:
        """The code for the shapes of these arguments, compiled at the first call with them."""
        if not self._free:
            return self._compiled
        return self._variants(self._sizes_of(given))

    def _sizes_of(self, given: Mapping[str, Any]) -> dict[str, int]:
        """The sizes of a call by symbol."""
        shapes = {
            name: tuple(value.shape) if is_on_device(value) else shape_of(name, value) for name, value in given.items()
        }
        dims = self._model.infer(shapes)
        self._keys.remember([shapes[name] for name in self._arguments], key_of(dims))
        return dims

    def _complete(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """All sizes by symbol of a call whose free dims have these sizes."""
        held = (dict(key) for key in self._variants.held)
        known = next((dims for dims in held if sizes.items() <= dims.items()), None)
        return self._keys.complete(sizes) if known is None else known

    def _ready(self, in_order: Sequence[Any]) -> Compiled | None:
        """The code for arguments of these shapes, if earlier calls have had the shapes, and the code exists."""
        if self._only is not None:
            return self._only
        key = self._keys.find(in_order)
        return None if key is None else self._variants.ready(key)

    def _answer(self, stand_in: StandIn, given: Mapping[str, Any], out: Any) -> Any:
        """A call that need not wait for its code."""
        answer = stand_in.answer(self._sizes_of(given))
        if isinstance(answer, Compiled):
            return call_on_host(answer, self._model.updates, given, out, self._threads)
        return answer_on_host(answer, self._model.updates, given, out, self._threads)
