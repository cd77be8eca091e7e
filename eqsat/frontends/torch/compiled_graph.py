"""An FX graph of ATen operators → a function of torch tensors and sizes that runs eqsat's kernels.

Sizes that are symbols in the graph are numbers in a program: the function builds a program for each set of sizes.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from eqsat.api import optimize_and_compile
from eqsat.frontends.torch.backend_options import BackendOptions
from eqsat.frontends.torch.element_types import element_type
from eqsat.frontends.torch.lower_graph import lower_graph, outputs_of
from eqsat.runtime.arrays import Family, give_back, is_tensor
from eqsat.runtime.program import Program
from eqsat.tensor import Tensor, input
from ir.diagnostics import EqsatError, EqsatWarning, Kind

Sizes = tuple[Any, ...]
"""The number of threads; then, per argument whose sizes the graph leaves open, its shape, or the number itself."""


_NOT_OF_THE_GRAPH = (Kind.INVALID_OPTION, Kind.UNKNOWN_TARGET, Kind.NO_DEVICE, Kind.NO_COMPILER)
"""Errors of the options and of the machine, which eager would hide."""


class _Result(NamedTuple):
    """Where one result of the graph comes from: the output of the program at this place, an argument at this place, or
    a number that the sizes determine."""

    output: int | None = None
    argument: int | None = None
    number: Any = None


class _Eager(NamedTuple):
    """A graph that eqsat cannot compile at some sizes, run by torch."""

    module: Any
    program: None = None

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        results = self.module(*arguments)
        return list(results) if isinstance(results, tuple | list) else [results]


class _Variant(NamedTuple):
    """The code for one set of sizes. reads: the places of the arguments that the program takes."""

    program: Program | None
    reads: tuple[int, ...]
    results: tuple[_Result, ...]

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        outputs: Sequence[Any] = ()
        if self.program is not None:
            found = self.program(*(arguments[place] for place in self.reads))
            outputs = found if isinstance(found, tuple) else (found,)
        return [self._take(result, arguments, outputs) for result in self.results]

    def _take(self, result: _Result, arguments: Sequence[Any], outputs: Sequence[Any]) -> Any:
        if result.output is not None:
            value = outputs[result.output]
            return value if is_tensor(value) else give_back(value, Family.TORCH)
        return arguments[result.argument] if result.argument is not None else result.number


class CompiledGraph:
    """Call it with the graph's arguments; the result is a list of the graph's results. It may be called from many
    threads at once.

    Args:
        module: a torch.fx.GraphModule.
        options: with `fallback`, eager runs the graph, with an EqsatWarning, at sizes for which it cannot be compiled.
    """

    def __init__(self, module: Any, options: BackendOptions) -> None:
        self._module = module
        self._options = options
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._names = [node.name for node in placeholders]
        self._sized = [place for place, node in enumerate(placeholders) if not _has_known_sizes(node)]
        self._variants: dict[Sizes, _Variant | _Eager] = {}
        self._building = threading.Lock()

    def __call__(self, *arguments: Any) -> list[Any]:
        import torch

        sizes = tuple(
            arguments[place].shape if is_tensor(arguments[place]) else arguments[place] for place in self._sized
        )
        key = (torch.get_num_threads(), *sizes)
        variant = self._variants.get(key)
        with torch.no_grad():
            if variant is None:
                with self._building:
                    variant = self._variants.get(key) or self._build_or_fall_back(arguments)
                    self._variants[key] = variant
            return variant(arguments)

    @property
    def programs(self) -> list[Program]:
        """The programs of all sizes that were called."""
        return [variant.program for variant in self._variants.values() if variant.program is not None]

    def _build_or_fall_back(self, arguments: Sequence[Any]) -> _Variant | _Eager:
        try:
            return self._build(arguments)
        except EqsatError as error:
            if not self._options.fallback or error.kind in _NOT_OF_THE_GRAPH:
                raise
            message = f"eager runs a graph that eqsat could not compile: {error.diagnostics[0]}"
            warnings.warn(message, EqsatWarning, stacklevel=2)
            return _Eager(self._module)

    def _build(self, arguments: Sequence[Any]) -> _Variant:
        import torch

        values = [
            input(name, tuple(value.shape), element_type(value.dtype)) if is_tensor(value) else value
            for name, value in zip(self._names, arguments, strict=True)
        ]
        results = lower_graph(self._module, values)
        places = {id(value): place for place, value in enumerate(values) if isinstance(value, Tensor)}
        outputs: dict[int, Tensor] = {
            id(result): result
            for result in self._in_order_of_graph(results)
            if isinstance(result, Tensor) and id(result) not in places
        }
        order = {key: place for place, key in enumerate(outputs)}
        keywords = {"threads": torch.get_num_threads(), **self._options.program}
        program = optimize_and_compile(list(outputs.values()), **keywords) if outputs else None
        if program is not None:
            self._options.on_program(program)
        reads = tuple(self._names.index(name) for name in program.arguments) if program is not None else ()
        return _Variant(program, reads, tuple(_source(result, order, places) for result in results))

    def _in_order_of_graph(self, results: Sequence[Any]) -> list[Any]:
        """The results in the order in which the graph computes them, so that the uops of one layer stand together in
        the program; a backward graph returns gradients in the order of the parameters."""
        place = {node: place for place, node in enumerate(self._module.graph.nodes)}
        places = [place.get(node, -1) for node in outputs_of(self._module)]
        return [results[number] for number in sorted(range(len(results)), key=places.__getitem__)]


def _source(result: Any, outputs: Mapping[int, int], arguments: Mapping[int, int]) -> _Result:
    if not isinstance(result, Tensor):
        return _Result(number=result)
    if id(result) in arguments:
        return _Result(argument=arguments[id(result)])
    return _Result(output=outputs[id(result)])


def _has_known_sizes(placeholder: Any) -> bool:
    """Whether the graph holds for one shape of an argument only, as its caller's guards make sure."""
    import torch

    value = placeholder.meta.get("val")
    return isinstance(value, torch.Tensor) and all(isinstance(size, int) for size in value.shape)
