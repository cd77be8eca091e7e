"""A function of torch tensors: computed by eager, by its lowering in playback, and by its lowering in kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils import _pytree as pytree

from eqsat.frontends.torch.backend_options import BackendOptions
from eqsat.frontends.torch.compiled_graph import CompiledGraph
from eqsat.frontends.torch.decompositions import decompositions
from eqsat.frontends.torch.element_types import element_type
from eqsat.frontends.torch.lower_graph import lower_graph
from eqsat.frontends.torch.survey import TorchSurvey
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.runtime.arrays import Family, as_numpy, give_back
from eqsat.tensor import Tensor, input
from ir.tiny.bind import load
from ir.tiny.playback import playback

Function = Callable[..., Any]


def normal(*shape: int) -> torch.Tensor:
    """Elements of the standard normal distribution."""
    return torch.randn(shape)


def agree(
    function: Function, *arguments: Any, kernels: bool = True, gradients: bool = False, **tolerances: Any
) -> None:
    """Eager and the lowering agree: the tensors among the results have the same shapes and dtypes, and values within
    the tolerances of torch.testing.assert_close (its own for each dtype, if none are given).

    arguments: tensors, numbers, and lists and dicts of them.
    kernels: run the lowering in kernels, which takes a second per function; else in playback, in milliseconds.
    gradients: also the gradients of all arguments of floats, for random gradients of the results.
    """
    ours, theirs = (_values(run, arguments, gradients) for run in (lowered(function, kernels), function))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True, **tolerances)


def lowered(function: Function, kernels: bool = True) -> Function:
    """The function with its forward and its backward graph lowered, at the sizes of each call. Its results are the
    tensors among the function's results, in order. Calls raise EqsatError for operators that eqsat lacks."""

    def compile_graph(graph: Any, _: Any) -> Any:
        TorchSurvey().require_operators(graph.graph.nodes)
        run = (
            CompiledGraph(graph, BackendOptions(fallback=False, program={"cache": False})) if kernels else Played(graph)
        )

        def call(given: list[Any]) -> list[Any]:
            return run(*given)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def call_lowered(*arguments: Any) -> list[torch.Tensor]:
        flat, form = pytree.tree_flatten(arguments)
        places = [place for place, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]

        def of_tensors(*tensors: torch.Tensor) -> list[torch.Tensor]:
            leaves = list(flat)
            for place, tensor in zip(places, tensors, strict=True):
                leaves[place] = tensor
            return tensors_of(function(*pytree.tree_unflatten(leaves, form)))

        compiled = aot_function(
            of_tensors,
            fw_compiler=compile_graph,
            bw_compiler=compile_graph,
            partition_fn=min_cut_rematerialization_partition,
            decompositions=decompositions(),
        )
        results: list[torch.Tensor] = compiled(*(flat[place] for place in places))
        return results

    return call_lowered


class Played:
    """An FX graph as a function of its arguments, lowered and played back on NumPy at each call."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def __call__(self, *given: Any) -> list[Any]:
        names = [f"x{place}" for place in range(len(given))]
        values = [
            input(name, tuple(x.shape), element_type(x.dtype)) if isinstance(x, torch.Tensor) else x
            for name, x in zip(names, given, strict=True)
        ]
        results = lower_graph(self._graph, values)
        arguments = [value for value in values if isinstance(value, Tensor)]
        tiny, constants = tensor_to_tiny([result for result in results if isinstance(result, Tensor)], arguments)
        loaded, _ = load(tiny)
        arrays = {
            name: as_numpy(name, x.detach())
            for name, x in zip(names, given, strict=True)
            if isinstance(x, torch.Tensor)
        }
        actual = iter(playback(loaded, {**arrays, **constants}))
        return [_as_torch(next(actual)) if isinstance(result, Tensor) else result for result in results]


def _as_torch(array: np.ndarray) -> torch.Tensor:
    tensor: torch.Tensor = give_back(np.array(array, order="C"), Family.TORCH)
    return tensor


def _values(function: Function, arguments: Sequence[Any], gradients: bool) -> list[torch.Tensor]:
    """The tensors among the results, and the gradients of the arguments."""
    given = copied(arguments, gradients)
    results = tensors_of(function(*given))
    if not gradients:
        return [result.detach() for result in results]
    random = torch.Generator().manual_seed(1)
    smooth = [result for result in results if result.requires_grad]
    total = sum((result * torch.randn(result.shape, generator=random).to(result.dtype)).sum() for result in smooth)
    assert isinstance(total, torch.Tensor)
    total.backward()
    grown = [leaf.grad for leaf in tensors_of(given) if leaf.requires_grad]
    return [*(result.detach() for result in results), *(gradient for gradient in grown if gradient is not None)]


def tensors_of(results: Any) -> list[torch.Tensor]:
    """The tensors in nested tuples, lists and dicts, in order."""
    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


def copied(arguments: Any, gradients: bool = False) -> Any:
    """The arguments with copies of the tensors, because the function may change them; `gradients`: copies of floats
    require a gradient."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().clone().requires_grad_(gradients and leaf.dtype.is_floating_point)

    return pytree.tree_map(copy, arguments)
