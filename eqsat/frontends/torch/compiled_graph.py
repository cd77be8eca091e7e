"""An FX graph of ATen operators → a function of torch tensors and sizes that runs eqsat's kernels.

Sizes that are symbols in the graph are free dims of a program (`eqsat.serving`). Numbers that no shape tells, such as n
in `x * n`, are constants of a program: the function has a program for each.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from eqsat.api import optimize_and_compile
from eqsat.find_target import find_target
from eqsat.frontends.torch.backend_options import BackendOptions
from eqsat.frontends.torch.complex_memory import complex_of
from eqsat.frontends.torch.frozen import MOST_CHANGES, Stamp, copies_of, stamp_of
from eqsat.frontends.torch.graph_results import outputs_of
from eqsat.frontends.torch.memory_order import given_order, kept_order, laid_as, lay_in_order
from eqsat.frontends.torch.result_views import view_again
from eqsat.frontends.torch.sized_graph import GraphArguments, SizedGraph, number_of, output_name, outputs_in_order
from eqsat.runtime.arrays import Family, give_back, is_tensor
from eqsat.runtime.program import Program
from eqsat.serving.buckets import Buckets
from eqsat.serving.variants import Variants
from eqsat.serving.when_missing import ADAPT, EAGER, PAD, WAIT, WhenMissing
from ir.diagnostics import EqsatError, EqsatWarning, Kind
from ir.tiny.restriction import STAGE as PADDING

_NOT_OF_THE_GRAPH = (
    *(Kind.INVALID_OPTION, Kind.UNKNOWN_TARGET, Kind.NO_DEVICE, Kind.NO_COMPILER),
    *(Kind.INPUT_MISMATCH, Kind.AXIS_SIZE_MISMATCH, Kind.WRONG_RESULT),
)
"""Errors of the options, of the machine and of a call's arguments, which eager would hide."""
_THREADS = "threads"
"""The symbol of the number of threads in the key of a program."""


class _Result(NamedTuple):
    """Where one result of the graph comes from: the output of the program at this place, the argument at this place, or
    a number. number: SymInt, SymFloat or SymBool, or a Python value. view: the node that is a view of the output or of
    the argument, whose node is `base`."""

    output: int | None = None
    argument: int | None = None
    number: Any = None
    view: Any = None
    base: Any = None


class _State(NamedTuple):
    """The programs for some values of frozen parameters. reads: the places of the arguments that they take."""

    stamp: Stamp
    constants: Mapping[str, np.ndarray]
    reads: tuple[int, ...]
    programs: Variants[Program]


