"""The operators that an ONNX model needs, and those of them that eqsat lacks, without compiling the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from eqsat.failure.internal_error import public_call
from eqsat.frontends.onnx.element_types import PACKED_TYPES, element_type
from eqsat.frontends.onnx.expand_functions import expand_functions
from eqsat.frontends.onnx.model_operators import (
    STORED,
    all_nodes,
    has_body,
    missing_operators,
    operator_name,
    operator_of,
    opsets,
)
from eqsat.frontends.onnx.operator_table import find_operator, plain_domain
from eqsat.frontends.onnx.read_onnx import parse_onnx
from ir.diagnostics import EqsatError

Support = Literal["supported", "by its function", "missing"]


class OperatorUse(NamedTuple):
    """An operator of a model. nodes: how many. support: "by its function" if ONNX or the model defines it by one whose
    operators are supported."""

    name: str
    nodes: int
    support: Support


class Survey(NamedTuple):
    """opsets: by domain. inputs: name and type of each argument. operators: the most frequent first. types: element
    types that are missing, each with the first tensor that has it."""

    opsets: Mapping[str, int]
    inputs: Mapping[str, str]
    operators: tuple[OperatorUse, ...]
    types: Mapping[str, str]

    @property
    def missing(self) -> tuple[str, ...]:
        """The operators that the model cannot do without."""
        return tuple(use.name for use in self.operators if use.support == "missing")


@public_call()
def survey_onnx(source: Any) -> Survey:
    """The survey of a model: a path, bytes or a ModelProto.

    Raises:
        EqsatError: MalformedGraph if the source is no ONNX model.
    """
    model = parse_onnx(source)
    versions = opsets(model)
    own = {(plain_domain(function.domain), function.name) for function in model.functions}
    counts = Counter(operator_of(node) for node in all_nodes(model.graph))
    missing = Counter(operator_of(node) for node in missing_operators(expand_functions(model)))
    uses = [
        OperatorUse(operator_name(*key), count, "missing" if key in missing else _support(*key, versions, own))
        for key, count in (counts | missing).most_common()
    ]
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: _type_text(value) for value in model.graph.input if value.name not in stored}
    return Survey(versions, inputs, tuple(uses), _missing_types(model))


def _support(domain: str, name: str, versions: Mapping[str, int], own: set[tuple[str, str]]) -> Support:
    opset = versions.get(domain, 1)
    if (domain, name) == ("", STORED) or find_operator(domain, name, opset):
        return "supported"
    return "by its function" if (domain, name) in own or has_body(domain, name, opset) else "missing"


def _missing_types(model: Any) -> dict[str, str]:
    tensors = [(value.name, value.type.tensor_type.elem_type) for value in model.graph.input]
    tensors += [
        (tensor.name, tensor.data_type) for tensor in model.graph.initializer if tensor.data_type not in PACKED_TYPES
    ]
    missing: dict[str, str] = {}
    for name, number in tensors:
        try:
            element_type(number)
        except EqsatError as error:
            missing.setdefault(error.diagnostics[0].message, name)
    return missing


def _type_text(value: Any) -> str:
    """`fp32[batch, 3, 224, 224]`"""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return "no tensor"
    try:
        element = str(element_type(kind.elem_type))
    except EqsatError:
        element = "?"
    sizes = [str(size.dim_value) if size.HasField("dim_value") else size.dim_param or "?" for size in kind.shape.dim]
    return f"{element}[{', '.join(sizes)}]"
