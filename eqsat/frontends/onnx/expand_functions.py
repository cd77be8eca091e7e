"""A ModelProto → one without calls of functions: bodies take the place of the model's own functions, and of operators
that the table lacks and ONNX defines by a function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eqsat.frontends.onnx.operator_table import find_operator, plain_domain
from ir.diagnostics import Kind, fail
from ir.frontend import STAGE

STORED = "Constant"
"""The operator that becomes a constant of the graph, and has no lowering."""


def opsets(model: Any) -> Mapping[str, int]:
    """The opset that the model uses of each domain."""
    return {plain_domain(opset.domain): opset.version for opset in model.opset_import}


def all_nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of the graphs in their attributes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from all_nodes(inner)


def missing_operators(model: Any) -> list[Any]:
    """The nodes whose operators are not in the table."""
    versions = opsets(model)
    return [
        node
        for node in all_nodes(model.graph)
        if (plain_domain(node.domain), node.op_type) != ("", STORED)
        and find_operator(node.domain, node.op_type, versions.get(plain_domain(node.domain), 1)) is None
    ]


def expand_functions(model: Any) -> Any:
    """The model with bodies in the place of calls. An operator stays if neither the table nor ONNX defines it."""
    if model.functions:
        model = _inline_own_functions(model)
    while missing := _operators_with_body(model):
        expanded = _inline_operators(model, missing)
        if expanded is None or expanded == model:
            return model
        model = expanded
    return model


def _inline_own_functions(model: Any) -> Any:
    """The model with the bodies of its own functions: callers before the functions that they call, since a caller may
    leave an attribute of these to its default."""
    from onnx.inliner import inline_selected_functions

    model = _copy(model)
    while model.functions:
        functions = {(plain_domain(f.domain), f.name): f for f in model.functions}
        called = {(plain_domain(node.domain), node.op_type) for f in model.functions for node in all_nodes(f)}
        outer = [key for key in functions if key not in called]
        if not outer:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"functions call one another in a circle: {sorted(functions)}")
        for node in all_nodes(model.graph):
            function = functions.get((plain_domain(node.domain), node.op_type))
            _add_defaults(node, function.attribute_proto if function else ())
        model = inline_selected_functions(model, [(functions[key].domain, functions[key].name) for key in outer])
        left = [f for f in model.functions if (plain_domain(f.domain), f.name) not in outer]
        del model.functions[:]
        model.functions.extend(left)
    return model


def _operators_with_body(model: Any) -> list[tuple[str, str]]:
    """Domain and name of the operators that the table lacks and ONNX defines by a function."""
    versions = opsets(model)
    missing = {
        (node.domain, node.op_type)
        for node in missing_operators(model)
        if has_body(node.domain, node.op_type, versions.get(plain_domain(node.domain), 1))
    }
    return sorted(missing)


def _inline_operators(model: Any, operators: Sequence[tuple[str, str]]) -> Any | None:
    """The model with the bodies of these operators; None if onnx cannot make it."""
    from onnx.inliner import inline_selected_functions

    model, versions = _copy(model), opsets(model)
    for node in all_nodes(model.graph):
        if (node.domain, node.op_type) in operators:
            opset = versions.get(plain_domain(node.domain), 1)
            _add_defaults(node, _defaults_of_operator(node.domain, node.op_type, opset))
    _add_types_of_initializers(model.graph)
    try:
        return inline_selected_functions(model, list(operators), inline_schema_functions=True)
    except RuntimeError:  # onnx 1.23 fails where an optional input is left out
        return None


def _defaults_of_operator(domain: str, op: str, opset: int) -> list[Any]:
    schema = _schema(domain, op, opset)
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


def has_body(domain: str, op: str, opset: int) -> bool:
    """Whether ONNX defines the operator by a function."""
    schema = _schema(domain, op, opset)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def _schema(domain: str, op: str, opset: int) -> Any | None:
    """ONNX's definition of an operator; None if it has none at this opset."""
    from onnx import defs

    try:
        return defs.get_schema(op, opset, plain_domain(domain))
    except defs.SchemaError:
        return None