class CompiledGraph:
    """Call it with the graph's arguments; the result is a list of the graph's results. It may be called from many
    threads at once: a call of sizes that are ready waits for no build.

    Args:
        module: a torch.fx.GraphModule whose nodes have `meta["val"]`, as those of `aot_autograd`.
        options: with `fallback`, eager runs the graph, with an EqsatWarning, at sizes for which it cannot be compiled.
            With `when_missing`, eager or code for larger sizes answers calls whose code is being built.
        frozen: the places of tensors that are constants of the programs, until they change.
        writes: place of a result that is written into an argument → place of the argument. Programs write it there
            where they can; else it is a result like others.
    """

    def __init__(
        self,
        module: Any,
        options: BackendOptions,
        frozen: Sequence[int] = (),
        writes: Mapping[int, int] | None = None,
    ) -> None:
        self._module, self._options = module, options
        self._given = GraphArguments(module)
        self._outputs = outputs_in_order(module, self._given.views)
        self._results = self._results_of(module)
        self._orders = [kept_order(node) for node in self._outputs]
        self._complexes = [place for place, node in enumerate(self._outputs) if node.meta["val"].is_complex()]
        self._are_outputs = self._results == [_Result(place) for place in range(len(self._outputs))]
        self._updates = self._updates_of(outputs_of(module), writes or {})
        self._answers_eagerly = EAGER in _words(options.when_missing)
        self._pads = PAD in _words(options.when_missing)
        self._frozen = [place for place in self._given.tensors if place in frozen]
        self._changes, self._freezing = 0, threading.Lock()
        self._current = self._state((), {})
        self._latest: tuple[_State | None, int, Program | None] = (None, 0, None)
        self._left_to_eager: set[tuple[Any, ...]] = set()

    def __call__(self, *arguments: Any) -> list[Any]:
        import torch

        if not torch.is_grad_enabled():  # `no_grad` takes as long as a tenth of the shortest calls
            return self._run_or_leave(arguments)
        with torch.no_grad():
            return self._run_or_leave(arguments)

    @property
    def programs(self) -> list[Program]:
        """The programs that were called, the latest last."""
        return list(self._current.programs.held.values())

    def _run_or_leave(self, arguments: Sequence[Any]) -> list[Any]:
        """The results; by eager at sizes for which the graph cannot be compiled, if it may run them."""
        if self._left_to_eager and self._sizes(arguments) in self._left_to_eager:
            return self._run_in_eager(arguments)
        try:
            return self._run(arguments)
        except EqsatError as error:
            if self._pads and error.diagnostics[0].stage == PADDING:
                self._stop_padding(error)
                return self._run(arguments)
            if not _may_fall_back(error, self._options.fallback):
                raise
            message = f"eager runs a graph that eqsat could not compile: {error.diagnostics[0]}"
            warnings.warn(message, EqsatWarning, stacklevel=3)
            self._left_to_eager.add(self._sizes(arguments))
            return self._run_in_eager(arguments)

    def _run(self, arguments: Sequence[Any]) -> list[Any]:
        outputs: list[Any] = []
        if self._outputs:
            state = self._freeze(arguments) if self._frozen else self._current
            program = self._program(state, arguments)
            given = [arguments[place] for place in state.reads]
            if self._given.orders or self._given.complexes:
                given = list(map(self._given.in_memory, state.reads, given))
            if self._answers_eagerly and not program.is_ready(*given, build=True):
                return self._run_in_eager(arguments)
            results = program(*given)
            outputs = self._as_tensors(results if isinstance(results, tuple) else (results,))
            if self._are_outputs:
                return outputs
        return [self._take(result, arguments, outputs) for result in self._results]

    def _freeze(self, arguments: Sequence[Any]) -> _State:
        """The programs for the present values of the frozen parameters."""
        stamp = stamp_of([arguments[place] for place in self._frozen])
        if self._current.stamp == stamp:
            return self._current
        with self._freezing:
            if self._current.stamp == stamp or not self._frozen:
                return self._current
            self._changes += 1
            if self._changes <= MOST_CHANGES:
                tensors = {
                    self._given.names[place]: self._given.in_memory(place, arguments[place]) for place in self._frozen
                }
                state = self._current = self._state(stamp, copies_of(tensors))
                return state
            message = (
                f"parameters of a graph with freezing changed {MOST_CHANGES} times: they are arguments from now on"
            )
            warnings.warn(message, EqsatWarning, stacklevel=4)
            self._frozen = []
            state = self._current = self._state((), {})
            return state

    def _state(self, stamp: Stamp, constants: Mapping[str, np.ndarray]) -> _State:
        """No programs yet, with these constants."""
        reads = tuple(place for place in self._given.tensors if self._given.names[place] not in constants)
        return _State(stamp, constants, reads, Variants(partial(self._make_program, constants), {}))

    def _program(self, state: _State, arguments: Sequence[Any]) -> Program:
        """The program for the numbers among the arguments, and for torch's present number of threads."""
        import torch

        threads = self._options.program.get(_THREADS, torch.get_num_threads())
        if self._given.numbers:
            numbers = {name: place.read(arguments) for name, place in self._given.numbers.items()}
            return state.programs({_THREADS: threads, **numbers})
        known, count, program = self._latest
        if known is not state or count != threads or program is None:
            program = state.programs({_THREADS: threads})
            self._latest = (state, threads, program)
        return program

    def _make_program(self, constants: Mapping[str, np.ndarray], dims: Mapping[str, Any]) -> Program:
        numbers = {name: value for name, value in dims.items() if name != _THREADS}
        alike = self._current.programs.held if self._current.constants is constants else {}
        for key, program in alike.items():
            if {name: value for name, value in key if name != _THREADS} == numbers:
                return program.with_threads(dims[_THREADS])
        graph = SizedGraph(self._module, self._given, numbers, constants)
        keywords = {**self._options.program, _THREADS: dims[_THREADS], **self._serving()}
        if self._updates and not find_target(keywords.get("target", "auto")).is_gpu:
            keywords["updates"] = self._updates
        program = optimize_and_compile(graph, **keywords)
        self._options.on_program(program)
        return program

    def _serving(self) -> dict[str, Any]:
        """The keywords `dims` and `when_missing` of this graph's programs: of the sizes that the options name, those
        that are free here."""
        names, words = self._given.aliases, self._options.when_missing
        if isinstance(words, Mapping):
            words = {names[name]: WAIT if word == EAGER else word for name, word in words.items() if name in names}
        elif words == EAGER or (words == PAD and not self._pads):
            words = WAIT
        every = self._options.all_dims
        wanted = self._options.dims if every is None else dict.fromkeys(names.values(), every)
        buckets: dict[str, Buckets] = {}
        for name, sizes in wanted.items():
            if name not in names:
                continue
            least, greatest = self._given.range_of(names[name])
            fitting = [size for size in sizes if least <= size and (greatest is None or size <= greatest)]
            if fitting:
                buckets[names[name]] = Buckets(*fitting)
        return {"dims": buckets, "when_missing": words if self._pads or ADAPT in _words(words) else WAIT}

    def _stop_padding(self, error: EqsatError) -> None:
        """Forgets programs that pad, as padding would change their results."""
        message = f"calls of this graph wait for their code instead of being padded: {error.diagnostics[0]}"
        warnings.warn(message, EqsatWarning, stacklevel=4)
        self._pads = False
        self._current = self._state(self._current.stamp, self._current.constants)

    def _run_in_eager(self, arguments: Sequence[Any]) -> list[Any]:
        results = self._module(*map(_as_traced, self._given.nodes, arguments))
        return list(results) if isinstance(results, tuple | list) else [results]

    def _sizes(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(place.read(arguments) for place in self._given.sized)

    def _take(self, result: _Result, arguments: Sequence[Any], outputs: Sequence[Any]) -> Any:
        if result.view is not None:
            tensor = outputs[result.output] if result.output is not None else arguments[cast(int, result.argument)]
            return view_again(
                result.view, result.base, _as_traced(result.base, tensor), lambda size: self._number(size, arguments)
            )
        if result.output is not None:
            return outputs[result.output]
        if result.argument is not None:
            return arguments[result.argument]
        return self._number(result.number, arguments) if hasattr(result.number, "node") else result.number

    def _number(self, symbolic: Any, arguments: Sequence[Any]) -> Any:
        """The value of a SymInt, SymFloat or SymBool in this call."""
        places = self._given.places
        symbols = symbolic.node.expr.free_symbols
        return number_of(symbolic, {symbol: places[symbol].read(arguments) for symbol in symbols})

    def _as_tensors(self, outputs: Sequence[Any]) -> list[Any]:
        """The program's outputs as tensors with eager's order of axes in memory."""
        tensors = [value if is_tensor(value) else give_back(value, Family.TORCH) for value in outputs]
        for place in self._complexes:
            tensors[place] = complex_of(tensors[place])
        for tensor, order in zip(tensors, self._orders, strict=True):
            if order is not None:
                lay_in_order(tensor, order)
        return tensors

    def _updates_of(self, results: Sequence[Any], writes: Mapping[int, int]) -> dict[str, str]:
        """The outputs of programs that may be written over arguments: by name, the name of the argument, which has the
        same dtype, sizes and order of axes. No other result is the output, or a view of it."""
        places = [result.output for result in self._results]
        updates = {}
        for number, place in writes.items():
            node, argument = results[number], self._given.nodes[place]
            is_alone = places[number] is not None and places.count(places[number]) == 1
            if is_alone and place in self._given.tensors and _lies_like(node, argument):
                updates[output_name(node)] = self._given.names[place]
        return updates

    def _results_of(self, module: Any) -> list[_Result]:
        output = {node: place for place, node in enumerate(self._outputs)}
        argument = {node: place for place, node in enumerate(self._given.nodes)}
        views = self._given.views
        return [
            _Result(output.get(views[node]), argument.get(views[node]), view=node, base=views[node])
            if node in views
            else _Result(output[node])
            if node in output
            else _Result(None, argument.get(node), node.meta["val"] if hasattr(node, "meta") else node)
            for node in outputs_of(module)
        ]


def _lies_like(node: Any, argument: Any) -> bool:
    """Whether a value is real, and has the dtype, the sizes and the order of axes in memory of an argument."""
    value, other = node.meta["val"], argument.meta["val"]
    sizes = [list(map(str, tensor.shape)) for tensor in (value, other)]
    return (
        not value.is_complex()
        and value.dtype == other.dtype
        and sizes[0] == sizes[1]
        and kept_order(node) == given_order(argument)
    )


def _as_traced(node: Any, argument: Any) -> Any:
    """An argument with the order of axes in memory for which torch traced the graph: eager's views rely on it."""
    return laid_as(argument, node.meta["val"]) if is_tensor(argument) else argument


def _words(when_missing: WhenMissing) -> Collection[str]:
    """The words of the option `when_missing`."""
    return list(when_missing.values()) if isinstance(when_missing, Mapping) else [when_missing]


def _may_fall_back(error: EqsatError, fallback: bool | None) -> bool:
    """Whether eager may run a graph after this error. A defect of eqsat itself is an error, unless the user asks for
    `fallback=True`, or for torch's `suppress_errors`."""
    import torch

    if fallback is False or error.kind in _NOT_OF_THE_GRAPH:
        return False
    return error.kind is not Kind.INTERNAL_ERROR or fallback is True or torch._dynamo.config.suppress_errors
