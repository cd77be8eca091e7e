"""Random Tiny graphs and inputs for them: one builder, driven by a seeded generator or by hypothesis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from typing import Any, Protocol, TypeVar

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from ir.diagnostics import EqsatError
from ir.dtype import DTYPES, DType, TensorType, u64
from ir.tiny.graph import Graph, Imm, Node, Ref, type_node
from ir.uop.table import UOPS, Arg, ArgKind, UOp, UOpKind
from ir.uop.types import logical

T = TypeVar("T")

SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7)
MAX_ELEMENTS = 2048
COMMON_DTYPES = (
    *("fp32", "fp32", "fp32", "fp32", "fp16", "bf16", "fp64", "bool"),
    *("i32", "i32", "i64", "i8", "i16", "u8", "u16", "u32", "u64"),
)
FREQUENT = ("ADD", "MUL", "MUL", "REDUCE", "REDUCE", "REDUCE", "RESHAPE", "PERMUTE", "EXPAND", "SHRINK", "PAD", "CAST")
"""Half of all uops are of these, so that fusion has something to find."""


FLAT = tuple(name for name in UOPS if name != "LOOP")
LOOPING = (*FLAT, *["LOOP"] * 12)


class Choice(Protocol):
    def integer(self, low: int, high: int) -> int: ...


class RngChoice:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))


class DrawChoice:
    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


def random_graph(rng: np.random.Generator, size: int = 12, loops: bool = False) -> Graph:
    """A valid graph of about `size` uops, the same for the same generator state. loops: LOOPs among them, also inside
    each other."""
    return _Builder(RngChoice(rng), 2 if loops else 0).graph(size)


@st.composite
def tiny_graphs(draw: Any, max_size: int = 12) -> Graph:
    """Valid graphs of every uop kind, several dtypes and outputs, with diamonds and axes of size 0 and 1."""
    return _Builder(DrawChoice(draw)).graph(draw(st.integers(1, max_size)))


def random_inputs(graph: Graph, rng: np.random.Generator, specials: bool = False) -> dict[str, NDArray[Any]]:
    """Inputs by tensor_id; with `specials` some elements are NaN, infinite, -0, huge, or the ends of an integer."""
    return {tensor: _random_array(graph.types[node.id], rng, specials) for tensor, node in graph.inputs.items()}


def _random_array(type_: TensorType, rng: np.random.Generator, specials: bool) -> NDArray[Any]:
    element = type_.dtype
    if element.is_bool:
        return np.asarray(rng.integers(0, 2, type_.shape), np.bool_)
    ends: list[float | int]
    if element.is_float:
        values = rng.standard_normal(type_.shape).astype(element.numpy)
        ends = [math.nan, math.inf, -math.inf, -0.0, 0.0, 6e4, 1e-7]
    else:
        values = rng.integers(0 if not element.is_signed else -9, 10, type_.shape).astype(element.numpy)
        ends = [element.lowest, element.highest, 0]
    if specials:
        chosen = np.asarray(ends, np.float64 if element.is_float else element.numpy).astype(element.numpy)
        values = np.where(rng.random(type_.shape) < 0.2, rng.choice(chosen, type_.shape), values)
    return np.asarray(values, element.numpy)


class _Builder:
    """Grows a graph uop by uop; a uop that no value suits is skipped."""

    def __init__(self, choice: Choice, depth: int = 0) -> None:
        self.choice = choice
        self.depth = depth
        """How many loops may be inside each other."""
        self.nodes: list[Node] = []
        self.types: dict[Ref, TensorType] = {}

    def graph(self, size: int) -> Graph:
        for _ in range(self.choice.integer(1, 3)):
            self.input()
        while len(self.nodes) < size + 2:
            self.grow(UOPS[self.pick(FREQUENT if self.choice.integer(0, 1) else LOOPING if self.depth else FLAT)])
        if all(node.uop == "INPUT" for node in self.nodes):
            self.add("CAST", self.value(), to="fp32")
        read = {ref for node in self.nodes for ref in node.refs}
        outputs = [node.id for node in self.nodes if node.id not in read and node.uop != "INPUT"]
        inner = [node.id for node in self.nodes if node.id in read and node.uop != "INPUT"]
        if inner and self.choice.integer(0, 2) == 0:
            outputs.append(self.pick(inner))
        if not outputs:
            outputs = [self.nodes[-1].id]
        return Graph.build(self.nodes, outputs)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.choice.integer(0, len(items) - 1)]

    def value(self, allowed: Callable[[DType], bool] | None = None, rank: int = 0) -> Ref:
        """Some value of an allowed dtype and at least this rank, of late ones rather than early; else an input."""
        fit = [
            ref for ref, type_ in self.types.items() if type_.rank >= rank and (allowed is None or allowed(type_.dtype))
        ]
        return fit[-1 - min(self.choice.integer(0, 5), len(fit) - 1)] if fit else self.input(allowed, rank)

    def input(self, allowed: Callable[[DType], bool] | None = None, rank: int = 0) -> Ref:
        names = [name for name in COMMON_DTYPES if allowed is None or allowed(DTYPES[name])]
        shape = [self.pick(SIZES) for _ in range(self.choice.integer(max(rank, 0), 3))]
        dtype = self.pick(names)
        return self.add("INPUT", tensor_id=f"T{len(self.types)}", dtype=dtype, shape=tuple(shape))

    def add(self, uop: str, *src: Ref | Imm, **arg: Any) -> Ref:
        node, type_ = type_node(Node(f"v{len(self.nodes)}", uop, src, Arg(arg)), self.types)
        self.nodes.append(node)
        self.types[node.id] = type_
        return node.id

    def grow(self, op: UOp) -> None:
        before = len(self.nodes)
        try:
            if op.kind is UOpKind.MOVEMENT:
                self.movement(op.name)
            elif op.name == "RANDOM":
                self.random()
            elif op.kind in (UOpKind.UNARY, UOpKind.BINARY):
                self.elementwise(op)
            else:
                getattr(self, op.kind.value)(*([op.name] if op.kind is UOpKind.SCAN else []))
        except EqsatError:
            del self.nodes[before:]
            self.types = {node.id: self.types[node.id] for node in self.nodes}

    def elementwise(self, op: UOp) -> None:
        ref = self.value(lambda element: bool(_fitting(op, element)))
        arg = self.pick(_fitting(op, self.types[ref].dtype))
        self.add(op.name, *([ref] if op.arity == 1 else self.operands(ref)), **arg)

    def operands(self, ref: Ref) -> list[Ref | Imm]:
        """`ref` and something of its type, in either order."""
        other: Ref | Imm
        match self.choice.integer(0, 3):
            case 0:
                other = self.immediate(self.types[ref].dtype)
            case 1:
                other = self.pick(
                    [candidate for candidate, type_ in self.types.items() if _alike(type_, self.types[ref])]
                )
            case 2:
                other = self.broadcast(ref)
            case _:
                other = ref
        return [ref, other] if self.choice.integer(0, 1) else [other, ref]

    def broadcast(self, ref: Ref) -> Ref:
        """A value of `ref`'s type made from a smaller input."""
        type_ = self.types[ref]
        shape = tuple(size if self.choice.integer(0, 1) else 1 for size in type_.shape)
        small = self.add("INPUT", tensor_id=f"T{len(self.types)}", dtype=type_.dtype.name, shape=shape)
        return self.add("EXPAND", small, result_shape=type_.shape)

    def immediate(self, element: DType) -> Imm:
        if element.is_float:
            return Imm(self.pick((0.0, 1.0, -1.0, 0.5, 2.0, 1.442695, -math.inf, math.inf, math.nan, 0.1)))
        return Imm(self.pick((True, False)) if element.is_bool else self.pick((0, 1, 2, 3, 7)))

    def index(self) -> None:
        shape = tuple(self.pick(SIZES) for _ in range(self.choice.integer(1, 3)))
        dtype = self.pick([name for name in COMMON_DTYPES if name != "bool"])
        self.add("IOTA", shape=shape, axis=self.choice.integer(0, len(shape) - 1), dtype=dtype)

    def ternary(self) -> None:
        x, y = self.operands(self.value())
        tensor = x if not isinstance(x, Imm) else y
        assert not isinstance(tensor, Imm)
        condition = self.add("CMPLT", tensor, self.immediate(self.types[tensor].dtype))
        self.add("WHERE", condition, x, y)

    def random(self) -> None:
        """A random word of counters and keys of which one, at random, is a value of the graph."""
        counter = self.add("CAST", self.value(logical), to="u64")
        operands: list[Ref | Imm] = [counter, *(self.immediate(u64) for _ in range(2))]
        if self.choice.integer(0, 1):
            operands[1:] = [self.broadcast(counter), self.broadcast(counter)]
        turn = self.choice.integer(0, 2)
        self.add("RANDOM", *operands[turn:], *operands[:turn], word=self.choice.integer(0, 3))

    def cast(self) -> None:
        self.add("CAST", self.value(), to=self.pick(COMMON_DTYPES))

    def accumulator(self, ref: Ref) -> str:
        wide = self.types[ref].dtype
        options = (
            ("fp32", "fp32", "fp64", "fp16", "bf16") if wide.is_float else ("i32", "i64", "i32", "i8", "u32", "u64")
        )
        return self.pick(options)

    def reduce(self) -> None:
        ref = self.value(rank=1)
        rank = self.types[ref].rank
        axes = tuple(axis for axis in range(rank) if self.choice.integer(0, 1)) or (rank - 1,)
        op = self.pick(("SUM", "SUM", "MAX", "MIN", "PROD"))
        arg: dict[str, Any] = {"op": op, "axes": axes, "dtype": self.accumulator(ref)}
        if self.choice.integer(0, 5) == 0:
            arg["init"] = self.choice.integer(0, 3)
        self.add("REDUCE", ref, **arg)

    def scan(self, name: str) -> None:
        ref = self.value(rank=1)
        axis = self.choice.integer(0, self.types[ref].rank - 1)
        self.add(name, ref, axis=axis, dtype=self.accumulator(ref))

    def gather(self) -> None:
        ref = self.value(rank=1)
        shape = self.types[ref].shape
        axis = self.choice.integer(0, len(shape) - 1)
        wanted = tuple(
            self.choice.integer(0, 4) if k == axis else self.choice.integer(0, size) for k, size in enumerate(shape)
        )
        index = self.add("INPUT", tensor_id=f"T{len(self.types)}", dtype=self.pick(("i32", "i64", "u64")), shape=wanted)
        self.add("GATHER", ref, index, axis=axis)

    def scatter(self) -> None:
        ref = self.value(rank=1)
        type_ = self.types[ref]
        axis = self.choice.integer(0, type_.rank - 1)
        shape = tuple(self.choice.integer(0, 4) if k == axis else size for k, size in enumerate(type_.shape))
        dtype = self.pick(("i32", "i64", "u64", "i8"))
        index = self.add("INPUT", tensor_id=f"T{len(self.types)}", dtype=dtype, shape=shape)
        updates = self.add("INPUT", tensor_id=f"T{len(self.types)}", dtype=type_.dtype.name, shape=shape)
        if self.choice.integer(0, 1) and not type_.dtype.is_bool:
            updates = self.add("MUL", updates, Imm(2))
        self.add("SCATTER", ref, index, updates, axis=axis, op=self.pick(("LAST", "SUM", "PROD", "MAX", "MIN")))

    def loop(self) -> None:
        """A loop over late values. Its graph grows from its parameters; a state's next value is any of its type."""
        scanned = [self.value(rank=1) for _ in range(self.choice.integer(0, 2))]
        trips = self.types[scanned[0]].shape[0] if scanned else self.choice.integer(1, 4)
        scanned = [ref for ref in scanned if self.types[ref].shape[0] == trips]
        states = [self.value() for _ in range(self.choice.integer(0, 2))]
        captured = [self.value() for _ in range(self.choice.integer(0, 2))]
        body = _Builder(self.choice, self.depth - 1)
        for ref in (*states, *scanned, *captured):
            type_ = self.types[ref]
            shape = type_.shape[1:] if len(states) <= len(body.nodes) < len(states) + len(scanned) else type_.shape
            body.add("INPUT", tensor_id=f"P{len(body.nodes)}", dtype=type_.dtype.name, shape=shape)
        for _ in range(self.choice.integer(1, 6) if body.nodes else 0):
            body.grow(UOPS[self.pick(FREQUENT if self.choice.integer(0, 1) else LOOPING if body.depth else FLAT)])
        parameters = len(states) + len(scanned) + len(captured)
        if any(node.uop == "INPUT" for node in body.nodes[parameters:]):
            return
        outputs = []
        for k in range(len(states)):
            alike = [ref for ref, type_ in body.types.items() if _alike(type_, body.types[f"v{k}"])]
            outputs.append(alike[-1 - self.choice.integer(0, min(2, len(alike) - 1))])
        outputs += [self.pick(list(body.types)) for _ in range(self.choice.integer(0, 2) if body.nodes else 0)]
        if not outputs:
            return
        graph = Graph.build(body.nodes, outputs).named("body")
        arg = {"graph": graph, "states": len(states), "scanned": len(scanned), "trips": trips}
        if self.choice.integer(0, 1):
            arg["reverse"] = True
        for k in range(len(outputs)):
            if k == 0 or self.choice.integer(0, 2):
                self.add("LOOP", *states, *scanned, *captured, result=k, **arg)

    def movement(self, name: str) -> None:
        ref = self.value(rank=1 if name == "POOL" else 0)
        shape = self.types[ref].shape
        self.add(name, ref, **getattr(self, f"_{name.lower()}")(shape))

    def _reshape(self, shape: tuple[int, ...]) -> dict[str, Any]:
        sizes = list(shape)
        if len(sizes) > 1 and self.choice.integer(0, 1):
            at = self.choice.integer(0, len(sizes) - 2)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        if sizes and self.choice.integer(0, 1):
            at = self.choice.integer(0, len(sizes) - 1)
            split = next((d for d in (2, 3, 5) if sizes[at] and sizes[at] % d == 0), 1)
            sizes[at : at + 1] = [sizes[at] // split, split]
        if self.choice.integer(0, 1) and len(sizes) < 5:
            sizes.insert(self.choice.integer(0, len(sizes)), 1)
        return {"result_shape": tuple(sizes)}

    def _permute(self, shape: tuple[int, ...]) -> dict[str, Any]:
        left, perm = list(range(len(shape))), []
        while left:
            perm.append(left.pop(self.choice.integer(0, len(left) - 1)))
        return {"perm": tuple(perm)}

    def _expand(self, shape: tuple[int, ...]) -> dict[str, Any]:
        wider = tuple(self.pick(SIZES) if size == 1 else size for size in shape)
        return {"result_shape": wider if math.prod(wider) <= MAX_ELEMENTS else shape}

    def _pad(self, shape: tuple[int, ...]) -> dict[str, Any]:
        if math.prod(size + 4 for size in shape) > MAX_ELEMENTS:
            return {"pad": tuple((0, 0) for _ in shape)}
        pads = tuple((self.choice.integer(0, 2), self.choice.integer(0, 2)) for _ in shape)
        return {"pad": pads, "value": self.choice.integer(0, 1)} if self.choice.integer(0, 1) else {"pad": pads}

    def _shrink(self, shape: tuple[int, ...]) -> dict[str, Any]:
        low = tuple(self.choice.integer(0, size) for size in shape)
        high = tuple(self.choice.integer(a, size) for a, size in zip(low, shape, strict=True))
        cut: dict[str, Any] = {"lo": low, "hi": high}
        return cut | {"step": tuple(self.choice.integer(1, 3) for _ in shape)} if self.choice.integer(0, 1) else cut

    def _flip(self, shape: tuple[int, ...]) -> dict[str, Any]:
        return {"axes": tuple(axis for axis in range(len(shape)) if self.choice.integer(0, 1))}

    def _pool(self, shape: tuple[int, ...]) -> dict[str, Any]:
        n = self.choice.integer(1, min(2, len(shape)))
        kernel = tuple(self.choice.integer(1, max(1, min(3, size))) for size in shape[-n:])
        stride = tuple(self.choice.integer(1, 2) for _ in range(n))
        return {"kernel": kernel, "stride": stride, "dilation": tuple(self.choice.integer(1, 2) for _ in range(n))}

    def _view(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """Per source axis one of: a constant, the axis, a coarser one, a sum of two axes, a remainder."""
        result: list[int] = []
        index: list[str] = []
        for size in shape:
            i = f"i{len(result)}"
            match self.choice.integer(0, 4) if size > 1 else 1:
                case 0:
                    index.append(str(self.choice.integer(0, size - 1)))
                    continue
                case 2:
                    index.append(f"{i}//2 + {size - 1 - (size - 1) // 2}")
                case 3:
                    index.append(f"{i} + i{len(result) + 1}")
                    result.append((size + 1) // 2)
                    result.append(size + 1 - (size + 1) // 2)
                    continue
                case 4:
                    index.append(f"{i} - 2*({i}//2)")
                case _:
                    index.append(i)
            result.append(size)
        return {"result_shape": tuple(result), "index_map": tuple(index)}


def _alike(a: TensorType, b: TensorType) -> bool:
    return (a.dtype, a.shape) == (b.dtype, b.shape)


def _fitting(op: UOp, element: DType) -> list[Arg]:
    """The attributes with which an elementwise uop takes operands of this dtype; a dtype is its only attribute."""
    dtypes = [key for key, spec in op.args.items() if spec.kind is ArgKind.DTYPE]
    results = []
    for values in product(COMMON_DTYPES, repeat=len(dtypes)):
        arg = Arg(dict(zip(dtypes, values, strict=True)))
        with suppress(EqsatError):
            op.type_of((TensorType(element, (), ()),) * op.arity, arg)
            results.append(arg)
    return results
