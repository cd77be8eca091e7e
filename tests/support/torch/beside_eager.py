"""A function of torch tensors: computed by eager, by its lowering in playback, and by its lowering in kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from eqsat.frontends.torch.compiled_graph import CompiledGraph
from eqsat.frontends.torch.element_types import element_type
from eqsat.frontends.torch.lower_graph import lower_graph
from eqsat.frontends.torch.trace import trace
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.runtime.arrays import Family, as_numpy, give_back
from eqsat.tensor import Tensor, input
from ir.tiny.bind import load
from ir.tiny.playback import playback

Function = Callable[..., Any]


def agree(function: Function, *arguments: Any, kernels: bool = True, **tolerances: Any) -> None:
    """Eager and the lowering agree: the tensors among the results have the same shapes and dtypes, and values within
    the tolerances of torch.testing.assert_close (its own for each dtype, if none are given).

    arguments: tensors, numbers, and lists and dicts of them.
    kernels: run the lowering in kernels, which takes a second per function; else in playback, in milliseconds.
    """
    expected = tensors_of(function(*copied(arguments)))
    found = by_lowering(function, *copied(arguments), kernels=kernels)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True, **tolerances)


def by_lowering(function: Function, *arguments: Any, kernels: bool = True) -> list[torch.Tensor]:
    """The tensors among the results of the function, computed by its lowering."""
    flat, form = pytree.tree_flatten(arguments)
    places = [place for place, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]

    def of_tensors(*tensors: torch.Tensor) -> list[torch.Tensor]:
        leaves = list(flat)
        for place, tensor in zip(places, tensors, strict=True):
            leaves[place] = tensor
        return tensors_of(function(*pytree.tree_unflatten(leaves, form)))

    tensors = [flat[place] for place in places]
    graph = trace(of_tensors, *tensors)
    return CompiledGraph(graph, {"cache": False})(*tensors) if kernels else by_playback(graph, tensors)


def by_playback(graph: Any, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results of an FX graph, lowered and played back on NumPy."""
    names = [f"x{place}" for place in range(len(tensors))]
    arguments = [input(name, tuple(x.shape), element_type(x.dtype)) for name, x in zip(names, tensors, strict=True)]
    results = [result for result in lower_graph(graph, arguments) if isinstance(result, Tensor)]
    tiny, constants = tensor_to_tiny(results, arguments)
    loaded, _ = load(tiny)
    arrays = {name: as_numpy(name, x.detach()) for name, x in zip(names, tensors, strict=True)}
    found = playback(loaded, {**arrays, **constants})
    return [give_back(np.require(array, requirements="C"), Family.TORCH) for array in found]


def tensors_of(results: Any) -> list[torch.Tensor]:
    """The tensors in nested tuples, lists and dicts, in order."""
    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


def copied(arguments: Any) -> Any:
    """The arguments with copies of the tensors, because the function may change them."""
    return pytree.tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, arguments)
