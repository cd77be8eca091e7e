"""Graph by sizes → the graph of the largest sizes with masks, which computes all smaller sizes: lengths are arguments.

The claim for each value is that of `ir.tiny.restriction`: its elements at positions that exist at the smaller sizes are
those of the program at the smaller sizes. A uop that would read padding gets masks, or reads by positions that are
computed from the lengths:

    max(x) over S          max(where(i < S, x, -∞))
    pad(x, [[S, 1]])       where(i ≥ S, x[i - S], 0)
    x[S - 1]               gather(x, S - 1)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from eqsat.serving.length_uops import LENGTH, LengthUOps
from eqsat.serving.padding_values import Known, PaddingValues
from ir.tiny.graph import Graph, Node, Ref
from ir.tiny.graph_by_sizes import FIRST, GraphBySizes, NodeBySizes, Value
from ir.tiny.node import Imm
from ir.tiny.reshape_groups import ReshapeGroup, reshape_groups
from ir.tiny.restriction import refuse_padding
from ir.tiny.size_expr import SizeExpr
from ir.uop.playback import identity
from ir.uop.table import UOpKind
from ir.uop.types import axis_position

Shape = tuple[SizeExpr, ...]


class MaskedGraph(NamedTuple):
    """graph: takes an argument for each length. lengths: the symbols by the names of these arguments."""

    graph: Graph
    lengths: Mapping[str, str]


def mask_padding(sized: GraphBySizes) -> MaskedGraph:
    """The graph of the largest sizes with masks.

    Raises:
        EqsatError: UnsupportedOp at a uop that reads padding in a way that no mask prevents.
    """
    return _Masking(sized).whole()


class _Masking:
    """Writes the masked graph, uop by uop."""

    def __init__(self, sized: GraphBySizes) -> None:
        self._sized = sized
        self._to = LengthUOps(sized.graph.types, sized.sizes)
        self._padding = PaddingValues(self._to.nodes, self._to.types)
        self._at: dict[Ref, Ref] = {}
        self._shapes: dict[Ref, Shape] = {}
        symbols = {symbol for node in sized.nodes for expr in node.numbers.values() for symbol in expr.symbols}
        self._symbols = sorted(symbols)
        self._samples = [
            {symbol: first + step * place for place, symbol in enumerate(self._symbols)}
            for first, step in ((10007, 211), (20011, 523))
        ]

    def whole(self) -> MaskedGraph:
        inputs = [one for one in self._sized.nodes if one.node.uop == "INPUT"]
        for one in inputs:
            self._put(one)
        names = {symbol: self._name_of_length(symbol) for symbol in self._symbols}
        for symbol, name in names.items():
            self._to.add_length(symbol, name)
        for one in inputs:
            self._shift(one)
        for one in self._sized.nodes:
            if one.node.uop != "INPUT":
                self._to.tagged(one.node.tag)
                self._put(one)
        outputs = [self._at[ref] for ref in self._sized.graph.outputs]
        return MaskedGraph(self._to.graph(outputs), {name: symbol for symbol, name in names.items()})

    def _name_of_length(self, symbol: str) -> str:
        name = f"length of {symbol}"
        while name in self._sized.graph.inputs:
            name += "'"
        return name

    def _put(self, one: NodeBySizes) -> None:
        """Writes one uop of the program."""
        node = one.node
        largest = self._sized.graph.types[node.id].shape
        shape = one.shape(largest)
        for expr, size in zip(shape, largest, strict=True):
            if not expr.is_constant:
                _check_positions(node, size)
        written = self._written(one, shape)
        self._at[node.id] = written
        self._shapes[written] = shape

    def _written(self, one: NodeBySizes, shape: Shape) -> Ref:
        node = one.node
        match node.op.kind:
            case UOpKind.INPUT:
                return self._input(node)
            case UOpKind.MOVEMENT:
                return self._moved(one, shape)
            case UOpKind.REDUCE:
                return self._reduced(node)
            case UOpKind.GATHER:
                return self._gathered(node)
            case UOpKind.SCATTER:
                return self._scattered(node)
            case UOpKind.LOOP:
                operands = [self._shapes[self._at[ref]] for ref in node.refs]
                if one.numbers or any(not expr.is_constant for exprs in operands for expr in exprs):
                    refuse_padding("the loop's operands or trips depend on the padded size", node)
        return self._same(one)

    def _input(self, node: Node) -> Ref:
        ref = self._to.put(node)
        if node.arg["tensor_id"] in self._sized.constants:
            self._padding[ref] = (None,) * len(self._to.shape(ref))
        else:
            self._padding.follow(ref)
        return ref

    def _shift(self, one: NodeBySizes) -> None:
        """Adds to a constant of integers how far its first element is from that at the largest sizes."""
        expr = one.numbers.get(FIRST)
        if expr is None:
            return
        at, largest = self._at[one.node.id], expr.at(self._sized.sizes)
        type_ = self._to.types[at]
        distance = self._to.scalar(expr.plus(SizeExpr(-largest)), type_.dtype)
        shifted = self._to.add("ADD", at, self._to.filled(distance, type_.shape))
        self._at[one.node.id], self._shapes[shifted] = shifted, self._shapes[at]

    def _same(self, one: NodeBySizes) -> Ref:
        """The uop as it is at the largest sizes; immediates that are sizes are computed from the lengths."""
        node = one.node
        src: list[Ref | Imm] = []
        for position, operand in enumerate(node.src):
            expr = one.numbers.get(("src", position))
            if not isinstance(operand, Imm):
                src.append(self._at[operand])
            elif expr is None:
                src.append(operand)
            else:
                type_ = self._sized.graph.operand_types(node)[position]
                src.append(self._to.filled(self._to.scalar(expr, type_.dtype), type_.shape))
        return self._follow(self._to.put(msgspec.structs.replace(node, src=tuple(src))))

    def _follow(self, ref: Ref) -> Ref:
        self._padding.follow(ref)
        return ref

    # reductions and indices

    def _reduced(self, node: Node) -> Ref:
        (ref,) = node.refs
        op, at = node.arg["op"], self._at[ref]
        element = self._to.types[at].dtype
        axes = [axis_position(axis, len(self._to.shape(at))) for axis in node.arg["axes"]]
        for axis in axes:
            if not self._shapes[at][axis].is_constant:
                at = self._ended(at, axis, identity(op, element))
        self._at[ref] = at
        return self._follow(self._to.put(msgspec.structs.replace(node, src=(at,))))

    def _gathered(self, node: Node) -> Ref:
        """An index behind the end reads the last element, as at the smaller sizes."""
        source, index = (self._at[ref] for ref in node.refs)
        axis = axis_position(node.arg["axis"], len(self._to.shape(source)))
        length = self._shapes[source][axis]
        if not length.is_constant:
            element = self._to.types[index].dtype
            if element.bits < LENGTH.bits:
                element, index = LENGTH, self._to.add("CAST", index, to=LENGTH.name)
            last = self._to.scalar(length.plus(SizeExpr(-1)), element)
            index = self._to.add("MIN", index, self._to.filled(last, self._to.shape(index)))
        return self._to.put(msgspec.structs.replace(node, src=(source, index)))

    def _scattered(self, node: Node) -> Ref:
        """Updates behind the end have the index -1, which changes nothing."""
        source, index, updates = (self._at[ref] for ref in node.refs)
        axis = axis_position(node.arg["axis"], len(self._to.shape(index)))
        for place, length in enumerate(self._shapes[index]):
            if not length.is_constant and (place == axis or self._shapes[source][place] != length):
                if not self._to.types[index].dtype.is_signed:
                    refuse_padding("updates have unsigned indices", node)
                inside = self._to.within(self._to.shape(index), place, SizeExpr(0), length)
                index = self._to.add("WHERE", inside, index, Imm(-1))
        return self._to.put(msgspec.structs.replace(node, src=(source, index, updates)))

    # movement

    def _moved(self, one: NodeBySizes, shape: Shape) -> Ref:
        node = one.node
        match node.uop:
            case "RESHAPE":
                return self._reshaped(one, shape)
            case "PAD":
                return self._padded(one, shape)
            case "SHRINK":
                return self._shrunk(one)
            case "FLIP":
                return self._flipped(node)
            case "POOL" if any(place[0] != "shape" for place in one.numbers):
                refuse_padding("the windows depend on the padded size", node)
        return self._same(one)

    def _reshaped(self, one: NodeBySizes, shape: Shape) -> Ref:
        """Groups of axes whose order changes are read by computed positions."""
        node = one.node
        source = self._at[node.refs[0]]
        before = self._shapes[source]
        old, new = self._to.shape(source), self._sized.graph.types[node.id].shape
        groups = reshape_groups(self._sampled(before, old), self._sampled(shape, new))
        if all(group.keeps_order for group in groups):
            return self._same(one)
        if not all(group.old and group.new for group in groups):
            refuse_padding("a reshape of no elements depends on the padded size", node)
        flat = [math.prod([old[axis] for axis in group.old]) for group in groups]
        at = self._to.add("RESHAPE", source, result_shape=tuple(flat))
        for place, group in enumerate(groups):
            if not group.keeps_order:
                _check_positions(node, flat[place])
                index = self._moved_index(group, before, shape, old, new)
                at = self._to.taken(at, place, index)
        return self._follow(self._to.put(msgspec.structs.replace(node, src=(at,))))

    def _moved_index(
        self, group: ReshapeGroup, before: Shape, after: Shape, old: Sequence[int], new: Sequence[int]
    ) -> Ref:
        """For each row-major number of the group's new axes, the row-major number of the element in its old axes."""
        size = math.prod(new[axis] for axis in group.new)
        number = self._to.rebased(
            self._to.iota(size), [new[axis] for axis in group.new], [after[axis] for axis in group.new]
        )
        return self._to.rebased(number, [before[axis] for axis in group.old], [old[axis] for axis in group.old])

    def _sampled(self, exprs: Shape, largest: Sequence[int]) -> list[tuple[int, ...]]:
        """The sizes of axes at the samples, where no two products of different axes are equal, and the largest ones."""
        return [(*(e.at(sizes) for sizes in self._samples), size) for e, size in zip(exprs, largest, strict=True)]

    def _padded(self, one: NodeBySizes, shape: Shape) -> Ref:
        """Elements that a PAD moves by a length are read by position; padding between the elements and the value
        behind them becomes that value."""
        node, at = one.node, self._at[one.node.refs[0]]
        before, pads = self._shapes[at], [list(pair) for pair in node.arg["pad"]]
        largest, value = self._sized.graph.types[node.id].shape, node.arg.get("value", 0)
        ends: list[tuple[int, SizeExpr]] = []
        filled: list[int] = []
        for axis, (low, high) in enumerate(pads):
            lower, higher = one.number(("pad", axis, 0), low), one.number(("pad", axis, 1), high)
            if not lower.is_constant:
                if self._to.shape(at)[axis] == 0:
                    refuse_padding("an axis without elements is padded by a length", node)
                at = self._to.taken(
                    at, axis, self._to.combined("ADD", self._to.iota(largest[axis]), SizeExpr(0).plus(lower, -1))
                )
                pads[axis] = [0, 0]
                ends.append((axis, lower))
            elif not before[axis].is_constant and (high or not higher.is_constant):
                ends.append((axis, lower))
            elif not higher.is_constant:
                filled.append(axis)
        if not ends:
            return self._filled_behind(self._same(one), filled, value)
        if any(pair != [0, 0] for pair in pads):
            at = self._follow(self._to.add("PAD", at, pad=tuple(map(tuple, pads)), value=value))
        at = self._filled_behind(at, filled, value)
        for axis, lower in ends:
            inside = self._to.within(largest, axis, lower, lower.plus(before[axis]))
            at = self._ended_by(inside, at, axis, value)
        return at

    def _filled_behind(self, at: Ref, axes: Sequence[int], value: Value) -> Ref:
        """A padded value, where a PAD alone puts `value` at the padded positions of these axes."""
        for axis in axes:
            self._padding.put(at, axis, Known(value))
        return at

    def _shrunk(self, one: NodeBySizes) -> Ref:
        """An axis that begins at a length is read by position. Behind an end that is not the operand's are elements
        that are no padding."""
        node, at = one.node, self._at[one.node.refs[0]]
        arg, largest = node.arg, self._sized.graph.types[node.id].shape
        lows, highs = list(arg["lo"]), list(arg["hi"])
        steps = list(arg.get("step") or (1,) * len(lows))
        moved = []
        for axis, low in enumerate(lows):
            if not one.number(("step", axis), steps[axis]).is_constant:
                refuse_padding("the step depends on the padded size", node)
            lower = one.number(("lo", axis), low)
            if not lower.is_constant:
                moved.append((axis, lower))
        if not moved:
            same, ends = self._same(one), self._shapes[at]
            for axis, high in enumerate(highs):
                if one.number(("hi", axis), high) != ends[axis]:
                    self._padding.put(same, axis, None)
            return same
        for axis, lower in moved:
            index = self._to.combined("MUL", self._to.iota(largest[axis]), steps[axis])
            at = self._to.taken(at, axis, self._to.combined("ADD", index, lower))
            lows[axis], highs[axis], steps[axis] = 0, largest[axis], 1
        return self._to.put(
            msgspec.structs.replace(node, src=(at,), arg=arg.with_(lo=tuple(lows), hi=tuple(highs), step=tuple(steps)))
        )

    def _flipped(self, node: Node) -> Ref:
        at = self._at[node.refs[0]]
        shape, axes = self._to.shape(at), []
        before = self._shapes[at]
        for axis in (axis_position(one, len(shape)) for one in node.arg["axes"]):
            if before[axis].is_constant:
                axes.append(axis)
            else:
                backwards = self._to.add("NEG", self._to.iota(shape[axis]))
                last = before[axis].plus(SizeExpr(-1))
                at = self._to.taken(at, axis, self._to.combined("ADD", backwards, last))
        return (
            self._to.put(msgspec.structs.replace(node, src=(at,), arg=node.arg.with_(axes=tuple(axes)))) if axes else at
        )

    # masks

    def _ended(self, at: Ref, axis: int, value: Value) -> Ref:
        """The value with `value` at the padded positions of an axis; softly is enough."""
        if self._padding.has(at, axis, value):
            return at
        return self._to.once(("ended", at, axis, value), lambda: self._write_ended(at, axis, value))

    def _write_ended(self, at: Ref, axis: int, value: Value) -> Ref:
        """Both factors of a product get zeros, so that the sum of the products stays a contraction. The mask is put
        before the axes that repeat it."""
        node, shape = self._to.nodes[at], self._shapes[at]
        if node.uop == "MUL" and value == 0 and len(node.refs) == 2:
            if self._to.types[at].dtype.is_float and all(self._depends(ref, axis) for ref in node.refs):
                return self._again(at, [self._ended(ref, axis, value) for ref in node.refs])
        elif node.uop == "EXPAND" or (node.uop == "CAST" and value == 0 and node.refs):
            (ref,) = node.refs
            if self._depends(at, axis):
                return self._again(at, [self._ended(ref, axis, value)])
        elif node.uop == "PERMUTE":
            return self._again(at, [self._ended(node.refs[0], node.arg["perm"][axis], value)])
        inside = self._to.within(self._to.shape(at), axis, SizeExpr(0), shape[axis])
        masked = self._ended_by(inside, at, axis, value)
        self._shapes[masked] = shape
        return masked

    def _ended_by(self, inside: Ref, at: Ref, axis: int, value: Value) -> Ref:
        """The value where `inside` is true, else `value`, which is that of the padded positions of an axis."""
        padding = self._padding[at]
        masked = self._to.add("WHERE", inside, at, Imm(value))
        kept = (known if known == Known(value) else None for known in padding)
        self._padding[masked] = tuple(Known(value) if k == axis else known for k, known in enumerate(kept))
        return masked

    def _again(self, at: Ref, operands: Sequence[Ref]) -> Ref:
        """The uop of other operands."""
        node = self._to.nodes[at]
        ref = self._follow(self._to.add(node.uop, *operands, **node.arg))
        self._shapes[ref] = self._shapes[at]
        return ref

    def _depends(self, at: Ref, axis: int) -> bool:
        """Whether a value is not the same all along an axis by an EXPAND."""
        node = self._to.nodes[at]
        while node.uop in ("EXPAND", "PERMUTE"):
            (ref,) = node.refs
            if node.uop == "PERMUTE":
                axis = node.arg["perm"][axis]
            elif self._to.shape(ref)[axis] != self._to.shape(at)[axis]:
                return False
            at, node = ref, self._to.nodes[ref]
        return at in self._shapes and not self._shapes[at][axis].is_constant


def _check_positions(node: Node, size: int) -> None:
    """Raises EqsatError, UnsupportedOp, if positions of so many elements exceed the dtype of lengths."""
    if size > LENGTH.highest:
        refuse_padding(f"positions of {size} elements exceed {LENGTH}", node)
