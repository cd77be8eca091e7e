"""Tiny IR: a pure DAG of uops over tensors whose sizes are all known, in topological order."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec

from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import DType, TensorType, bool_, dtype, fp32, i32, i64
from ir.grammar import with_count
from ir.tiny.loop_graphs import program_json, program_text
from ir.tiny.node import GraphCall, Imm, Node, Ref, StatedType
from ir.uop.args import NON_FINITE, Arg, ArgKind, canonical, is_text
from ir.uop.loop_body import LoopBody
from ir.uop.table import ANY, UOPS, UOp, UOpKind

__all__ = ["STAGE", "Graph", "Imm", "Node", "Ref", "TensorType", "operand_types", "type_node", "verify"]

STAGE = "tiny"
MAX_ELEMENTS = 2**59
"""Most elements of a value, sizes of 0 counted as 1: as many as NumPy can address in any dtype."""
MAX_RANK = 64
"""Most axes of a value: NumPy's limit."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A bound Tiny graph: `nodes` in topological order, `outputs` in signature order, and the type of every node.

    Create graphs by `Graph.build`, which checks them, or by `Graph.of_typed` from nodes that `type_node` has checked:
    every Graph is valid.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[Ref, ...]
    types: Mapping[Ref, TensorType] = field(repr=False)

    @staticmethod
    def build(nodes: Iterable[Node], outputs: Sequence[Ref] | None = None) -> Graph:
        """Types and checks a graph; `outputs` default to the nodes that nothing reads, without inputs."""
        types: dict[Ref, TensorType] = {}
        checked = []
        for node in nodes:
            exact, result = type_node(node, types)
            checked.append(exact)
            types[node.id] = result
        return Graph.of_typed(checked, default_outputs(checked) if outputs is None else outputs, types)

    @staticmethod
    def of_typed(nodes: Iterable[Node], outputs: Sequence[Ref], types: Mapping[Ref, TensorType]) -> Graph:
        """The graph of nodes that `type_node` has checked and given these types; checks the inputs and outputs."""
        graph = Graph(tuple(nodes), tuple(outputs), MappingProxyType(dict(types)))
        _check_signature(graph)
        return graph

    def __getitem__(self, ref: Ref) -> Node:
        return self.by_id[ref]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and (self.nodes, self.outputs) == (other.nodes, other.outputs)

    def __hash__(self) -> int:
        return hash((self.nodes, self.outputs))

    def __str__(self) -> str:
        stated = {ref: StatedType.of(type_) for ref, type_ in self.types.items()}
        return program_text(self.nodes, self.outputs, stated)

    @cached_property
    def by_id(self) -> Mapping[Ref, Node]:
        """Nodes by id, in order."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def inputs(self) -> Mapping[str, Node]:
        """The signature's inputs: tensor_id → its (first) INPUT node, in the order of appearance."""
        inputs: dict[str, Node] = {}
        for node in self.nodes:
            if node.uop == "INPUT":
                inputs.setdefault(node.arg["tensor_id"], node)
        return inputs

    @cached_property
    def consumers(self) -> Mapping[Ref, tuple[Node, ...]]:
        """The readers of every value, in order; a node that reads it twice is listed once."""
        readers: dict[Ref, list[Node]] = {node.id: [] for node in self.nodes}
        for node in self.nodes:
            for ref in dict.fromkeys(node.refs):
                readers[ref].append(node)
        return {ref: tuple(nodes) for ref, nodes in readers.items()}

    def named(self, name: str) -> LoopBody:
        """The graph as that of a loop: its inputs are the parameters."""
        parameters = tuple(self.types[node.id] for node in self.inputs.values())
        return LoopBody(name, self, parameters, tuple(self.types[ref] for ref in self.outputs))

    def operand_types(self, node: Node) -> tuple[TensorType, ...]:
        """The types of a node's operands, immediates included."""
        return operand_types(node, self.types)

    def to_json(self) -> dict[str, Any]:
        """Tiny IR as JSON; `ir.tiny.bind.load` reads it back to an equal graph."""
        return program_json(self.nodes, self.outputs)


def verify(graph: Graph) -> None:
    """Checks a graph again from scratch: order, ids, attributes, types, outputs. Raises EqsatError."""
    fresh = Graph.build(graph.nodes, graph.outputs)
    if fresh != graph or dict(fresh.types) != dict(graph.types):
        fail(Kind.MALFORMED_GRAPH, STAGE, "the graph's types or immediates do not follow from its uops")


def default_outputs(nodes: Sequence[Node | GraphCall]) -> tuple[Ref, ...]:
    """The values that nothing reads, without inputs."""
    read = {ref for node in nodes for ref in node.refs}
    return tuple(ref for node in nodes if node.uop != "INPUT" for ref in node.results if ref not in read)


