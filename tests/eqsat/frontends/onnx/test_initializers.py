"""Initializers whose values the caller gives: at compile time, or in every call."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from eqsat.model import read_model
from eqsat.runtime.call_arguments import CallArguments
from ir.diagnostics import EqsatError
from ir.tiny.playback import playback
from tests.eqsat.frontends.onnx.test_onnx import model_of

X, W = np.arange(3, dtype=np.float32), np.asarray([2, 3, 5], np.float32)
MODEL = model_of([helper.make_node("Mul", ["x", "w"], ["y"])], {"x": X, "w": W}, constants={"w": W})


def test_a_constant_of_another_value() -> None:
    model = read_model(MODEL, constants={"w": W + 1})
    bound = model.bind({}, True)
    assert model.arguments == ("x",)
    np.testing.assert_array_equal(playback(bound.graph, {"x": X, **bound.constants})[0], X * (W + 1))


def test_none_makes_an_argument_of_a_constant() -> None:
    model = read_model(MODEL, constants={"w": None})
    bound = model.bind({}, True)
    assert model.arguments == ("x", "w")
    assert not bound.constants
    np.testing.assert_array_equal(playback(bound.graph, {"x": X, "w": W + 1})[0], X * (W + 1))
    with pytest.raises(EqsatError, match="is an argument already"):
        read_model(MODEL, constants={"x": None})


def test_a_call_that_names_a_constant_is_told_the_way_out() -> None:
    arguments = CallArguments(["x"], ["w"])
    with pytest.raises(EqsatError, match=r"constants=\{.w.: None\}, which makes an argument of this constant"):
        arguments.by_name((), {"x": X, "w": W})
    with pytest.raises(EqsatError) as caught:
        arguments.by_name((), {"x": X, "v": W})
    assert caught.value.diagnostics[0].hint is None
