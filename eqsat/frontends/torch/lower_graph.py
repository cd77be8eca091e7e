"""An FX graph of ATen operators and its arguments → its results, as lazy tensors.

Sizes are Python numbers here: a graph whose sizes are symbols is lowered again for other sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.frontends.complex_tensor import ComplexTensor, from_interleaved
from eqsat.frontends.torch.complex_memory import in_floats
from eqsat.frontends.torch.graph_results import outputs_of
from eqsat.frontends.torch.lower_node import Value, lower_node
from eqsat.frontends.torch.module_path import tag_of
from eqsat.lazy.known_value import known_value
from eqsat.tensor import Tensor, constant, tagged
from ir.frontend import STAGE
from ir.post_order import post_order
from ir.uop.table import UOPS, UOpKind


def lower_graph(module: Any, arguments: Sequence[Value]) -> list[Value]:
    """The results of a torch.fx.GraphModule for these arguments, one per placeholder: lazy tensors, numbers for sizes,
    and None.

    Raises:
        EqsatError: UnsupportedOp for an operator without a lowering (`eqsat.frontends.torch.survey` finds all at once);
            errors of the uops' type rules, which name the node.
    """
    values: dict[Any, Value] = {}
    known: set[Any] = set()
    given = iter(arguments)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "get_attr":
            values[node] = _attribute(module, str(node.target))
            known.add(node)
        elif node.op == "call_function":
            with tagged(tag_of(node)):
                values[node] = lower_node(node, values)
            if known.issuperset(node.all_input_nodes):
                known.add(node)
                values[node] = _fold(values[node])
    return [values.get(result) for result in outputs_of(module)]


def _attribute(module: Any, path: str) -> Value:
    """A tensor that the module holds, as a constant. One without axes has no name, so that it is a number to rules."""
    owner = module
    for name in path.split("."):
        owner = getattr(owner, name)
    parts = constant(in_floats(owner.detach()), name=path if owner.ndim else None)
    return from_interleaved(parts) if owner.is_complex() else parts


def _fold(value: Value) -> Value:
    """A value that depends on no argument: computed here if it takes more than movements and elementwise uops, such as
    the mask of a causal model that looks positions up. Other values stay as they are: a kernel computes them from
    indices faster than it reads them."""
    if isinstance(value, tuple | list):
        return tuple(map(_fold, value))
    if isinstance(value, ComplexTensor):
        return value.map(_fold)
    if not isinstance(value, Tensor):
        return value
    tensors = post_order(
        [value], lambda source_tensor: [source for source in source_tensor.src if isinstance(source, Tensor)]
    )
    if all(UOPS[tensor.uop].kind in _CHEAP or UOPS[tensor.uop].kind.is_elementwise for tensor in tensors):
        return value
    return constant(known_value(value, "a value of constants", STAGE))


_CHEAP = (UOpKind.INPUT, UOpKind.INDEX, UOpKind.MOVEMENT)
