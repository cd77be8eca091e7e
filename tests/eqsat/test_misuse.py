"""Values of the wrong kind, anywhere in the public calls, end in an EqsatError or are taken; in nothing else."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqsat
from eqsat import Program, nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.options import Budget
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError

FLOAT, INT, BOOL = t.input("f", (2, 3)), t.input("i", (2, 3), "i32"), t.input("b", (2, 3), "bool")
IMAGE, FILTERS = t.input("image", (1, 2, 4, 4)), t.input("filters", (2, 2, 3, 3))


class Odd:
    """An object with a length and no more."""

    def __len__(self) -> int:
        return 2


def junk() -> st.SearchStrategy[Any]:
    """Values of every kind; made anew, for iterators run dry."""
    plain = [
        None, True, False, 0, 1, -1, 2, 7, 2**70, 1.5, -0.0, math.nan, math.inf, 2j,
        "", "x", "fp32", "i8", "pareto", "cpu", "\ud800", "a\0b", b"x", Path("x"),
        (), [], {}, [0], [1, 0], [[1, 1], [0, 2]], [None], ["x"], {"x": 1}, {"f": 2}, {3},
        slice(None), slice(0, 2), slice(None, None, 0), slice("a"), Ellipsis,
        np.float32(1), np.int64(1), np.bool_(True), np.zeros(3), np.zeros((2, 3), np.float32), np.ones((2, 3), bool),
        np.arange(2), np.array("text"), np.array([None]), np.zeros(2, complex), np.ma.array([1.0], mask=[True]),
        np.float32, np.dtype("i2"), int, object, object(), Odd(), len, Budget(), Budget(nodes="x"),  # type: ignore[arg-type]
        FLOAT, INT, BOOL, FLOAT.sum(), [FLOAT, FLOAT], (FLOAT, 3),
    ]  # fmt: skip
    return st.one_of(st.sampled_from(plain), st.builds(iter, st.just([1, 2])))


def tame(call: Callable[[], Any]) -> Any:
    """What the call gives, or the EqsatError that it raises; anything else fails the test."""
    try:
        return call()
    except EqsatError as error:
        str(error).encode()
        error.to_json()
        return error


NOT_FOR_USERS = (
    "__init__",
    "__array_ufunc__",
    "__array_function__",
    "__getattr__",
    "_apply",
    "_moved",
    "elementwise",
    "extremum_position",
    "from_start",
    "missing",
    "public_names",
    "likelihood_loss",
    "scan",  # raises what the function that it takes raises
)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Everything that makes lazy tensors, by name: methods, operators, the modules' functions, NumPy's."""
    for x in (FLOAT, INT, BOOL):
        for home in Tensor.__mro__[:-1]:
            for name, method in vars(home).items():
                if isinstance(method, FunctionType) and _public(name):
                    yield f"{x.dtype}.{name}", getattr(x, name)
    for name, function in vars(t).items():
        if isinstance(function, FunctionType) and _public(name) and function.__module__ == t.__name__:
            yield name, function
    for name, function in vars(nn).items():
        if isinstance(function, FunctionType) and _public(name):
            yield f"nn.{name}", function
    yield "conv2d of an image", partial(nn.conv2d, IMAGE, FILTERS)
    yield "max_pool2d of an image", partial(nn.max_pool2d, IMAGE)
    yield "avg_pool2d of an image", partial(nn.avg_pool2d, IMAGE)
    for function in (np.sum, np.reshape, np.transpose, np.squeeze, np.expand_dims, np.flip, np.pad, np.take, np.clip):
        yield f"np.{function.__name__}", _of_a_tensor(function)
    for ufunc in (np.add, np.power, np.matmul, np.greater):
        yield f"np.{ufunc.__name__}", _of_a_tensor(ufunc)


def _public(name: str) -> bool:
    return name not in NOT_FOR_USERS and (name.startswith("__") or not name.startswith("_"))


def _of_a_tensor(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda value: function(FLOAT, value)


FUNCTIONS = dict(functions())


def arity(function: Callable[..., Any]) -> tuple[int, int]:
    """The least and the greatest number of values that it takes."""
    every = inspect.signature(function).parameters.values()
    given = [parameter for parameter in every if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)]
    least = sum(
        parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL for parameter in given
    )
    return least, sum(2 if parameter.kind is parameter.VAR_POSITIONAL else 1 for parameter in given)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_one_argument_of_the_wrong_kind(name: str) -> None:
    least, most = arity(FUNCTIONS[name])
    for place, wrong, right in itertools.product(range(most), (None, "x", {}, 2j, object()), (FLOAT, IMAGE, 1)):
        values = [right] * max(least, place + 1)
        values[0] = IMAGE
        values[place] = wrong
        tame(lambda: FUNCTIONS[name](*values))  # noqa: B023 - called at once


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(st.sampled_from(sorted(FUNCTIONS)), st.data())
def test_lazy_tensors(name: str, data: st.DataObject) -> None:
    least, most = arity(FUNCTIONS[name])
    values = data.draw(st.lists(junk(), min_size=least, max_size=most))
    result = tame(lambda: FUNCTIONS[name](*values))
    if isinstance(result, Tensor):
        assert all(size >= 0 for size in result.shape)


