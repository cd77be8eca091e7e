"""The meaning of a Tiny graph on NumPy arrays: the oracle that every kernel is compared with.

Every uop's result is rounded to its dtype. `wide` computes all floats in fp64 and rounds nothing: the reference for
tolerances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from types import MappingProxyType

import numpy as np

from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.host.memory import memory_for
from ir.tiny.flush import Flush, computes, flush_denormals, flush_operands
from ir.tiny.graph import STAGE, Graph, Imm, Node, Ref
from ir.tiny.nudge import nudge_operands
from ir.tiny.tf32 import summed_products, to_tf32
from ir.uop.playback import Array, convert, loop_results, storage
from ir.uop.table import UOpKind

SLAB = 2**22
"""Elements of an elementwise value in memory at once, if a reduction is its only reader."""


def playback(
    graph: Graph,
    inputs: Mapping[str, Array],
    wide: bool = False,
    tf32: Set[Ref] = frozenset(),
    flush: Flush = Flush.NOTHING,
    ordered: bool = False,
    nudge: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Array, ...]:
    """The outputs, in signature order, in their dtypes (every float as fp64 when `wide`). tf32: the multiplications
    whose operands are rounded to tf32. flush: the numbers replaced by 0. ordered: reductions take their terms one by
    one in index order. nudge: the shares of `ir.tiny.nudge`, for a wide playback.

    Arrays are not copied where NumPy can view them, so an output may share memory with an input.
    A value is dropped after its last reader; a large product that is only summed is computed in slabs.

    Raises:
        EqsatError: InputMismatch for other inputs; ResourceExceeded, if a value does not fit in memory.
    """
    machine = _Machine(graph, inputs, wide, deferred_products(graph), tf32, flush, ordered, nudge)
    last_use: dict[Ref, int] = {}
    for index, node in enumerate(graph.nodes):
        last_use.update(dict.fromkeys(machine.reads(node), index))
    for index, node in enumerate(graph.nodes):
        machine.step(node)
        for ref in machine.reads(node):
            if last_use[ref] == index and ref not in graph.outputs:
                machine.values.pop(ref, None)
    return tuple(machine.values[ref] for ref in graph.outputs)


def values(graph: Graph, inputs: Mapping[str, Array], wide: bool = False) -> dict[Ref, Array]:
    """The values of all nodes, by id."""
    machine = _Machine(graph, inputs, wide, {})
    for node in graph.nodes:
        machine.step(node)
    return machine.values


def deferred_products(graph: Graph) -> dict[Ref, Node]:
    """The large elementwise values whose only reader is a reduction that keeps an axis, so that slabs can be cut."""
    consumers = graph.consumers
    products: dict[Ref, Node] = {}
    for node in graph.nodes:
        readers, type_ = consumers[node.id], graph.types[node.id]
        if (
            node.op.kind.is_elementwise
            and type_.size > SLAB
            and node.id not in graph.outputs
            and not any(ref in products for ref in node.refs)
            and [reader.uop for reader in readers] == ["REDUCE"]
            and len(readers[0].arg["axes"]) < type_.rank
        ):
            products[node.id] = node
    return products


def check_inputs(graph: Graph, inputs: Mapping[str, Array], wide: bool = False) -> dict[str, Array]:
    """The inputs as arrays by tensor_id; InputMismatch unless all are there in their dtypes and shapes.

    With `wide`, floats may also be fp64, and stay so.
    """
    wanted = {tensor: graph.types[node.id] for tensor, node in graph.inputs.items()}
    missing, unknown = sorted(wanted.keys() - inputs.keys()), sorted(map(str, inputs.keys() - wanted.keys()))
    if missing or unknown:
        fail(
            Kind.INPUT_MISMATCH,
            STAGE,
            "inputs are missing or unknown",
            missing=missing,
            unknown=unknown,
            expected=list(wanted),
        )
    return {tensor: _check_array(tensor, np.asarray(inputs[tensor]), type_, wide) for tensor, type_ in wanted.items()}


def _check_array(tensor: str, array: Array, type_: TensorType, wide: bool) -> Array:
    to = storage(type_.dtype, wide)
    if array.dtype not in (type_.dtype.numpy, to) or array.shape != type_.shape:
        fail(
            Kind.INPUT_MISMATCH,
            STAGE,
            f"the input {tensor!r} must be {type_}",
            at=tensor,
            found_dtype=array.dtype,
            found_shape=array.shape,
        )
    return array.astype(to, copy=False)


class _Machine:
    """Computes values by id. A deferred node has none: its only reader, a reduction, computes it slab by slab."""

    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, Array],
        wide: bool,
        deferred: Mapping[Ref, Node],
        tf32: Set[Ref] = frozenset(),
        flush: Flush = Flush.NOTHING,
        ordered: bool = False,
        nudge: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.graph = graph
        self.tf32, self.flush, self.ordered, self.nudge = tf32, flush, ordered, nudge
        self.inputs = check_inputs(graph, inputs, wide)
        self.wide = wide
        self.deferred = deferred
        self.values: dict[Ref, Array] = {}
        self.loops: dict[tuple[object, ...], list[Array]] = {}

    def reads(self, node: Node) -> tuple[Ref, ...]:
        """The values that `node` reads, including those of the deferred product that it computes."""
        if node.id in self.deferred:
            return ()
        inner = (ref for read in node.refs if read in self.deferred for ref in self.deferred[read].refs)
        return (*node.refs, *inner)

    def step(self, node: Node) -> None:
        """Computes `node`, unless a reduction computes it as a deferred product."""
        if node.id in self.deferred:
            return
        if node.uop == "INPUT":
            self.values[node.id] = self.inputs[node.arg["tensor_id"]]
            return
        type_ = self.graph.types[node.id]
        nbytes = _held_elements(node, type_) * storage(type_.dtype, self.wide).itemsize
        with memory_for(nbytes, STAGE, "the value in the playback", at=node.id, value=str(type_)):
            if node.op.kind is UOpKind.LOOP:
                self.values[node.id] = self._loop(node)
            elif any(ref in self.deferred for ref in node.refs):
                self.values[node.id] = self._reduce_by_slabs(node)
            else:
                self.values[node.id] = self._apply(node, self._operands(node))

    def _loop(self, node: Node) -> Array:
        """One result of a loop, which runs once for all its results."""
        key, body = (node.src, node.arg.with_(result=0)), node.arg["graph"].graph
        if key not in self.loops:
            tf32 = summed_products(body) if node.id in self.tf32 else frozenset()

            def run(operands: Sequence[Array]) -> Sequence[Array]:
                inputs = dict(zip(body.inputs, operands, strict=True))
                return playback(body, inputs, self.wide, tf32, self.flush, self.ordered, self.nudge)

            self.loops[key] = loop_results([self.values[ref] for ref in node.refs], node.arg, run)
        result: Array = self.loops[key][node.arg["result"]]
        return result

    def _operands(self, node: Node) -> list[Array]:
        operands = [self._operand(node, slot) for slot in range(len(node.src))]
        operands = flush_operands(node, operands, self.flush)
        if self.nudge:
            types, to = self.graph.operand_types(node), self.graph.types[node.id]
            operands = nudge_operands(node, operands, types, to, self.nudge)
        return [to_tf32(operand) for operand in operands] if node.id in self.tf32 else operands

    def _operand(self, node: Node, slot: int) -> Array:
        source = node.src[slot]
        if isinstance(source, Imm):
            return self._immediate(source, self.graph.operand_types(node)[slot])
        return self.values[source]

    def _immediate(self, immediate: Imm, type_: TensorType) -> Array:
        carrier = np.float64 if type_.dtype.is_float else type_.dtype.numpy
        with np.errstate(all="ignore"):
            number = np.asarray(immediate.value, carrier)
            number = convert(number, type_.dtype, False) if self.nudge else number  # as kernels have it
            return convert(number, type_.dtype, self.wide)

    def _apply(self, node: Node, operands: list[Array]) -> Array:
        type_ = self.graph.types[node.id]
        result = self._result(node, operands, type_)
        return np.broadcast_to(result, type_.shape) if result.shape != type_.shape else result

    def _result(self, node: Node, operands: list[Array], type_: TensorType) -> Array:
        arg = {**node.arg, "in_order": True} if self.ordered and node.op.kind is UOpKind.REDUCE else node.arg
        result = node.op.apply(operands, arg, type_, self.wide)
        return flush_denormals(result) if self.flush is not Flush.NOTHING and computes(node) else result

    def _reduce_by_slabs(self, node: Node) -> Array:
        """A reduction of a deferred operand, cut along a kept axis into slabs of about SLAB elements."""
        (ref,) = node.refs
        producer, source = self.deferred[ref], self.graph.types[ref]
        result = self.graph.types[node.id]
        kept = [axis for axis in range(source.rank) if axis not in node.arg["axes"]]
        axis = max(kept, key=lambda k: source.shape[k])
        operands = self._operands(producer)
        out = np.empty(result.shape, storage(result.dtype, self.wide))
        for cut in _cuts(source.shape[axis], source.size):
            at = (slice(None),) * axis + (cut,)
            part = self._result(producer, [operand[at] if operand.ndim else operand for operand in operands], source)
            place = (slice(None),) * kept.index(axis) + (cut,)
            out[place] = self._result(node, [part], result)
        return out


def _held_elements(node: Node, type_: TensorType) -> int:
    """Elements of the result that take memory: none of a movement that NumPy views, one line of an IOTA."""
    if node.uop == "IOTA":
        return type_.shape[node.arg["axis"]] if type_.rank else 1
    return 0 if node.op.kind is UOpKind.MOVEMENT and node.uop != "PAD" else type_.size


def _cuts(length: int, elements: int) -> Iterator[slice]:
    step = max(1, length * SLAB // elements)
    for low in range(0, length, step):
        yield slice(low, min(low + step, length))
