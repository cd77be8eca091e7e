"""A function of torch tensors: computed by eager, by its lowering in playback, and by its lowering in kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils import _pytree as pytree

from bench.opinfo.run_samples import by_playback
from eqsat.frontends.torch.backend_options import BackendOptions
from eqsat.frontends.torch.compiled_graph import CompiledGraph
from eqsat.frontends.torch.decompositions import decompositions
from eqsat.frontends.torch.survey import TorchSurvey

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
        program = {"cache": False}
        compiled = CompiledGraph(graph, BackendOptions(fallback=False, program=program)) if kernels else None

        def call(given: list[Any]) -> list[Any]:
            return compiled(*given) if compiled is not None else by_playback(graph, given)

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


def _values(function: Function, arguments: Sequence[Any], gradients: bool) -> list[torch.Tensor]:
    """The tensors among the results, and the gradients of the arguments."""
    given = copied(arguments, gradients)
    results = tensors_of(function(*given))
    if not gradients:
        return [result.detach() for result in results]
    random = torch.Generator().manual_seed(1)
    smooth = [result for result in results if result.requires_grad]
    flat = [torch.view_as_real(result) if result.is_complex() else result for result in smooth]
    total = sum((result * torch.randn(result.shape, generator=random).to(result.dtype)).sum() for result in flat)
    assert isinstance(total, torch.Tensor)
    total.backward()
    grown = [leaf.grad for leaf in tensors_of(given) if leaf.requires_grad]
    return [*(result.detach() for result in results), *(gradient for gradient in grown if gradient is not None)]


def tensors_of(results: Any) -> list[torch.Tensor]:
    """The tensors in nested tuples, lists and dicts, in order."""
    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


def copied(arguments: Any, gradients: bool = False) -> Any:
    """The arguments with copies of the tensors, because the function may change them; `gradients`: copies of floats
    and of complex numbers require a gradient."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        smooth = leaf.dtype.is_floating_point or leaf.dtype.is_complex
        return leaf.detach().clone().requires_grad_(gradients and smooth)

    return pytree.tree_map(copy, arguments)
