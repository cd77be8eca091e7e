"""Loops of lazy tensors: a Python function, traced once, is the graph of a LOOP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from eqsat.lazy.argument_checks import STAGE, flag, integer, refuse
from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.post_order import post_order
from ir.tiny.graph import Graph, Imm, Node, check_arg
from ir.uop.args import Arg
from ir.uop.loop_body import LoopBody
from ir.uop.table import UOPS


class TensorKind(NamedTuple):
    """The class of lazy tensors, and two functions that make them."""

    tensor: type[Any]
    as_tensor: Callable[[Any], Any]
    full: Callable[..., Any]


def scan(
    kind: TensorKind,
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: int | None,
    reverse: bool,
) -> tuple[Any, Any]:
    """`eqsat.tensor.scan`."""
    if not callable(f):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"scan takes a function of a carry and an element, not {type(f).__name__}")
    states, scanned = list(map(kind.as_tensor, leaves(init))), list(map(kind.as_tensor, leaves(xs)))
    trips = _count_trips(scanned, length)
    start = kind.full((), 0.0).serial
    before = [_placeholder(kind, f"state{place}", x.type) for place, x in enumerate(states)]
    elements = [
        _placeholder(kind, f"element{place}", TensorType.of(x.dtype, x.shape[1:])) for place, x in enumerate(scanned)
    ]
    stepped = f(rebuilt(init, before), rebuilt(xs, elements))
    if not isinstance(stepped, tuple) or len(stepped) != 2:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the function of a scan returns a pair: the next carry, and an output")
    carry, out = stepped
    after, outputs = list(map(kind.as_tensor, leaves(carry))), list(map(kind.as_tensor, leaves(out)))
    _require_same_carry(states, after)
    if not trips:
        return init, rebuilt(out, [kind.full((0, *y.shape), 0, y.dtype) for y in outputs])
    if not after and not outputs:
        return carry, out
    body, captured = _trace(kind, getattr(f, "__name__", "scan"), [*before, *elements], [*after, *outputs], start)
    arg = {"graph": body, "states": len(states), "scanned": len(scanned), "trips": trips}
    arg |= {"reverse": True} if flag(reverse, "reverse") else {}
    operands = [*states, *scanned, *captured]
    results = [kind.tensor("LOOP", operands, {**arg, "result": k}) for k in range(len(after) + len(outputs))]
    return rebuilt(carry, results[: len(after)]), rebuilt(out, results[len(after) :])


def leaves(tree: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts, without None, in order."""
    if tree is None:
        return []
    if isinstance(tree, tuple | list):
        return [leaf for item in tree for leaf in leaves(item)]
    return leaves(list(tree.values())) if isinstance(tree, Mapping) else [tree]


def rebuilt(tree: Any, values: Sequence[Any]) -> Any:
    """The tree with these values in place of its leaves, in the same order."""
    left = iter(values)

    def rebuild(item: Any) -> Any:
        if item is None:
            return None
        if isinstance(item, tuple) and hasattr(item, "_fields"):
            return type(item)(*map(rebuild, item))
        if isinstance(item, tuple | list):
            return type(item)(map(rebuild, item))
        return {key: rebuild(element) for key, element in item.items()} if isinstance(item, Mapping) else next(left)

    return rebuild(tree)


def _count_trips(scanned: Sequence[Any], length: int | None) -> int:
    """The size along axis 0 of all that is scanned, or else the stated length."""
    if any(not x.ndim for x in scanned):
        fail(Kind.MALFORMED_GRAPH, STAGE, "a scalar cannot be scanned: it has no axis 0")
    lengths = {x.shape[0] for x in scanned}
    if length is not None:
        lengths.add(integer(length, "the length of a scan"))
    if not lengths:
        fail(Kind.MALFORMED_GRAPH, STAGE, "nothing says how many steps a scan makes", hint="length=")
    if len(lengths) > 1:
        hint = "one size along axis 0, which length= repeats if it is given"
        refuse(Kind.AXIS_SIZE_MISMATCH, "scan", "the lengths differ", *(x.shape for x in scanned), hint=hint)
    trips: int = lengths.pop()
    if trips < 0:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a scan of {trips} steps")
    return trips


def _require_same_carry(before: Sequence[Any], after: Sequence[Any]) -> None:
    kinds = [[(x.dtype, x.shape) for x in carry] for carry in (before, after)]
    if kinds[0] == kinds[1]:
        return
    types = [", ".join(str(x.type) for x in carry) or "nothing" for carry in (before, after)]
    kind = Kind.AXIS_SIZE_MISMATCH
    if len(before) != len(after):
        kind = Kind.MALFORMED_GRAPH
    elif [dtype for dtype, _ in kinds[0]] != [dtype for dtype, _ in kinds[1]]:
        kind = Kind.DTYPE_MISMATCH
    hint = "cast, reshape or expand it, in the function or before the scan"
    fail(kind, STAGE, f"the carry is {types[0]} before a step, and {types[1]} after it", op="scan", hint=hint)


def _placeholder(kind: TensorKind, name: str, type_: TensorType) -> Any:
    return kind.tensor("INPUT", (), {"tensor_id": name, "dtype": type_.dtype.name, "shape": type_.shape})


def _trace(
    kind: TensorKind, name: str, parameters: Sequence[Any], results: Sequence[Any], start: int
) -> tuple[LoopBody, list[Any]]:
    """The graph from the parameters to the results, and the tensors from outside that it reads. Tensors made after
    `start` are inside, except constants and arguments of the program."""
    known = {id(parameter) for parameter in parameters}

    def is_outside(tensor: Any) -> bool:
        return id(tensor) not in known and (tensor.uop == "INPUT" or tensor.serial < start)

    def sources(tensor: Any) -> list[Any]:
        return [] if is_outside(tensor) else [source for source in tensor.src if isinstance(source, kind.tensor)]

    tensors = post_order([*parameters, *results], sources)
    captured = [tensor for tensor in tensors if is_outside(tensor)]
    inputs = {id(tensor): tensor for tensor in parameters}
    inputs |= {id(x): _placeholder(kind, f"outer{place}", x.type) for place, x in enumerate(captured)}
    inside = [tensor for tensor in tensors if id(tensor) not in inputs]
    ids = {key: str(tensor.arg["tensor_id"]) for key, tensor in inputs.items()}
    ids |= {id(tensor): f"n{place}" for place, tensor in enumerate(inside)}
    nodes = [Node(ids[key], "INPUT", (), _exact(tensor)) for key, tensor in inputs.items()]
    for tensor in inside:
        src = tuple(ids[id(source)] if isinstance(source, kind.tensor) else Imm(source) for source in tensor.src)
        nodes.append(Node(ids[id(tensor)], tensor.uop, src, _exact(tensor), barrier=tensor.barrier))
    graph = Graph.build(nodes, [ids[id(result)] for result in results])
    return graph.named(name.strip("<>") or "scan"), captured


def _exact(tensor: Any) -> Arg:
    return check_arg(UOPS[tensor.uop], tensor.arg, bound=True)
