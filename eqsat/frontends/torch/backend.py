"""`torch.compile(model, backend="eqsat")`: Dynamo's graph → forward and backward functions that run eqsat's kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from eqsat.frontends.torch.assertions import is_assertion, require, take_assertions
from eqsat.frontends.torch.backend_options import BackendOptions, backend_options
from eqsat.frontends.torch.compiled_graph import CompiledGraph
from eqsat.frontends.torch.decompositions import decompositions
from eqsat.frontends.torch.draws import draw_again, draw_by_seed, new_seeds, take_seeds
from eqsat.frontends.torch.frozen import parameters
from eqsat.frontends.torch.graph_results import outputs_of
from eqsat.frontends.torch.memory_order import keep_orders, pass_orders_to_backward
from eqsat.frontends.torch.partition import compile_supported_parts
from eqsat.frontends.torch.survey import TorchSurvey, listed
from eqsat.frontends.torch.writes import is_write, take_writes, write, written_values
from ir.diagnostics import EqsatError, EqsatWarning

FASTER_IN_EAGER = ("_fft_c2c.default", "_fft_r2c.default", "_fft_c2r.default")
"""Operators that eager runs unless the whole graph is to be compiled: torch's library has fast Fourier transforms, and
eqsat multiplies by matrices."""

Compiled = Callable[[list[Any]], list[Any]]
"""Takes a list of arguments, which it empties so that their memory can be reused, and returns the results."""


def eqsat(module: Any, example_inputs: Sequence[Any], *, mode: str | None = None, options: Any = None) -> Any:
    """The backend, as Dynamo calls it with a graph that it captured.

    options: see `eqsat.frontends.torch.backend_options`. `mode` belongs to inductor, and changes nothing here.

    Raises:
        EqsatError: InvalidOption. With `fallback=False` the returned function raises UnsupportedOp, so that the error
            reaches the caller of the model unchanged.
    """
    import torch
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    chosen = backend_options(options)
    survey = TorchSurvey(() if chosen.fallback is False else FASTER_IN_EAGER)

    def partition(joint: Any, joint_inputs: Any, **keywords: Any) -> Any:
        """Forward and backward graph of the joint graph, whose operators are checked together."""
        draw_by_seed(joint)
        _check(joint, chosen, survey)
        with torch._functorch.config.patch(recompute_views=True):
            forward, backward = min_cut_rematerialization_partition(joint, joint_inputs, **keywords)
        draw_again(forward, backward)
        keep_orders([*outputs_of(forward)[: keywords["num_fwd_outputs"]], *written_values(forward)])
        keep_orders(outputs_of(backward))
        pass_orders_to_backward(outputs_of(forward), backward.graph.nodes)
        return forward, backward

    def compile_inference(graph: Any, _: Sequence[Any]) -> Compiled:
        draw_by_seed(graph)
        _check(graph, chosen, survey)
        keep_orders([*outputs_of(graph), *written_values(graph)])
        return _boxed(graph, chosen, survey, parameters() if chosen.freezing else ())

    def compile_graph(graph: Any, _: Sequence[Any]) -> Compiled:
        return _boxed(graph, chosen, survey)

    compile_joint = aot_autograd(
        fw_compiler=compile_graph,
        bw_compiler=compile_graph,
        inference_compiler=compile_inference,
        decompositions=decompositions(),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    try:
        return compile_joint(module, example_inputs)
    except EqsatError as error:
        return _raising(error)


def _check(graph: Any, options: BackendOptions, survey: TorchSurvey) -> None:
    """Warns of operators that run in eager, or refuses them."""
    nodes = [node for node in graph.graph.nodes if not is_assertion(node) and not is_write(node)]
    if options.fallback is False:
        survey.require_operators(nodes)
        return
    missing = survey.missing_operators(node for node in nodes if not survey.is_left(node))
    if missing:
        message = f"eager runs the operators that eqsat lacks: {listed(missing)}"
        warnings.warn(message, EqsatWarning, stacklevel=2)


def _boxed(graph: Any, options: BackendOptions, survey: TorchSurvey, frozen: Sequence[int] = ()) -> Compiled:
    """The graph as a function of a list, in kernels where eqsat has the operators. Values that the graph writes into
    arguments are copied there after the run. frozen: the places of arguments that become constants, if all of the graph
    is compiled."""
    written, seeds, messages = take_writes(graph), take_seeds(graph), take_assertions(graph)
    if survey.missing_operators(graph.graph.nodes):
        run: Callable[..., Sequence[Any]] = compile_supported_parts(graph, options, survey)
    else:
        end = len(outputs_of(graph)) - len(messages)
        run = CompiledGraph(graph, options, frozen, dict(zip(range(end - len(written), end), written, strict=True)))

    is_plain = not written and not seeds and not messages

    def call(arguments: list[Any]) -> list[Any]:
        given = list(arguments)
        arguments.clear()
        if is_plain:
            return list(run(*given))
        results = list(run(*given, *([new_seeds(seeds)] if seeds else [])))
        checked = len(results) - len(messages)
        require(results[checked:], messages)
        count = checked - len(written)
        write(given, written, results[count:checked])
        return results[:count]

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _raising(error: EqsatError) -> Callable[..., Any]:
    """A function that raises the error. Dynamo would wrap an error of the backend itself in one of its own."""

    def refuse(*_: Any) -> Any:
        raise error

    return refuse
