"""An FX graph of ATen operators, whose sizes may be symbols, as a graph that eqsat lowers at each set of sizes.

x: [s0, 4], n: s1  →  inputs {"x": fp32[x_0, 4]}, where x_0 is free; n is a number of the graph
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from eqsat.frontends.complex_tensor import ComplexTensor, as_floats, from_interleaved
from eqsat.frontends.torch.complex_memory import in_floats
from eqsat.frontends.torch.element_types import part_type
from eqsat.frontends.torch.graph_results import outputs_of
from eqsat.frontends.torch.lower_graph import lower_graph
from eqsat.frontends.torch.memory_order import given_order, kept_order
from eqsat.frontends.torch.result_views import views_among
from eqsat.frontends.torch.size_names import names_of
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor, constant, input
from ir.frontend import STAGE, TensorInfo
from ir.tiny.dims import require_sizes

Constants = Mapping[str, np.ndarray]
Number = Any
"""An int, a float or a bool."""


class SizePlace(NamedTuple):
    """Where a call finds the value of a symbol: the argument at this place, or the size of its axis."""

    argument: int
    axis: int | None

    def read(self, arguments: Sequence[Any]) -> Number:
        value = arguments[self.argument]
        return value if self.axis is None else value.shape[self.axis]


class GraphArguments:
    """The arguments of a GraphModule: which are tensors, and the symbols in their sizes.

    nodes, names: of all arguments, in order. tensors: places of the tensors that the graph reads. sizes: the name of
    each symbol that a call reads from a shape. aliases: that name by all names of the symbol. numbers: places of other
    symbols that the graph reads, and of arguments that are numbers, by name. views: the results that no program
    computes, since they are views, and the nodes that they view. orders: by place, the axes of a tensor from the
    outermost in memory to the innermost, if that is another order than theirs: a program takes the tensor with its axes
    in this order. complexes: places of complex tensors: a program takes them as floats with a last axis of two parts.
    """

    def __init__(self, module: Any) -> None:
        import torch

        self.nodes = nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._values = [node.meta.get("val") for node in nodes]
        self.names = [node.name for node in nodes]
        is_tensor = [isinstance(value, torch.Tensor) for value in self._values]
        self.tensors = [place for place, node in enumerate(nodes) if is_tensor[place] and node.users]
        orders = {place: given_order(nodes[place]) for place in self.tensors}
        self.orders = {place: order for place, order in orders.items() if order is not None}
        self.complexes = frozenset(place for place in self.tensors if self._values[place].is_complex())
        self.sizes: dict[Any, str] = {}
        self.aliases: dict[str, str] = {}
        for place in self.tensors:
            for size in self._values[place].shape:
                if is_symbol(size) and size.node.expr not in self.sizes:
                    names = names_of(size) or [str(size)]
                    self.sizes[size.node.expr] = names[0]
                    self.aliases |= dict.fromkeys(names, names[0])
        self.numbers: dict[str, SizePlace] = {}
        for place, (name, value) in enumerate(zip(self.names, self._values, strict=True)):
            if nodes[place].users and not is_tensor[place] and not self._follows(value):
                self.numbers[name] = SizePlace(place, None)
        self.views = views_among(outputs_of(module), self.places)

    def _follows(self, value: Any) -> bool:
        """Whether a number is an expression of sizes."""
        return hasattr(value, "node") and value.node.expr.free_symbols <= self.sizes.keys()

    @cached_property
    def inputs(self) -> dict[str, TensorInfo]:
        """dtype and sizes of each tensor that the graph reads, by name, with its axes as they lie in memory. The name
        of a size that is computed from symbols is `argument[axis]`."""
        return {
            self.names[place]: TensorInfo(
                part_type(self._values[place].dtype).name,
                (*self._sizes(place), *((2,) if place in self.complexes else ())),
            )
            for place in self.tensors
        }

    def _axes(self, place: int) -> Sequence[int]:
        """The axes of a tensor from the outermost in memory to the innermost."""
        return self.orders.get(place) or range(self._values[place].ndim)

    def in_memory(self, place: int, tensor: Any) -> Any:
        """The argument at a place as a program takes the argument: with its axes as they lie in memory, and with the
        parts of complex numbers along the last axis."""
        order = self.orders.get(place)
        ordered = tensor if order is None else tensor.permute(order)
        return in_floats(ordered) if place in self.complexes else ordered

    def _sizes(self, place: int) -> list[int | str]:
        """The sizes of a tensor, from the outermost axis in memory to the innermost."""
        return [self._size(place, axis) for axis in self._axes(place)]

    def _size(self, place: int, axis: int) -> int | str:
        size = self._values[place].shape[axis]
        if isinstance(size, int):
            return size
        return self.sizes.get(size.node.expr, f"{self.names[place]}[{axis}]")

    @cached_property
    def computed(self) -> dict[str, Any]:
        """The sizes that follow from other sizes, by name."""
        return {
            name: self._values[place].shape[axis]
            for place in self.tensors
            for axis, name in zip(self._axes(place), self._sizes(place), strict=True)
            if isinstance(name, str)
            and self._values[place].shape[axis].node.expr not in self.sizes
            and self._follows(self._values[place].shape[axis])
        }

    @cached_property
    def places(self) -> dict[Any, SizePlace]:
        """Where a call finds each symbol."""
        places: dict[Any, SizePlace] = {}
        for place, value in enumerate(self._values):
            if is_symbol(value):
                places.setdefault(value.node.expr, SizePlace(place, None))
            elif hasattr(value, "shape"):
                for axis, size in enumerate(value.shape):
                    if is_symbol(size):
                        places.setdefault(size.node.expr, SizePlace(place, axis))
        return places

    @cached_property
    def sized(self) -> list[SizePlace]:
        """The sizes and numbers on which the code for a call depends."""
        open_sizes = [
            SizePlace(place, axis)
            for place in self.tensors
            for axis, size in zip(self._axes(place), self._sizes(place), strict=True)
            if isinstance(size, str)
        ]
        return [*self.numbers.values(), *open_sizes]

    def range_of(self, name: str) -> tuple[int, int | None]:
        """The least and the greatest size for which torch traced the graph; None for no greatest."""
        for value in self._values:
            for size in getattr(value, "shape", (value,)):
                if is_symbol(size) and self.sizes.get(size.node.expr) == name:
                    bounds = size.node.shape_env.var_to_range[size.node.expr]
                    greatest = str(bounds.upper)
                    return max(int(bounds.lower), 0), int(greatest) if greatest.isdigit() else None
        return 0, None

    def values(self, dims: Mapping[str, int], numbers: Mapping[str, Number], constants: Constants) -> list[Any]:
        """A lazy tensor or a number for each argument, at these sizes. Arguments that nothing reads are None."""
        return [
            self._from_memory(place, constant(constants[name], name=name))
            if name in constants
            else self._value(place, dims, numbers)
            for place, name in enumerate(self.names)
        ]

    def _value(self, place: int, dims: Mapping[str, int], numbers: Mapping[str, Number]) -> Any:
        name, value = self.names[place], self._values[place]
        if name in numbers:
            return numbers[name]
        if name not in self.inputs and not self._follows(value):
            return None
        if name not in self.inputs:
            return number_of(value, {symbol: dims[size] for symbol, size in self.sizes.items()})
        info = self.inputs[name]
        sizes = [dims[size] if isinstance(size, str) else size for size in info.shape]
        return self._from_memory(place, input(name, sizes, info.dtype))

    def _from_memory(self, place: int, tensor: Tensor) -> Tensor | ComplexTensor:
        """The argument at a place, of the tensor that a program takes."""
        order = self.orders.get(place)
        value = from_interleaved(tensor) if place in self.complexes else tensor
        return value if order is None else value.permute(*sorted(range(len(order)), key=order.__getitem__))


class SizedGraph:
    """A GraphModule, as a graph that eqsat lowers at each set of sizes.

    Args:
        numbers: the values of `arguments.numbers`.
        constants: arrays in place of arguments, by name.
    """

    results: tuple[str, ...] = ()

    def __init__(
        self, module: Any, arguments: GraphArguments, numbers: Mapping[str, Number], constants: Constants
    ) -> None:
        self._module, self._arguments, self._numbers, self.constants = module, arguments, numbers, constants
        self._returned = outputs_of(module)

    def __str__(self) -> str:
        """The graph's arguments, and its code in Python."""
        return f"{self.inputs}\n{self._module.code}"

    @property
    def inputs(self) -> Mapping[str, TensorInfo]:
        """dtype and sizes (or symbols) of each argument by name."""
        return self._arguments.inputs

    @property
    def dependent(self) -> Collection[str]:
        """The sizes that follow from other sizes."""
        return self._arguments.computed

    def lower(self, dims: Mapping[str, int], constants: Constants) -> tuple[dict[str, Any], Constants]:
        """The Tiny graph at these sizes, and its constants by tensor_id. The results are in the graph's order, so that
        the uops of one layer stand together: a backward graph returns gradients in the order of the parameters.

        Raises:
            EqsatError: UnboundDim for a size without a value, and the errors of `lower_graph`.
        """
        given = self._arguments
        open_sizes = [size for info in given.inputs.values() for size in info.shape if isinstance(size, str)]
        needed = [size for size in dict.fromkeys(open_sizes) if size not in given.computed]
        require_sizes([size for size in needed if size not in dims], STAGE)
        symbols = {symbol: dims[name] for symbol, name in given.sizes.items()}
        sizes = {**dims, **{name: number_of(size, symbols) for name, size in given.computed.items()}}
        values = given.values(sizes, self._numbers, constants)
        results = dict(zip(self._returned, lower_graph(self._module, values), strict=True))
        outputs = {
            output_name(node): _in_memory(results[node], node) for node in outputs_in_order(self._module, given.views)
        }
        inputs = [_input_of(value) for value in values if isinstance(value, Tensor | ComplexTensor)]
        return tensor_to_tiny(outputs, [tensor for tensor in inputs if tensor.array is None])