KEYWORDS = (
    "target", "dims", "constants", "rules", "exactness", "extractor", "cost_model", "budget", "threads", "verify",
    "strict", "cache", "progress",
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYWORDS), junk(), min_size=1, max_size=2))
def test_keywords_of_optimize_and_compile(keywords: dict[str, Any]) -> None:
    source = {
        "uops": [
            {"id": "a", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": ["M"]}},
            {"id": "b", "uop": "NEG", "src": ["a"]},
        ]
    }
    tame(lambda: optimize_and_compile(source, **keywords))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(junk())
def test_sources(source: Any) -> None:
    tame(lambda: optimize_and_compile(source, dims={"M": 2}, threads=1))


@cache
def program() -> Program:
    return optimize_and_compile([FLOAT + 1, FLOAT * 2], threads=1)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.data())
def test_calls_of_a_program(data: st.DataObject) -> None:
    x = np.zeros((2, 3), np.float32)
    value, other = data.draw(junk()), data.draw(junk())
    calls: dict[str, Callable[[], Any]] = {
        "position": lambda: program()(value),
        "name": lambda: program()(f=value),
        "out": lambda: program()(x, out=value),
        "outs": lambda: program()(x, out=(value, other)),
        "profile": lambda: program().profile(x, repeats=value),
        "random_inputs": lambda: program().random_inputs(value),
        "verify": lambda: program().verify(seed=value),
        "verify inputs": lambda: program().verify(value),
        "dump": lambda: program().dump(value),
    }
    tame(calls[data.draw(st.sampled_from(sorted(calls)))])


@pytest.mark.parametrize(
    "path", [None, 3, "", "a\0b", "\ud800", object(), [], b"x", "/dev/null/x", "/tmp", np.zeros(2)]
)
def test_paths(path: Any) -> None:
    for call in (eqsat.load, program().save):
        assert isinstance(tame(partial(call, path)), EqsatError)


@pytest.mark.parametrize(
    ("call", "op", "way_out"),
    [
        (lambda x, w: x @ x, "matmul", "[…, M, K] @ […, K, N]"),
        (lambda x, w: x.reshape(2, 2, 8) @ w.reshape(3, 8, 1), "matmul", "batches that agree"),
        (lambda x, w: x + w, "ADD", "from the right"),
        (lambda x, w: x.sum(2), "axis 2", "an axis from -2 to 1"),
        (lambda x, w: t.concatenate([x, w]), "concatenate", "every axis but 0"),
        (lambda x, w: x.squeeze(0), "squeeze", "reshape merges others"),
        (lambda x, w: nn.attention(x, w, x), "attention", "k […, N, D]"),
        (lambda x, w: nn.max_pool2d(x.reshape(1, 1, 4, 8), 5), "pool", "a smaller kernel"),
        (lambda x, w: x.pad([(1, 1)]), "1 entry for 2 axes", "src_shape = [4, 8]"),
    ],
)
def test_a_message_names_the_op_the_shapes_and_the_way_out(call: Any, op: str, way_out: str) -> None:
    with pytest.raises(EqsatError) as caught:
        call(t.input("x", (4, 8)), t.input("w", (8, 3)))
    message = str(caught.value)
    assert op in message
    assert way_out in message
    assert "shape" in message


class Broken:
    """An array whose protocol fails."""

    shape = (2, 3)

    def __dlpack_device__(self) -> tuple[int, int]:
        raise RuntimeError("lost")

    def __index__(self) -> int:
        raise RuntimeError("lost")


def test_protocols_that_fail_are_diagnostics() -> None:
    free = {
        "uops": [
            {"id": "a", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": ["M", 3]}},
            {"id": "b", "uop": "NEG", "src": ["a"]},
        ]
    }
    calls: tuple[Callable[[], Any], ...] = (
        lambda: program()(Broken()),
        lambda: program()(np.zeros((2, 3), np.float32), out=(Broken(), Broken())),
        lambda: optimize_and_compile(free, threads=1)(Broken()),
        lambda: optimize_and_compile(free, threads=1, dims={"M": Broken()}),  # type: ignore[dict-item]
    )
    for call in calls:
        assert isinstance(tame(call), EqsatError)


def test_a_program_is_saved_as_a_file_and_as_nothing_else(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(EqsatError, match="not a regular file"):
            program().save(path)
    assert (tmp_path / "pipe").is_fifo()
