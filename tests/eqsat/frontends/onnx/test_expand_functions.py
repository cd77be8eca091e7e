"""Functions of a model, and operators that ONNX defines by functions, are computed by their bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from eqsat import EqsatError, optimize_and_compile
from eqsat.frontends.onnx.survey import survey_onnx

OPSET = helper.make_opsetid("", 23)
X = np.array([[-1.0, 2.0, -3.0], [4.0, -5.0, 6.0]], np.float32)


def reference(name: str, to: str, kind: int) -> AttributeProto:
    """An attribute of a node in a function: the function's attribute `to`."""
    return AttributeProto(name=name, ref_attr_name=to, type=kind)


def function(nodes: list[Any], *defaults: AttributeProto) -> Any:
    return helper.make_function("own", "F", ["a"], ["o"], nodes, [OPSET], [], list(defaults))


def called(made: Any, **attributes: Any) -> Any:
    """A model whose only node calls the function."""
    node = helper.make_node("F", ["x"], ["y"], domain="own", **attributes)
    return model([node], X, functions=[made])


def model(nodes: list[Any], x: np.ndarray, *constants: Any, functions: list[Any] | None = None) -> Any:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(constants))
    opsets = [OPSET, helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions or [])


def test_a_call_without_an_attribute_has_the_functions_default() -> None:
    leaky = helper.make_node("LeakyRelu", ["a"], ["o"])
    leaky.attribute.append(reference("alpha", "slope", AttributeProto.FLOAT))
    made = function([leaky], helper.make_attribute("slope", 0.25))
    source = called(made)
    assert_allclose(optimize_and_compile(source)(x=X), np.where(X < 0, 0.25 * X, X))
    assert_allclose(optimize_and_compile(called(made, slope=0.5))(x=X), np.where(X < 0, 0.5 * X, X))
    assert not source.graph.node[0].attribute  # the caller's model stays as it was


def test_a_default_may_be_the_value_of_a_constant() -> None:
    axes = helper.make_node("Constant", [], ["axes"])
    axes.attribute.append(reference("value_ints", "over", AttributeProto.INTS))
    made = function([axes, helper.make_node("ReduceSum", ["a", "axes"], ["o"])], helper.make_attribute("over", [1]))
    assert_allclose(optimize_and_compile(called(made))(x=X), X.sum(1, keepdims=True))
    assert_allclose(optimize_and_compile(called(made, over=[0]))(x=X), X.sum(0, keepdims=True))


def test_a_function_that_calls_another_leaves_its_default_in_place() -> None:
    leaky = helper.make_node("LeakyRelu", ["a"], ["o"])
    leaky.attribute.append(reference("alpha", "slope", AttributeProto.FLOAT))
    inner = function([leaky], helper.make_attribute("slope", 0.25))
    call = helper.make_node("F", ["a"], ["o"], domain="own")
    outer = helper.make_function("own", "G", ["a"], ["o"], [call], [OPSET, helper.make_opsetid("own", 1)])
    source = model([helper.make_node("G", ["x"], ["y"], domain="own")], X, functions=[inner, outer])
    assert_allclose(optimize_and_compile(source)(x=X), np.where(X < 0, 0.25 * X, X))


def test_an_attribute_that_a_caller_passes_on_may_be_left_out() -> None:
    leaky = helper.make_node("LeakyRelu", ["a"], ["o"])
    leaky.attribute.append(reference("alpha", "slope", AttributeProto.FLOAT))
    inner = function([leaky], helper.make_attribute("slope", 0.25))
    call = helper.make_node("F", ["a"], ["o"], domain="own")
    call.attribute.append(reference("slope", "steep", AttributeProto.FLOAT))
    opsets = [OPSET, helper.make_opsetid("own", 1)]
    outer = helper.make_function("own", "G", ["a"], ["o"], [call], opsets, ["steep"])
    for given, slope in (({}, 0.25), ({"steep": 0.5}, 0.5)):
        source = model([helper.make_node("G", ["x"], ["y"], domain="own", **given)], X, functions=[inner, outer])
        assert_allclose(optimize_and_compile(source)(x=X), np.where(X < 0, slope * X, X))


def test_functions_in_a_circle_are_refused() -> None:
    call = helper.make_node("F", ["a"], ["o"], domain="own")
    circle = helper.make_function("own", "F", ["a"], ["o"], [call], [OPSET, helper.make_opsetid("own", 1)])
    with pytest.raises(EqsatError, match="in a circle"):
        optimize_and_compile(called(circle))


def test_an_operator_with_a_body_has_its_default() -> None:
    size = numpy_helper.from_array(np.array([1, 1, 2, 3], np.int64), "size")
    theta = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], np.float32)
    found = optimize_and_compile(model([helper.make_node("AffineGrid", ["x", "size"], ["y"])], theta, size))(x=theta)
    assert_allclose(np.asarray(found)[0, 0, :, 0], [-2 / 3, 0, 2 / 3], atol=1e-6)  # the centres of three pixels


def test_a_body_that_depends_on_types_knows_those_of_initializers() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 2, 4, 6)).astype(np.float32)
    angles = rng.normal(size=(1, 4, 3)).astype(np.float32)
    caches = [numpy_helper.from_array(f(angles), name) for name, f in (("cos", np.cos), ("sin", np.sin))]
    source = model([helper.make_node("RotaryEmbedding", ["x", "cos", "sin"], ["y"])], x, *caches)
    (expected,) = ReferenceEvaluator(source).run(None, {"x": x})
    assert_allclose(optimize_and_compile(source)(x=x), expected, 1e-5, 1e-6)


def test_an_operator_whose_body_needs_another_that_is_missing_is_named_itself() -> None:
    """The body of Bernoulli has RandomUniformLike. Of a function of the model, its operators are named."""
    nodes = [
        helper.make_node("Bernoulli", ["x"], ["b"], name="here"),
        helper.make_node("F", ["b"], ["y"], domain="own"),
    ]
    norm = helper.make_function("own", "F", ["a"], ["o"], [helper.make_node("Unique", ["a"], ["o"])], [OPSET])
    source = model(nodes, X, functions=[norm])
    with pytest.raises(EqsatError, match="operators Bernoulli, Unique are not supported") as caught:
        optimize_and_compile(source)
    assert caught.value.diagnostics[0].at == "here"
    assert set(survey_onnx(source).missing) == {"Bernoulli", "Unique"}


def test_a_body_that_onnx_cannot_make_is_refused_by_its_name() -> None:
    with pytest.raises(EqsatError, match="the ONNX operator SequenceMap is not supported"):
        optimize_and_compile(model([helper.make_node("SequenceMap", ["x"], ["y"])], X))
