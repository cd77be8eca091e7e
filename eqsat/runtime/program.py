"""The compiled program as its users hold it: a callable that can be looked at."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from eqsat.egraph.view import EGraphView
from eqsat.failure.internal_error import reports_all
from eqsat.failure.reproducer_calls import of_program
from eqsat.model import Model
from eqsat.options import checked_path, is_count
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
    from eqsat.explanation.which import Wanted
    from eqsat.explanation.why_not import WhyNot

RESERVED = ("out", "repeats", "seed")
"""Keywords of a program's own, which hide inputs of the same name."""
Unpickled = Callable[[bytes, int], "Program"]
"""From the bytes that `Program.save` writes, and a number of threads: the program. Pickles hold the function's name."""


@reports_all(of_program)
class Program:
    """Call it with arrays, by name or by position.

    A program whose sizes were all known has one variant; one with free dims compiles a variant at the first call
    of each shape and keeps it, as many as `eqsat.runtime.variants.MOST_VARIANTS`. What is asked of the program as a
    whole (kernels, explain, dump …) is answered for the variant of the latest call. Calls may come from many threads
    at once.

    Arguments may also come as one mapping, `program({"x": a, "out": b})`, whatever the inputs are called.
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
        """The outputs: an array, or a tuple in signature order, in the caller's family of arrays.

        Args:
            out: an array, or a tuple of them, that the results are written into and that is returned.

        Raises:
            EqsatError: InputMismatch for a missing, unknown or double argument, a wrong shape or dtype, or an `out`
                that cannot take the results; AxisSizeMismatch for arguments that contradict each other.
        """
        given = self._by_name(args, named)
        compiled = self._variant(given)
        if compiled.on_device is not None and _meets_device(given, out):
            results = call_on_device(compiled.on_device, compiled.bound, given, self._targets(compiled, out))
            return out if out is not None else results[0] if len(results) == 1 else results
        inputs = self._adopted(compiled, given)
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

        count = len(self.kernels)
        kernels = with_count(count, "kernel")
        return f"Program({kernels} for {latest.artifact.target.name}, {micros(self.cost)} estimated)"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return self._arguments

    @property
    def output_names(self) -> list[str]:
        """The results' names, in order."""
        return [name for name, _ in self._compiled.outputs]

    @property
    def variants(self) -> list[dict[str, int]]:
        """The sizes for which there is compiled code, of the latest call last; one empty entry where no size was
        free."""
        return [dict(key) for key in self._variants.held]

    @property
    def kernels(self) -> tuple[KernelReport, ...]:
        """One report per kernel launch, in order."""
        return self._compiled.kernels

    @property
    def cost(self) -> float:
        """§11's estimate of one call, in ns."""
        return sum(kernel.estimated_ns for kernel in self.kernels)

    @property
    def stats(self) -> Stats:
        """Sizes, rules fired, stop reasons, seconds per stage."""
        return self._compiled.artifact.stats

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Notes and warnings; nothing was done silently."""
        return self._compiled.notes

    def explain(self, kernel: Wanted | None = None) -> str:
        """Per kernel its uops, the rules that built it, its price, and what was rejected, by how much; of one kernel
        also the chain of rewrites that led to it.

        kernel: its place, its report, the buffer that it writes, or its name, where no other has the same.

        Raises:
            EqsatError: InvalidOption for the name of no kernel or of several, or where rules of a caller's, with which
                a loaded program was made, are not known here.
        """
        from eqsat.explanation.explain import explain

        return explain(self._compiled, kernel)

    def explanation(self, kernel: Wanted | None = None) -> Group:
        """What `explain` says, as a renderable of rich."""
        from eqsat.explanation.explain import explanation

        return explanation(self._compiled, kernel)

    def explained(self, kernel: Wanted | None = None) -> dict[str, Any]:
        """What `explain` says, as JSON-ready data."""
        from eqsat.explanation.explain import explained

        return explained(self._compiled, kernel)

    def chain(self, kernel: Wanted) -> Chain:
        """The rewrites, in order, that led from the uops of a kernel to it; named as in `explain`. Of several outputs
        the one that is named, else the first."""
        from eqsat.explanation.chain import chain_at
        from eqsat.explanation.which import output_of

        return chain_at(self._compiled, *output_of(self.kernels, kernel))

    def why_not(self, first: Wanted, second: Wanted) -> WhyNot:
        """Why two kernels are not one: legality with the analysis behind it, or cost with figures."""
        from eqsat.explanation.why_not import why_not

        return why_not(self._compiled, first, second)

    def explore(self) -> Exploration:
        """The optimization again, step by step, as data, tables, or (`html(path)`) one page for a browser."""
        from eqsat.explanation.explore import Explorer

        return Explorer(self._compiled.setting).finish()

    def source(self) -> str:
        """The kernels' text."""
        return "\n".join(self._compiled.artifact.kernels.values())

    def dump(self, stage: str) -> Any:
        """Any stage of the path as JSON-ready data; the text stages ("c", "cu") as text."""
        return self._compiled.stages(stage)

    def egraph(self) -> EGraphView:
        """The saturated e-graph; `eqsat.egraph.dump` turns it into JSON, DOT, or an SVG of a small one."""
        return self._compiled.stages.egraph()

    def profile(self, /, *args: Any, repeats: int = 10, **named: Any) -> tuple[KernelReport, ...]:
        """The reports with the median measured ns of `repeats` runs beside the estimate."""
        compiled, inputs = self._bound(args, named)
        if not is_count(repeats, least=1):
            fail(Kind.INVALID_OPTION, "profile", f"repeats= is a number from 1 on, not {repeats!r}")
        return compiled.profile(inputs, self._threads, repeats)

    def random_inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Seeded arrays for the arguments: unit normal floats, small integers, fair bools."""
        from eqsat.runtime.verify import random_inputs

        return random_inputs(self._compiled.inputs, seed)

    def verify(self, /, *args: Any, seed: int = 0, **named: Any) -> dict[str, float]:
        """The error of each output against playback, on these arguments or, where there are none, on random ones.

        Raises:
            EqsatError: WrongResult where an output is further off than its dtype allows; what a call raises.
        """
        from eqsat.runtime.verify import verify_compiled

        if args or named:
            compiled, inputs = self._bound(args, named)
            return verify_compiled(compiled, self._threads, inputs)
        return verify_compiled(self._compiled, self._threads, list(self.random_inputs(seed).values()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that `eqsat.load` needs to `path`, atomically: every variant, and no compiler on a like machine."""
        from eqsat.runtime.store import save

        if not self._variants.held:
            self._fail_unbound()
        save(self._model, self._free, self._variants.held, checked_path(path))

    def __reduce__(self) -> tuple[Callable[..., Program], tuple[bytes, int]]:
        """Pickles and deep copies hold what `save` writes: the variants that there are."""
        from eqsat.runtime.store import packed

        if not self._variants.held:
            self._fail_unbound()
        return self._unpickled, (packed(self._model, self._free, self._variants.held), self._threads)

    @property
    def _compiled(self) -> Compiled:
        latest = self._variants.latest
        if latest is None:
            self._fail_unbound()
        return latest

    def _fail_unbound(self) -> NoReturn:
        shapes = [self._model.declared[name].shape for name in self._arguments]
        told = {size for shape in shapes for size in shape}
        hint = "give dims= when compiling" + (", or call the program once" if told.issuperset(self._free) else "")
        message = f"no size is known for {', '.join(self._free)}"
        fail(Kind.UNBOUND_DIM, "program", message, hint=hint, missing=self._free)

    def _bound(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Compiled, list[np.ndarray]]:
        """The variant for these arguments, and the arguments as it takes them."""
        given = self._by_name(args, named)
        compiled = self._variant(given)
        return compiled, self._adopted(compiled, given)

    def _adopted(self, compiled: Compiled, given: Mapping[str, Any]) -> list[np.ndarray]:
        return [adopt(name, given[name], each.dtype, each.shape) for name, each in compiled.inputs.items()]

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
            args, named = [], self._together(args[0], named)
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

    def _together(self, mapping: Mapping[Any, Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by one mapping, with those given by name besides."""
        self._refuse(
            unknown=[name for name in mapping if not isinstance(name, str)], twice=sorted(mapping.keys() & named.keys())
        )
        return {**mapping, **named}

    def _refuse(self, **wrong: Sequence[Any]) -> None:
        """Fail where any of these lists of names holds one."""
        found = {what: list(names) for what, names in wrong.items() if names}
        if not found:
            return
        reserved = next((name for name in found.get("missing", ()) if name in RESERVED), None)
        hint = reserved and f"an input named {reserved!r} is given in a mapping: program({{{reserved!r}: …}})"
        raise EqsatError(
            Diagnostic(
                kind=Kind.INPUT_MISMATCH,
                stage=STAGE,
                message="arguments do not match the inputs",
                hint=hint,
                details={**found, "expected": list(self._arguments)},
            )
        )

    def _variant(self, given: Mapping[str, Any]) -> Compiled:
        """The code for these shapes, compiled at their first call."""
        if not self._free:
            return self._compiled
        shapes = {
            name: tuple(value.shape) if is_on_device(value) else shape_of(name, value) for name, value in given.items()
        }
        return self._variants(self._model.infer(shapes))

    def _fill(self, compiled: Compiled, inputs: list[np.ndarray], out: Any) -> None:
        """Run into the memory of `out`; inputs that lie in it are copied first."""
        outputs = [
            writable(name, target, each.dtype, each.shape)
            for target, (name, each) in zip(self._targets(compiled, out) or (), compiled.outputs, strict=True)
        ]
        if any(np.may_share_memory(one, other) for place, one in enumerate(outputs) for other in outputs[:place]):
            fail(Kind.INPUT_MISMATCH, STAGE, "two arrays of out= share memory")
        apart = [each.copy() if any(np.may_share_memory(each, one) for one in outputs) else each for each in inputs]
        compiled.executable.run(apart, outputs, self._threads)


def _meets_device(given: Mapping[str, Any], out: Any) -> bool:
    """Whether any array of a call is on a device."""
    return any(map(is_on_device, [*given.values(), *(out if isinstance(out, tuple | list) else [out])]))
