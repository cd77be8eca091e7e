"""The bench of ONNX's suite tells another rounding from a wrong result."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from bench.onnx_suite import is_nearer, outputs_in_fp64  # noqa: E402

TENTH = np.array([0.1], "f2")


@pytest.mark.parametrize(
    ("actual", "expected", "nearer"),
    [
        (1.0, 1.001, True),
        (1.001, 1.0, False),
        (1.0, 1.0, True),
        (np.nan, 1.001, False),
        (1.0, np.nan, False),
    ],
)
def test_the_nearer_result(actual: float, expected: float, nearer: bool) -> None:
    arrays = [np.array([value], "f2") for value in (actual, expected)]
    assert is_nearer(arrays[:1], arrays[1:], [np.array([1.0])]) is nearer


def test_a_result_of_another_type_is_not_nearer() -> None:
    assert not is_nearer([np.ones(2, "f4")], [np.ones(2, "f2")], [np.ones(2)])
    assert not is_nearer([np.ones(1, "f4")], [np.ones(2, "f4")], [np.ones(2)])


def test_outputs_in_fp64_round_nowhere() -> None:
    from onnx import TensorProto, helper

    half = TensorProto.FLOAT16
    x, y = (helper.make_tensor_value_info(name, half, [1]) for name in "xy")
    nodes = [helper.make_node("Mul", ["x", "x"], ["s"]), helper.make_node("Mul", ["s", "x"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "cube", [x], [y]))
    (cube,) = outputs_in_fp64(model, [TENTH])
    assert cube.dtype == np.float64
    assert cube[0] == float(TENTH[0]) ** 3