def type_node(node: Node, types: Mapping[Ref, TensorType]) -> tuple[Node, TensorType]:
    """Checks a node whose sources are typed. Returns the node with immediates in their exact dtype, and its type."""
    if node.uop not in UOPS:
        fail(Kind.UNKNOWN_UOP, STAGE, f"there is no uop {node.uop!r}", at=node.id, hint=", ".join(UOPS))
    check_id(node.id)
    if node.id in types:
        fail(Kind.MALFORMED_GRAPH, STAGE, "two nodes have this id", at=node.id)
    if missing := [ref for ref in node.refs if ref not in types]:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"reads {missing[0]!r}, which no earlier node defines", at=node.id)
    try:
        check_operands(node.op, node.src)
        arg = check_arg(node.op, node.arg, bound=True)
        operands = operand_types(node, types)
        result = node.op.type_of(operands, arg)
        arg = _with_operand(node.op, arg, operands)
        src = tuple(
            Imm(exact_immediate(operand.value, type_.dtype)) if isinstance(operand, Imm) else operand
            for operand, type_ in zip(node.src, operands, strict=True)
        )
        arg = arg.with_(**{key: exact_immediate(arg[key], result.dtype) for key in arg if _is_number(node.op, key)})
    except EqsatError as error:
        raise error.locate(at=node.id, op=node.label) from None
    if max(map(_addressed_elements, (result, *operands))) > MAX_ELEMENTS:
        fail(Kind.RESOURCE_EXCEEDED, STAGE, "more than 2⁵⁹ elements", at=node.id, shape=result.shape)
    if result.rank > MAX_RANK:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a value of {result.rank} axes: at most {MAX_RANK} are possible", at=node.id)
    return msgspec.structs.replace(node, src=src, arg=arg), result


def check_id(ref: object) -> Ref:
    """The id; MalformedGraph unless it is a text that JSON can hold among numbers: not empty, not inf or nan."""
    if not is_text(ref) or not ref or ref in NON_FINITE:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{ref!r} is no id", hint="a string, not inf or nan")
    return ref


