"""Calls that mean one thing in NumPy and another in torch: a keyword decides, and a call without one is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from eqsat import tensor
from ir.diagnostics import EqsatError, Kind
from tests.eqsat.lazy.test_torch_habits import lazily

Call = Callable[..., Any]

RNG = np.random.default_rng(5)
MATRIX = RNG.standard_normal((4, 4)).astype(np.float32)
ROW = MATRIX[0]

BOTH: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    # the call that is refused; NumPy's meaning; torch's meaning
    "transpose": (lambda x: x.transpose(0, 1), lambda x: x.transpose((0, 1)), lambda x: x.transpose(dim0=0, dim1=1)),
    "var": (lambda x: x.var(1), lambda x: x.var(axis=1), lambda x: x.var(dim=1)),
    "var of all": (lambda x: x.var(), lambda x: x.var(ddof=0), lambda x: x.var(unbiased=True)),
    "std": (lambda x: x.std(0), lambda x: x.std(axis=0, ddof=1), lambda x: x.std(dim=0, unbiased=False)),
    "max": (lambda x: x.max(1), lambda x: x.max(axis=1), lambda x: x.max(dim=1)),
    "min with axes": (lambda x: x.min(1, True), lambda x: x.min(1, keepdims=True), lambda x: x.min(1, keepdim=True)),
    "split": (lambda x: x.split(2), lambda x: np.split(x, 2, axis=1), lambda x: x.split(2, dim=1)),
    "split by a list": (lambda x: x.split([1, 3]), lambda x: np.split(x, [1, 3]), lambda x: x.split([1, 3], dim=0)),
    "sort": (lambda x: x.sort(), lambda x: np.sort(x, axis=1), lambda x: x.sort(dim=1)),
    "repeat": (lambda x: x.repeat(2, 1), lambda x: x.repeat(2, axis=1), lambda x: x.tile((2, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", BOTH)
def test_a_call_that_means_two_things_is_refused_and_has_two_spellings(name: str) -> None:
    ambiguous, in_numpy, in_torch = BOTH[name]
    x = tensor.input("x", MATRIX.shape)
    with pytest.raises(EqsatError) as caught:
        ambiguous(x)
    assert caught.value.kind is Kind.MALFORMED_GRAPH
    assert "NumPy" in str(caught.value)
    assert "torch" in str(caught.value)
    for call, given in ((in_numpy, MATRIX), (in_torch, torch.from_numpy(MATRIX))):
        result = call(given)
        wanted = list(result) if isinstance(result, list | tuple) else [result]
        actual = lazily(call, torch.from_numpy(MATRIX))
        for one, other in zip(actual, wanted, strict=True):
            np.testing.assert_allclose(one, np.asarray(other), rtol=1e-5, atol=1e-6)


def test_a_call_of_one_meaning_needs_no_keyword() -> None:
    x = tensor.input("x", (2, 3, 4))
    assert x.transpose().shape == (4, 3, 2)
    assert x.transpose(2, 0, 1).shape == (4, 2, 3)
    assert x.transpose(0, 1).shape == (3, 2, 4), "NumPy has no two axes of three"
    assert tensor.input("m", (2, 3)).transpose(1, 0).shape == (3, 2), "both libraries swap"
    assert x.max().shape == ()
    assert [part.shape for part in x.split([1], axis=2)] == [(2, 3, 1), (2, 3, 3)]
    assert x.max((0, 1)).shape == (4,), "torch has no maximum along two axes"
    assert x.var(1, correction=1).shape == (2, 4)
    assert x.repeat(1, 1, 2).shape == (2, 3, 8), "NumPy has no three numbers"
    assert x.repeat(2).shape == (48,), "torch wants a number per axis"


def test_two_libraries_at_once_are_refused() -> None:
    calls: list[Call] = [
        lambda x: x.max(axis=0, keepdim=True),
        lambda x: x.var(dim=0, ddof=1),
        lambda x: x.split(2, axis=0, dim=1),
    ]
    x: Any = tensor.input("x", (2, 3))
    for call in calls:
        with pytest.raises(EqsatError, match="NumPy"):
            call(x)
    with pytest.raises(EqsatError, match="no keyword"):
        x.max(axes=1)


def test_the_size_is_a_number_and_answers_a_call() -> None:
    x = tensor.input("x", (2, 3))
    assert x.size == 6
    assert x.size() == (2, 3)
    assert x.size(-1) == 3
    assert x.size * 2 == 12
    assert type(x.size * 2) is int
    with pytest.raises(EqsatError, match="out of range"):
        x.size(2)


def test_take_reads_the_flattened_tensor_as_both_libraries_do() -> None:
    index = torch.tensor([5, 0, -1])
    for call in (lambda x, i: x.take(i), lambda x, i: x.flatten()[i]):
        (result,) = lazily(call, torch.from_numpy(MATRIX), index)
        np.testing.assert_array_equal(result, MATRIX.take(index.numpy()))


KEYS: list[Any] = [
    np.s_[[1, 0]],
    np.s_[:, [2, 0, -1]],
    np.s_[[0, 1], [2, 0]],
    np.s_[:, [0, 1], [2, 0]],
    np.s_[[[0], [1]], [2, 0]],
    np.s_[..., [1, 3]],
    np.s_[None, [1, 0]],
    np.s_[[1, 0], :, [2, 3]],
    np.s_[0, [1, 2]],
    np.s_[:, 1, [0, 3]],
    np.s_[1:, [1, 2], ::2],
    np.s_[np.array([[0, 1], [1, 0]])],
    np.s_[:, np.array([True, False, True])],
    np.s_[np.arange(24).reshape(2, 3, 4) % 3 == 0],
    np.s_[..., np.array([True, False, True, False])],
    np.s_[[]],
]


@pytest.mark.parametrize("place", range(len(KEYS)))
def test_positions_select_what_both_libraries_select(place: int) -> None:
    x, key = torch.arange(24.0).reshape(2, 3, 4), KEYS[place]
    (result,) = lazily(lambda x: x[key], x)
    np.testing.assert_array_equal(result, x.numpy()[key])
    items = key if isinstance(key, tuple) else (key,)
    theirs = x[tuple(torch.as_tensor(item) if isinstance(item, np.ndarray) else item for item in items)]
    np.testing.assert_array_equal(result, theirs.numpy() if result.size else result)


def test_tensors_of_positions_select_at_run_time() -> None:
    x, i, j = torch.arange(24.0).reshape(2, 3, 4), torch.tensor([2, 0, -3]), torch.tensor([[1], [-1]])
    calls: list[Call] = [
        lambda x, i, j: x[:, i],
        lambda x, i, j: x[:, i, j],
        lambda x, i, j: x[j, ..., i],
        lambda x, i, j: x[0][i[0]],
        lambda x, i, j: x[:, i[0] + 0, 1],
    ]
    for call in calls:
        np.testing.assert_array_equal(lazily(call, x, i, j)[0], call(x, i, j).numpy())


def test_numbers_and_positions_apart_are_refused() -> None:
    x, i = tensor.input("x", (2, 3, 4)), tensor.input("i", (5,), "i64")
    with pytest.raises(EqsatError, match=r"NumPy(.|\n)*torch(.|\n)*x\[0\]\[:, index\]"):
        x[0, :, i]
    assert x[0][:, i].shape == (3, 5)


REFUSED_KEYS: dict[str, tuple[Kind, Callable[[Any, Any], Any], str]] = {
    "a mask that is not known": (Kind.UNSUPPORTED_OP, lambda x, i: x[x > 0], "masked_fill"),
    "floats": (Kind.DTYPE_MISMATCH, lambda x, i: x[x], "fp32"),
    "a mask of another shape": (Kind.AXIS_SIZE_MISMATCH, lambda x, i: x[np.ones(5, bool)], "another shape"),
    "too many": (Kind.MALFORMED_GRAPH, lambda x, i: x[i, i, i, i], "rank 3"),
    "outside": (Kind.MALFORMED_GRAPH, lambda x, i: x[[0, 2]], "out of bounds"),
    "texts": (Kind.UNSUPPORTED_OP, lambda x, i: x[["a"]], "integers"),
}


@pytest.mark.parametrize("name", REFUSED_KEYS)
def test_other_keys_are_refused(name: str) -> None:
    kind, call, word = REFUSED_KEYS[name]
    with pytest.raises(EqsatError) as caught:
        call(tensor.input("x", (2, 3, 4)), tensor.input("i", (5,), "i64"))
    assert caught.value.kind is kind, str(caught.value)
    assert word in str(caught.value)
