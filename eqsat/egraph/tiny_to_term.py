"""Tiny IR → terms: every uop enters the e-graph as its own kernel, which reads buffers and writes one.

before   %y = mul(%a, %b)
after    y = Store(Pure(PBin(mul, fp32, Load(a, id), Load(b, id))), fp32[4,8])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from eqsat.egraph.exact_quotients import exact_quotients
from ir.dtype import DType, TensorType, promote
from ir.index import moves
from ir.index.expr import ZERO, axis, box_of, parse_expr
from ir.index.map import AxisMap, axis_map, identity
from ir.term.language import (
    App,
    EBin,
    EUn,
    Fin,
    Gather,
    Imm,
    Index,
    Input,
    Load,
    PBin,
    PTern,
    PUn,
    Pure,
    Reduce,
    Scan,
    Scatter,
    Sort,
    Store,
    Term,
    Var,
)
from ir.term.text import number_text, parse_number, sizes_text, type_text
from ir.tiny.graph import Graph, Node, Ref
from ir.tiny.graph import Imm as Immediate
from ir.uop.table import SCANS, UOpKind

Types = Sequence[TensorType]

_SCAN_FUNCTIONS = {uop: function for function, uop in SCANS.items()}
_COMBINES = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


def tiny_to_terms(graph: Graph) -> tuple[tuple[Ref, App], ...]:
    """The uops, each as a term of sort Buf, in order; a term reads earlier uops through variables with their names."""
    exact = exact_quotients(graph)
    nodes = [Node(node.id, "QUOTIENT", node.src) if node.id in exact else node for node in graph.nodes]
    return tuple(
        (node.id, _LOWERINGS[node.op.kind](node, graph.operand_types(node), graph.types[node.id])) for node in nodes
    )


def movement_map(node: Node, graph: Graph) -> AxisMap:
    """The map by which a movement reads its source."""
    return _movement_map(node, graph.operand_types(node), graph.types[node.id])


def reduced_map(node: Node, graph: Graph) -> AxisMap:
    """The map by which a REDUCE reads its source; the reduced axes come last."""
    return _reduced_map(node, graph.operand_types(node))


def gathered_map(node: Node, graph: Graph) -> AxisMap:
    """The map by which a GATHER reads its source; the last axis of the domain is the index."""
    return _gathered_map(node, graph.operand_types(node), graph.types[node.id])


def buffer(ref: Ref) -> Var:
    """The variable that stands for the buffer of a uop."""
    return Var(ref, Sort.BUF)


def _input(node: Node, src: Types, out: TensorType) -> App:
    return Input(node.arg["tensor_id"], type_text(out))


def _index(node: Node, src: Types, out: TensorType) -> App:
    along = node.arg["axis"]
    coordinate = axis_map(out.shape, [axis(along, box_of(out.shape))] if out.size else [ZERO])
    return _store(Pure(Index(out.dtype.name, str(coordinate))), out)


def _movement(node: Node, src: Types, out: TensorType) -> App:
    return _store(Pure(Load(buffer(node.refs[0]), str(_movement_map(node, src, out)))), out)


def _movement_map(node: Node, src: Types, out: TensorType) -> AxisMap:
    return _MAPS[node.uop](src[0], node.arg, out)


def _elementwise(node: Node, src: Types, out: TensorType) -> App:
    op = (PUn, PBin, PTern)[node.op.arity - 1]
    return _store(Pure(op(node.op.function(node.arg), out.dtype.name, *map(_operand, node.src, src))), out)


def _reduce(node: Node, src: Types, out: TensorType) -> App:
    """`init` is combined in the accumulator's dtype, before the last rounding."""
    (value,) = src
    op, init = node.arg["op"].lower(), node.arg.get("init")
    read = Load(buffer(node.refs[0]), str(_reduced_map(node, src)))
    sizes = sizes_text([value.shape[axis_] for axis_ in sorted(node.arg["axes"])])
    if init is None:
        return _store(Fin(Reduce(op, out.dtype.name, sizes, read)), out)
    wide = _accumulator(value.dtype, out.dtype)
    start = Pure(_number(init, TensorType.of(wide, out.shape)))
    total = EBin(_COMBINES[op], wide.name, Fin(Reduce(op, wide.name, sizes, read)), start)
    return _store(total if wide == out.dtype else EUn("cast", out.dtype.name, total), out)