def output_name(node: Any) -> str:
    """The name of the result that a node is."""
    return f"out_{node.name}"


def _input_of(value: Tensor | ComplexTensor) -> Tensor:
    """The program's INPUT, whose axes and parts the value moves."""
    tensor = value.real if isinstance(value, ComplexTensor) else value
    while tensor.uop != "INPUT":
        tensor = cast(Tensor, tensor.src[0])
    return tensor


def _in_memory(result: Tensor | ComplexTensor, node: Any) -> Tensor:
    """A result with its axes in the order in which they lie in memory, and the parts of complex numbers side by
    side."""
    order = kept_order(node)
    return as_floats(result if order is None else result.permute(*order))  # type: ignore[no-any-return]


def outputs_in_order(module: Any, views: Collection[Any]) -> list[Any]:
    """The nodes that a program of a GraphModule computes, once each, in the order of the graph: tensors among the
    results that are no arguments and none of these views."""
    import torch

    place = {node: place for place, node in enumerate(module.graph.nodes)}
    wanted = {
        node
        for node in outputs_of(module)
        if hasattr(node, "meta") and node.op != "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
        if node not in views
    }
    return sorted(wanted, key=place.__getitem__)


def is_symbol(value: Any) -> bool:
    """Whether a size is one symbol."""
    return hasattr(value, "node") and value.node.expr.is_Symbol


def number_of(value: Any, symbols: Mapping[Any, Number]) -> Number:
    """The value of a SymInt, SymFloat or SymBool, from the values of its symbols."""
    return value.node.pytype(value.node.expr.xreplace(dict(symbols)))
