"""A ModelProto → one without calls of functions: bodies take the place of the model's own functions, and of operators
that the table lacks and ONNX defines by a function."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from eqsat.frontends.onnx.model_operators import (
    all_nodes,
    has_body,
    missing_operators,
    operator_of,
    opset_of,
    opsets,
    schema_of,
)
from eqsat.frontends.onnx.operator_table import plain_domain
from ir.diagnostics import Kind, fail
from ir.frontend import STAGE

Key = tuple[str, str]
"""Domain and name of an operator or a function."""


def expand_functions(model: Any) -> Any:
    """The model with bodies in the place of calls. An operator stays if neither the table nor ONNX defines it, and so
    does one whose body needs such an operator: errors name what the model has."""
    if model.functions:
        model = _inline_own_functions(model)
    expanded = _expand_operators(model, ())
    known = _missing(model)
    if _missing(expanded) <= known:
        return expanded
    several = _operators_with_body(model)
    alone = {name: _expand_operators(model, [other for other in several if other != name]) for name in several}
    return _expand_operators(model, [name for name in several if not _missing(alone[name]) <= known])


def _expand_operators(model: Any, kept: Collection[Key]) -> Any:
    """The model with the bodies of operators, but for those that are kept."""
    while missing := [key for key in _operators_with_body(model) if key not in kept]:
        expanded = _inline_operators(model, missing)
        if expanded is None or expanded == model:
            return model
        model = expanded
    return model


def _missing(model: Any) -> set[Key]:
    """Domain and name of the operators that are not in the table."""
    return {operator_of(node) for node in missing_operators(model)}


def _inline_own_functions(model: Any) -> Any:
    """The model with the bodies of its own functions: callers before the functions that they call, since a caller may
    leave an attribute of these to its default."""
    from onnx.inliner import inline_selected_functions

    model = _copy(model)
    while model.functions:
        functions = {_key(function): function for function in model.functions}
        called = {operator_of(node) for function in model.functions for node in all_nodes(function)}
        outer = [key for key in functions if key not in called]
        if not outer:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"functions call one another in a circle: {sorted(functions)}")
        for node in all_nodes(model.graph):
            if operator_of(node) in functions:
                _add_defaults(node, functions[operator_of(node)].attribute_proto)
        model = inline_selected_functions(model, [(functions[key].domain, functions[key].name) for key in outer])
        left = [function for function in model.functions if _key(function) not in outer]
        del model.functions[:]
        model.functions.extend(left)
    return model


def _key(function: Any) -> Key:
    """Domain and name, as `operator_of` gives them for a call."""
    return plain_domain(function.domain), function.name


def _operators_with_body(model: Any) -> list[Key]:
    """Domain and name of the operators that the table lacks and ONNX defines by a function."""
    versions = opsets(model)
    missing = {
        (node.domain, node.op_type)
        for node in missing_operators(model)
        if has_body(node.domain, node.op_type, opset_of(node, versions))
    }
    return sorted(missing)


def _inline_operators(model: Any, operators: Sequence[Key]) -> Any | None:
    """The model with the bodies of these operators; None if onnx cannot make it."""
    from onnx.inliner import inline_selected_functions

    model, versions = _copy(model), opsets(model)
    for node in all_nodes(model.graph):
        if (node.domain, node.op_type) in operators:
            _add_defaults(node, _defaults_of_operator(node.domain, node.op_type, opset_of(node, versions)))
    _add_types_of_initializers(model.graph)
    try:
        return inline_selected_functions(model, list(operators), inline_schema_functions=True)
    except (RuntimeError, ValueError):  # onnx 1.23 fails where an optional input or a graph is left out
        return None


def _defaults_of_operator(domain: str, op: str, opset: int) -> list[Any]:
    schema = schema_of(domain, op, opset)
    defaults = [attribute.default_value for attribute in schema.attributes.values()] if schema else []
    return [default for default in defaults if default.name]


def _add_defaults(node: Any, defaults: Sequence[Any]) -> None:
    """Adds the attributes that a call leaves to their defaults: the inliner of onnx drops references to these."""
    given = {attribute.name for attribute in node.attribute}
    node.attribute.extend(default for default in defaults if default.name not in given)


def _add_types_of_initializers(graph: Any) -> None:
    """Adds the types of initializers to those that the graph lists: bodies that depend on types are found by these."""
    from onnx.helper import make_tensor_value_info

    known = {value.name for value in (*graph.input, *graph.value_info)}
    graph.value_info.extend(
        make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in graph.initializer
        if tensor.name not in known
    )


def _copy(model: Any) -> Any:
    """The model apart from its caller's, who may use it again."""
    copy = type(model)()
    copy.CopyFrom(model)
    return copy
