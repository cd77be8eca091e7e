"""The samples of OpInfo: calls of torch's operators with their arguments, their results in eager, and tolerances.

torch's table of operators takes three seconds to import: the functions that read it do so.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch.testing._comparison import default_tolerances
from torch.utils import _pytree as pytree

DTYPES = ("float32", "float16", "bfloat16", "int64", "bool", "complex64")
"""The dtypes of samples, by torch's names."""

WITHOUT_VALUES = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
"""Operators whose results have no defined values."""


class Sample(NamedTuple):
    """A call of an operator. leaves: its arguments, flattened; `form` puts them together again. scope: why the sample
    is out of scope, if it is. expected: the tensors among the results of eager."""

    operator: Any
    leaves: Sequence[Any]
    form: Any
    expected: Sequence[torch.Tensor] = ()
    scope: str | None = None

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the arguments."""
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def call(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """The tensors among the results for copies of these tensors in place of the arguments' own."""
        given = iter(tensors)
        leaves = [next(given).clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        first, arguments, keywords = pytree.tree_unflatten(leaves, self.form)
        return tensors_of(self.operator(first, *arguments, **keywords))

    def in_fp64(self) -> list[torch.Tensor]:
        """The results for the arguments' floats in fp64, and for complex numbers with parts in fp64."""
        with torch.no_grad():
            return self.call(*map(in_fp64, self.tensors))


def in_fp64(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of floats in fp64, and of complex numbers with parts in fp64; any other tensor as it is."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def operators(only: str = "") -> dict[str, Any]:
    """The OpInfos of torch's table by their full names: all of them, or those in a list with commas, in its order."""
    from torch.testing._internal.common_methods_invocations import op_db

    every = {info.full_name: info for info in op_db}
    return {name: every[name] for name in only.split(",") if name in every} if only else every


def samples_of(info: Any, element: str, step: int = 1) -> list[Sample]:
    """Every `step`-th sample of an operator with elements of this dtype, the same ones in each run; none if the
    operator has no such elements."""
    given = getattr(torch, element)
    if given not in info.supported_dtypes("cpu"):
        return []
    _seed(zlib.crc32(f"{info.full_name} {element}".encode()))
    inputs = list(info.sample_inputs("cpu", given))[::step]
    return [_sample(info, item) for item in inputs]


def tolerances(info: Any, element: str) -> dict[str, float]:
    """The tolerances for torch.testing.assert_close that OpInfo states for this dtype and any of its tests of forward
    results on a CPU, no narrower than its own; none if OpInfo states none."""
    from torch.testing._internal.common_device_type import toleranceOverride
    from torch.testing._internal.opinfo.core import DecorateInfo

    given = getattr(torch, element)
    stated = [
        decorator.d[given]
        for where in info.decorators
        if isinstance(where, DecorateInfo) and where.device_type in (None, "cpu")
        if where.dtypes is None or given in where.dtypes
        if "grad" not in str(where.test_name)
        for decorator in where.decorators
        if isinstance(decorator, toleranceOverride) and given in decorator.d
    ]
    if not stated:
        return {}
    rtol, atol = default_tolerances(given)
    return {"atol": max([atol, *(one.atol for one in stated)]), "rtol": max([rtol, *(one.rtol for one in stated)])}


def tensors_of(results: Any) -> list[torch.Tensor]:
    """The tensors in nested tuples, lists and dicts, in order."""
    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


def _sample(info: Any, item: Any) -> Sample:
    args, named = _in_stable_order(info, item)
    leaves, form = pytree.tree_flatten((item.input, args, named))
    leaves = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    sample = Sample(info.op, leaves, form)
    with torch.no_grad():
        try:
            _seed(1)
            expected = sample.call(*sample.tensors)
            again = _with_other_seed(sample)
        except Exception as error:  # an operator may refuse its own sample
            return sample._replace(scope=f"eager raises {type(error).__name__}")
    return sample._replace(expected=expected, scope=_scope(info, sample, expected, again))


def _in_stable_order(info: Any, item: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments after the input. Sorts are asked for the stable order, where torch leaves open which of several
    equal elements comes first."""
    if info.name not in ("sort", "argsort"):
        return item.args, item.kwargs
    return (), {"stable": True, **dict(zip(("dim", "descending"), item.args, strict=False)), **item.kwargs}


def _scope(info: Any, sample: Sample, expected: Sequence[torch.Tensor], again: Sequence[torch.Tensor]) -> str | None:
    """Why a sample cannot be compared, or has elements that eqsat has not."""
    if not expected:
        return "no tensor results"
    if info.name in WITHOUT_VALUES:
        return "no defined values"
    for tensor in (*sample.tensors, *expected):
        if tensor.layout is not torch.strided or tensor.is_nested:
            return "sparse"
        if tensor.is_quantized:
            return "quantized"
    if any(not _same(one, other) for one, other in zip(expected, again, strict=True)):
        return "random"
    return None


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(one.shape == other.shape and torch.allclose(in_fp64(one), in_fp64(other), equal_nan=True))


def _with_other_seed(sample: Sample) -> list[torch.Tensor]:
    """The results for another seed of torch's generator, also where the operator's OpInfo sets a seed."""
    seed = torch.manual_seed
    _seed(2)
    with mock.patch.object(torch, "manual_seed", lambda number: seed(number + 1)):
        return sample.call(*sample.tensors)


def _seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)