def check_call_ids(value: object) -> tuple[Ref, ...]:
    """The ids of the calls that a uop comes from; MalformedGraph unless it is a list of ids, or None."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`calls` lists the ids of calls", hint="the outermost call first")
    return tuple(map(check_id, value))


def check_barrier(value: object) -> bool:
    """Whether a uop has a barrier; MalformedGraph unless it is true or false."""
    if not isinstance(value, bool):
        fail(Kind.MALFORMED_GRAPH, STAGE, "`barrier` is true or false", hint='"barrier": true')
    return value


def _addressed_elements(type_: TensorType) -> int:
    """The elements of a value with sizes of 0 counted as 1, as address arithmetic needs."""
    return math.prod(size or 1 for size in type_.shape)


def check_operands(op: UOp, src: Sequence[Ref | Imm]) -> None:
    """MalformedGraph unless the uop takes this many operands, and takes the immediates among them."""
    if op.arity not in (len(src), ANY):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{op.name} takes {with_count(op.arity, 'operand')}, found {len(src)}")
    if op.kind not in _TAKE_IMMEDIATES and any(isinstance(operand, Imm) for operand in src):
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"{op.name} reads no immediate",
            hint="make a scalar first: CAST{to} of the immediate",
        )


def check_arg(op: UOp, arg: Mapping[str, Any], *, bound: bool) -> Arg:
    """The attributes in canonical form: none missing or unknown, every one of its kind, and, if `bound`, no symbol."""
    for key in arg:
        check_attribute_name(op, key)
    exact: dict[str, Any] = {}
    for key, spec in op.args.items():
        if arg.get(key) is None:
            if spec.required:
                accumulates = key == "dtype" and op.kind in (UOpKind.REDUCE, UOpKind.SCAN)
                kind = Kind.ACC_DTYPE_MISSING if accumulates else Kind.MALFORMED_GRAPH
                fail(kind, STAGE, f"{op.name} needs the attribute {key!r}", hint=f"it is {spec.kind}")
            continue
        exact[key] = check_attribute(op, key, arg[key])
        if bound and spec.kind in _SIZED and (free := _symbols(exact[key])):
            fail(Kind.UNBOUND_DIM, STAGE, f"{op.name}'s {key!r} is not bound", missing=free)
    return Arg(exact)


def check_attribute_name(op: UOp, key: str) -> None:
    """MalformedGraph if the uop has no such attribute."""
    if key not in op.args:
        expected = ", ".join(op.args) or "none"
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{op.name} has no attribute {key!r}", hint=f"known: {expected}")


def check_attribute(op: UOp, key: str, value: object) -> Any:
    """An attribute's value in canonical form; MalformedGraph or DtypeMismatch if it is not of the attribute's kind."""
    spec = op.args[key]
    try:
        return canonical(spec.kind, value)
    except (ValueError, OverflowError, RecursionError):
        kind = Kind.DTYPE_MISMATCH if spec.kind is ArgKind.DTYPE else Kind.MALFORMED_GRAPH
        fail(kind, STAGE, f"{op.name}'s {key!r} must be {spec.kind}", found=str(value)[:80])


def operand_types(node: Node, types: Mapping[Ref, TensorType]) -> tuple[TensorType, ...]:
    """The operands' types. An immediate has the dtype and shape of a tensor beside it. Both branches of a WHERE may be
    immediates (fp32, i32 or bool by their values). A CAST of an immediate reads a scalar of the dtype of the result."""
    known = [None if isinstance(operand, Imm) else types[operand] for operand in node.src]
    if all(type_ is not None for type_ in known):
        return tuple(type_ for type_ in known if type_ is not None)
    op = node.op
    if op.kind is UOpKind.CAST:
        return (TensorType(dtype(node.arg["to"]), (), ()),)
    tensors = [type_ for type_ in known if type_ is not None]
    if not tensors:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            "an immediate needs a tensor beside it",
            hint="make a scalar first: CAST{to} of the immediate",
        )
    return tuple(
        type_ if type_ is not None else TensorType(element, tensors[0].shape, (None,) * tensors[0].rank)
        for type_, element in zip(known, _immediate_dtypes(node, known), strict=True)
    )


def exact_immediate(value: float | int | bool, element: DType) -> float | int | bool:
    """`value` as the Python number that `element` holds; DtypeMismatch if it cannot hold it."""
    if element.is_float and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return math.nan if value != value else float(value)  # one NaN, so that equal graphs compare equal
    elif element.is_bool and value in (0, 1):
        return bool(value)
    elif _is_integer_of(element, value):
        return int(value)
    return fail(Kind.DTYPE_MISMATCH, STAGE, f"the immediate {value} is no {element}", hint="insert a CAST")


def _is_integer_of(element: DType, value: float | int | bool) -> bool:
    within = not isinstance(value, bool) and element.lowest <= value <= element.highest
    return element.is_int and within and int(value) == value


_TAKE_IMMEDIATES = (UOpKind.BINARY, UOpKind.TERNARY, UOpKind.CAST)
_SIZED = (ArgKind.DIMS, ArgKind.PAIRS, ArgKind.AXIS, ArgKind.AXES, ArgKind.SIZE)


def _symbols(value: Any) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return tuple(symbol for item in value for symbol in _symbols(item))
    return (value,) if isinstance(value, str) else ()


def _immediate_dtypes(node: Node, known: Sequence[TensorType | None]) -> list[DType]:
    """The dtype that an immediate in each slot takes."""
    if node.op.has_condition:
        branches = [type_.dtype for type_ in known[1:] if type_ is not None]
        element = branches[0] if branches else _dtype_of_values(node.src[1:])
        return [bool_, element, element]
    return [next(type_.dtype for type_ in known if type_ is not None)] * len(known)


def _dtype_of_values(immediates: Sequence[Ref | Imm]) -> DType:
    values = [operand.value for operand in immediates if isinstance(operand, Imm)]
    if all(isinstance(value, bool) for value in values):
        return bool_
    if any(isinstance(value, float) for value in values):
        return fp32
    return i32 if all(i32.lowest <= value <= i32.highest for value in values) else i64


def _with_operand(op: UOp, arg: Arg, operands: Sequence[TensorType]) -> Arg:
    """The attributes with the dtype of the operand, which a program may leave out."""
    missing = [key for key, spec in op.args.items() if spec.kind is ArgKind.OPERAND and key not in arg]
    return arg.with_(**dict.fromkeys(missing, operands[0].dtype.name)) if missing else arg


def _is_number(op: UOp, key: str) -> bool:
    return op.args[key].kind is ArgKind.NUMBER


def _check_signature(graph: Graph) -> None:
    if not graph.outputs:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            "the graph has no output: every node is an input or is read",
            hint='"outputs": ["id"] names them',
        )
    for ref in graph.outputs:
        if ref not in graph.types:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"the output {ref!r} is no node", at=ref)
    declared = graph.inputs
    for node in graph.nodes:
        if node.uop == "INPUT":
            first = graph.types[declared[node.arg["tensor_id"]].id]
            again = graph.types[node.id]
            if (first.dtype, first.shape) != (again.dtype, again.shape):
                fail(
                    Kind.MALFORMED_GRAPH,
                    STAGE,
                    f"the tensor {node.arg['tensor_id']!r} is declared twice, differently",
                    at=node.id,
                    first=str(first),
                    again=str(again),
                )
