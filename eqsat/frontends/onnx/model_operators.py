"""The operators of a ModelProto: which there are, and what the table and ONNX know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eqsat.frontends.onnx.operator_table import find_operator, plain_domain

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


def operator_of(node: Any) -> tuple[str, str]:
    """Domain and name of the operator or function of a node."""
    return plain_domain(node.domain), node.op_type


def opset_of(node: Any, versions: Mapping[str, int]) -> int:
    """The opset by which a node is to be read. versions: those of the model by domain."""
    return versions.get(plain_domain(node.domain), 1)


def missing_operators(model: Any) -> list[Any]:
    """The nodes whose operators are not in the table."""
    versions = opsets(model)
    return [
        node
        for node in all_nodes(model.graph)
        if operator_of(node) != ("", STORED)
        and find_operator(node.domain, node.op_type, opset_of(node, versions)) is None
    ]


def has_body(domain: str, op: str, opset: int) -> bool:
    """Whether ONNX defines the operator by a function."""
    schema = schema_of(domain, op, opset)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def schema_of(domain: str, op: str, opset: int) -> Any | None:
    """ONNX's definition of an operator; None if it has none at this opset."""
    from onnx import defs

    try:
        return defs.get_schema(op, opset, plain_domain(domain))
    except defs.SchemaError:
        return None


def operator_name(domain: str, name: str) -> str:
    """The operator's name, with its domain if that is not ONNX's own."""
    return f"{plain_domain(domain)}.{name}" if plain_domain(domain) else name