def _reduced_map(node: Node, src: Types) -> AxisMap:
    (value,) = src
    axes = sorted(node.arg["axes"])
    return moves.permute(value.shape, [axis_ for axis_ in range(value.rank) if axis_ not in axes] + axes)


def _scan(node: Node, src: Types, out: TensorType) -> App:
    read = _operand(node.src[0], src[0])
    return _store(Fin(Scan(_SCAN_FUNCTIONS[node.uop], out.dtype.name, node.arg["axis"], read)), out)


def _gather(node: Node, src: Types, out: TensorType) -> App:
    read = str(_gathered_map(node, src, out))
    return _store(Pure(Gather(buffer(node.refs[0]), read, _operand(node.src[1], src[1]))), out)


def _gathered_map(node: Node, src: Types, out: TensorType) -> AxisMap:
    along = node.arg["axis"]
    coordinates = [out.rank if axis_ == along else axis_ for axis_ in range(out.rank)]
    domain = (*out.shape, src[0].shape[along])
    box = box_of(domain) if 0 not in domain else ()
    return axis_map(domain, [axis(place, box) for place in coordinates] if box else [ZERO] * out.rank)


def _scatter(node: Node, src: Types, out: TensorType) -> App:
    """A scatter of no updates is a copy."""
    source, index, updates = map(_operand, node.src, src)
    sizes = src[2].shape
    if 0 in sizes or not out.size:
        return _store(Pure(source), out)
    return _store(
        Fin(
            Scatter(node.arg["op"].lower(), type_text(out), sizes_text(sizes), node.arg["axis"], source, index, updates)
        ),
        out,
    )


def _store(value: App, out: TensorType) -> App:
    return Store(value, type_text(out))


def _operand(src: Ref | Immediate, type_: TensorType) -> Term:
    if isinstance(src, Immediate):
        return _number(src.value, type_)
    return Load(buffer(src), str(identity(type_.shape)))


def _number(value: float | int | bool, type_: TensorType) -> App:
    return Imm(type_.dtype.name, number_text(value, type_.dtype), sizes_text(type_.shape))


def _accumulator(source: DType, result: DType) -> DType:
    """The dtype of a REDUCE's accumulator: at least as wide as the accumulators of its source and its result."""
    return promote(source.accumulator, result.accumulator) or result


def _pad(src: TensorType, arg: Mapping[str, object], out: TensorType) -> AxisMap:
    fill = parse_number(number_text(arg.get("value", 0), out.dtype))
    return moves.pad(src.shape, arg["pad"], fill)  # type: ignore[arg-type]


_MAPS: Mapping[str, Callable[..., AxisMap]] = {
    "RESHAPE": lambda src, arg, out: moves.reshape(src.shape, out.shape),
    "PERMUTE": lambda src, arg, out: moves.permute(src.shape, arg["perm"]),
    "EXPAND": lambda src, arg, out: moves.expand(src.shape, out.shape),
    "PAD": _pad,
    "SHRINK": lambda src, arg, out: moves.shrink(src.shape, arg["lo"], arg["hi"], arg.get("step")),
    "FLIP": lambda src, arg, out: moves.flip(src.shape, arg["axes"]),
    "POOL": lambda src, arg, out: moves.pool(src.shape, arg["kernel"], arg.get("stride"), arg.get("dilation")),
    "VIEW": lambda src, arg, out: moves.view(
        src.shape, out.shape, [parse_expr(expr, [f"i{k}" for k in range(out.rank)]) for expr in arg["index_map"]]
    ),
}
_LOWERINGS: Mapping[UOpKind, Callable[[Node, Types, TensorType], App]] = {
    UOpKind.INPUT: _input,
    UOpKind.INDEX: _index,
    UOpKind.MOVEMENT: _movement,
    UOpKind.UNARY: _elementwise,
    UOpKind.BINARY: _elementwise,
    UOpKind.TERNARY: _elementwise,
    UOpKind.CAST: _elementwise,
    UOpKind.REDUCE: _reduce,
    UOpKind.SCAN: _scan,
    UOpKind.GATHER: _gather,
    UOpKind.SCATTER: _scatter,
}
