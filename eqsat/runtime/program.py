"""The compiled program as users hold it: a callable with methods that show how it was optimized."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from eqsat.egraph.view import EGraphView
from eqsat.failure.internal_error import reports_all
from eqsat.failure.reproducer_calls import of_program
from eqsat.model import Model
from eqsat.options import check_path, is_count
from eqsat.runtime.arrays import STAGE, adopt, family_of, give_back, is_on_device, shape_of, writable
from eqsat.runtime.compiled import Compiled, KernelReport
from eqsat.runtime.device_call import call_on_device
from eqsat.runtime.stats import Stats
from eqsat.runtime.variants import Key, Specialise, Variants
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.grammar import with_count

if TYPE_CHECKING:
    from rich.console import Group

    from eqsat.explanation.chain import Chain
    from eqsat.explanation.explore import Exploration
    from eqsat.explanation.kernel_by_name import Wanted
    from eqsat.explanation.why_not import WhyNot

RESERVED = ("out", "repeats", "seed")
"""Keyword arguments of a program's own methods. An input of the same name must be passed in a mapping."""
Unpickled = Callable[[bytes, int], "Program"]
"""Makes a program from the bytes of `Program.save` and a number of threads. Pickles refer to this function by name."""


@reports_all(of_program)
class Program:
    """Call the program with arrays, by name, by position, or as one mapping: `program({"x": a, "out": b})`.

    A program whose sizes were all known has one variant. A program with free dims compiles a variant at the first call
    with new sizes, and keeps the latest `eqsat.runtime.variants.MOST_VARIANTS`. Methods without arguments (kernels,
    explain, dump …) are about the variant of the latest call. A program may be called from many threads at once.
    """

    def __init__(
        self,
        model: Model,
        specialise: Specialise,
        threads: int,
        known: Mapping[Key, Compiled],
        unpickled: Unpickled,
        free: Sequence[str] = (),
    ) -> None:
        self._model = model
        self._arguments = model.arguments
        self._variants = Variants(specialise, known)
        self._threads = threads
        self._unpickled = unpickled
        self._free = tuple(free)

    def __call__(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """The outputs, as arrays of the caller's library: one array, or a tuple in signature order.

        Args:
            out: an array, or a tuple of arrays. Results are written into it, and it is returned.

        Raises:
            EqsatError: InputMismatch for a missing, unknown or double argument, a wrong shape or dtype, or an `out`
                that cannot take the results; AxisSizeMismatch for arguments that contradict each other.
        """
        given = self._by_name(args, named)
        compiled = self._variant(given)
        if compiled.on_device is not None and _any_on_device(given, out):
            results = call_on_device(compiled.on_device, compiled.bound, given, self._targets(compiled, out))
            return out if out is not None else results[0] if len(results) == 1 else results
        inputs = self._adopt(compiled, given)
        if out is not None:
            self._fill(compiled, inputs, out)
            return out
        family = family_of(given.values())
        results = tuple(give_back(output, family) for output in compiled.run(inputs, self._threads))
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        latest = self._variants.latest
        if latest is None:
            return f"Program(free dims: {', '.join(self._free)}; no variant yet)"
        from eqsat.explanation.price_text import micros

        kernels = with_count(len(self.kernels), "kernel")
        return f"Program({kernels} for {latest.artifact.target.name}, {micros(self.cost)} estimated)"

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
    def kernels(self) -> tuple[KernelReport, ...]:
        """One report per kernel launch, in order."""
        return self._compiled.kernels

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

    def explore(self, part: str | None = None) -> Exploration:
        """Runs the optimization again and records its steps, as data, tables or (`html(path)`) a page for a browser.

        part: the part to explore, of a program of several: `explorations` names them.

        Raises:
            EqsatError: InvalidOption, if there is no such part, or if there are several and none is named.
        """
        from eqsat.explanation.explore import Explorer

        return Explorer(self._compiled.setting, part=part).finish()

    def explorations(self) -> dict[str, Exploration]:
        """The exploration of every part of the program, by name; of a program of one part, `main`."""
        from eqsat.explanation.explore import explore_parts

        return explore_parts(self._compiled.setting)

    def source(self) -> str:
        """The text of all kernels."""
        return "\n".join(self._compiled.artifact.kernels.values())

    def dump(self, stage: str) -> Any:
        """One stage as JSON-ready data; the text stages ("c", "cu") as text."""
        return self._compiled.stages(stage)

    def egraph(self, part: str | None = None) -> EGraphView:
        """The saturated e-graph; `eqsat.egraph.dump` turns it into JSON, DOT, or an SVG of a small one. part: as in
        `explore`."""
        return self._compiled.stages.egraph(part)

    def profile(self, /, *args: Any, repeats: int = 10, **named: Any) -> tuple[KernelReport, ...]:
        """The kernel reports with the median measured time of `repeats` runs, in ns, beside the estimate."""
        compiled, inputs = self._bound(args, named)
        if not is_count(repeats, least=1):
            fail(Kind.INVALID_OPTION, "profile", f"repeats= is a number from 1 on, not {repeats!r}")
        return compiled.profile(inputs, self._threads, repeats)

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
        return verify_compiled(self._compiled, self._threads, list(self.random_inputs(seed).values()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes every variant to a file for `eqsat.load`, atomically. A like machine needs no compiler to load it."""
        from eqsat.runtime.store import save

        if not self._variants.held:
            self._fail_unbound()
        save(self._model, self._free, self._variants.held, check_path(path))

    def __reduce__(self) -> tuple[Callable[..., Program], tuple[bytes, int]]:
        """Pickles and deep copies contain the bytes that `save` writes, with the present variants."""
        from eqsat.runtime.store import pack

        if not self._variants.held:
            self._fail_unbound()
        return self._unpickled, (pack(self._model, self._free, self._variants.held), self._threads)

    @property
    def _compiled(self) -> Compiled:
        latest = self._variants.latest
        if latest is None:
            self._fail_unbound()
        return latest

    def _fail_unbound(self) -> NoReturn:
        shapes = [self._model.declared[name].shape for name in self._arguments]
        input_sizes = {size for shape in shapes for size in shape}
        hint = "give dims= when compiling" + (
            ", or call the program once" if input_sizes.issuperset(self._free) else ""
        )
        message = f"no size is known for {', '.join(self._free)}"
        fail(Kind.UNBOUND_DIM, "program", message, hint=hint, missing=self._free)

    def _bound(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Compiled, list[np.ndarray]]:
        """The variant for these arguments, and the arguments as arrays that it takes."""
        given = self._by_name(args, named)
        compiled = self._variant(given)
        return compiled, self._adopt(compiled, given)

    def _adopt(self, compiled: Compiled, given: Mapping[str, Any]) -> list[np.ndarray]:
        return [adopt(name, given[name], type_.dtype, type_.shape) for name, type_ in compiled.inputs.items()]

    def _targets(self, compiled: Compiled, out: Any) -> list[Any] | None:
        """The arrays of `out=`, one for each output."""
        if out is None:
            return None
        targets = list(out) if isinstance(out, tuple | list) else [out]
        if len(targets) != len(compiled.outputs):
            fail(
                Kind.INPUT_MISMATCH,
                STAGE,
                f"out= has {with_count(len(targets), 'array')} for {with_count(len(compiled.outputs), 'output')}",
            )
        return targets

    def _by_name(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        names = self._arguments
        if len(args) == 1 and isinstance(args[0], Mapping):
            args, named = [], self._merge(args[0], named)
        if len(args) > len(names):
            fail(
                Kind.INPUT_MISMATCH,
                STAGE,
                f"{with_count(len(args), 'argument')} for {with_count(len(names), 'input')}",
                expected=list(names),
            )
        given = dict(zip(names, args, strict=False))
        twice = sorted(given.keys() & named.keys())
        given |= named
        missing = [name for name in names if name not in given]
        unknown = sorted(given.keys() - set(names))
        self._refuse(missing=missing, unknown=unknown, twice=twice)
        return given

    def _merge(self, mapping: Mapping[Any, Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of a call that passes some in a mapping and others by name."""
        self._refuse(
            unknown=[name for name in mapping if not isinstance(name, str)], twice=sorted(mapping.keys() & named.keys())
        )
        return {**mapping, **named}

    def _refuse(self, **wrong: Sequence[Any]) -> None:
        """Fail if one of these lists of names is not empty."""
        errors = {what: list(names) for what, names in wrong.items() if names}
        if not errors:
            return
        reserved = next((name for name in errors.get("missing", ()) if name in RESERVED), None)
        hint = reserved and f"an input named {reserved!r} is given in a mapping: program({{{reserved!r}: …}})"
        raise EqsatError(
            Diagnostic(
                kind=Kind.INPUT_MISMATCH,
                stage=STAGE,
                message="arguments do not match the inputs",
                hint=hint,
                details={**errors, "expected": list(self._arguments)},
            )
        )

    def _variant(self, given: Mapping[str, Any]) -> Compiled:
        """The code for the shapes of these arguments, compiled at the first call with them."""
        if not self._free:
            return self._compiled
        shapes = {
            name: tuple(value.shape) if is_on_device(value) else shape_of(name, value) for name, value in given.items()
        }
        return self._variants(self._model.infer(shapes))

    def _fill(self, compiled: Compiled, inputs: list[np.ndarray], out: Any) -> None:
        """Run and write the results into `out`; inputs that share memory with `out` are copied first."""
        outputs = [
            writable(name, target, type_.dtype, type_.shape)
            for target, (name, type_) in zip(self._targets(compiled, out) or (), compiled.outputs, strict=True)
        ]
        if any(np.may_share_memory(one, other) for place, one in enumerate(outputs) for other in outputs[:place]):
            fail(Kind.INPUT_MISMATCH, STAGE, "two arrays of out= share memory")
        copies = [a.copy() if any(np.may_share_memory(a, other) for other in outputs) else a for a in inputs]
        compiled.executable.run(copies, outputs, self._threads)


def _any_on_device(given: Mapping[str, Any], out: Any) -> bool:
    """Whether any argument or `out` array is on a device."""
    return any(map(is_on_device, [*given.values(), *(out if isinstance(out, tuple | list) else [out])]))
