"""Random operators of an FX graph → draws, which are functions of a seed and may be computed again.

    a = rand([8])               seeds = seeds(2)                          one call of torch's generator for all draws
    b = randn_like(x)     →     a = draw(seeds, 0, [8], "rand")
                                b = draw(seeds, 1, [4, 4], "randn")

A backward graph computes a mask again from the seeds, instead of reading the mask that the forward graph stores. Draws
have the numbers of inductor's code for CPUs with the same `torch.manual_seed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from eqsat.frontends.torch.multinomial import multinomial
from eqsat.frontends.torch.operator_table import name_of
from eqsat.frontends.torch.operators.random_numbers import DRAW, RAND, RANDINT, RANDN, draw
from eqsat.lazy.known_value import known_value
from eqsat.tensor import constant
from ir.dtype import fp32, i64
from ir.frontend import STAGE

SEEDS = "eqsat.seeds.default"

_KINDS = {
    "rand.default": RAND,
    "rand_like.default": RAND,
    "randn.default": RANDN,
    "randn_like.default": RANDN,
    "randint.default": RANDINT,
    "randint.low": RANDINT,
    "randint_like.default": RANDINT,
    "randint_like.low_dtype": RANDINT,
}
"""The kind of numbers that an operator draws."""

_REPEATABLE = frozenset(
    {DRAW, "gt.Scalar", "ge.Scalar", "lt.Scalar", "le.Scalar", "mul.Tensor", "mul.Scalar", "_to_copy.default"}
    | {"bitwise_not.default", "logical_not.default"}
)
"""The operators from draws to a mask. To compute them again costs less than to store the mask and read it."""


_OF_CHECKPOINTS = ("recompute", "ac_graph_id")
"""Keys of `meta` by which torch.utils.checkpoint asks the backward graph to compute a node again. Seeds that are drawn
again are other numbers."""


class DrawOperators(NamedTuple):
    """Overloads of torch.ops.eqsat. library: they stay registered as long as it lives."""

    library: Any
    seeds: Any
    draw: Any


@cache
def draw_operators() -> DrawOperators:
    """The operators, which are registered with torch at the first call."""
    import torch

    library = torch.library.Library("eqsat", "FRAGMENT")
    library.define("seeds(int count) -> Tensor")
    library.define(
        "draw(Tensor seeds, int place, SymInt[] size, str kind, int low, int high, ScalarType dtype) -> Tensor"
    )
    library.impl("seeds", new_seeds, "CompositeExplicitAutograd")
    library.impl("draw", _draw_in_eager, "CPU")
    library.impl("draw", lambda seeds, place, size, kind, low, high, dtype: seeds.new_empty(size, dtype=dtype), "Meta")
    return DrawOperators(library, torch.ops.eqsat.seeds.default, torch.ops.eqsat.draw.default)


def new_seeds(count: int) -> Any:
    """Seeds of torch's generator, i64[count]."""
    import torch

    limits = torch.iinfo(torch.int64)
    return torch.randint(limits.min, limits.max, (count,), dtype=torch.int64)


def _draw_in_eager(seeds: Any, place: int, size: Sequence[int], kind: str, low: int, high: int, dtype: Any) -> Any:
    """The draw for a graph that eager runs."""
    import torch

    element = i64 if kind == RANDINT else fp32
    drawn = draw(constant(seeds.numpy()), place, list(size), kind, low, high, element)
    return torch.from_numpy(known_value(drawn, "a draw", STAGE)).to(dtype)


def draw_by_seed(module: Any) -> None:
    """Puts draws in place of a GraphModule's random operators. Operators with a generator of their own stay."""
    import torch

    nodes = [node for node in module.graph.nodes if _kind_of(node) is not None]
    if not nodes:
        return
    operators = draw_operators()
    graph = module.graph
    with graph.inserting_before(nodes[0]):
        seeds = graph.call_function(operators.seeds, (len(nodes),))
    value = nodes[0].meta["val"]
    kept = {key: known for key, known in nodes[0].meta.items() if key not in _OF_CHECKPOINTS}
    seeds.meta = {**kept, "val": value.new_empty((len(nodes),), dtype=torch.int64)}
    for place, node in enumerate(nodes):
        with graph.inserting_before(node):
            bounds = _bounds_of(node)
            arguments = (seeds, place, _size_of(graph, node), _kind_of(node), *bounds, node.meta["val"].dtype)
            drawn = graph.call_function(operators.draw, arguments)
        drawn.meta = dict(node.meta)
        node.replace_all_uses_with(drawn)
        graph.erase_node(node)
    module.recompile()


def is_seeds(node: Any) -> bool:
    """Whether a node makes seeds, which is the work of torch's generator."""
    return node.op == "call_function" and name_of(node.target) == SEEDS


def take_seeds(module: Any) -> int:
    """Makes the seeds an argument, the last one, of a GraphModule. Returns their number; 0 without draws."""
    draws = [node for node in module.graph.nodes if is_seeds(node)]
    if not draws:
        return 0
    (seeds,) = draws
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    first = next(node for node in module.graph.nodes if node.op != "placeholder")
    with module.graph.inserting_before(first) if not placeholders else module.graph.inserting_after(placeholders[-1]):
        argument = module.graph.placeholder("eqsat_seeds")
    argument.meta = dict(seeds.meta)
    seeds.replace_all_uses_with(argument)
    module.graph.erase_node(seeds)
    module.recompile()
    return int(seeds.args[0])


def draw_again(forward: Any, backward: Any) -> None:
    """Lets the backward graph compute the masks that it only draws, from seeds that the forward graph returns in their
    places. Forward and backward: GraphModules of a partitioned joint graph."""
    (output,) = (node for node in forward.graph.nodes if node.op == "output")
    arguments = {node.name: node for node in backward.graph.nodes if node.op == "placeholder"}
    results = list(output.args[0])
    for place, saved in enumerate(results):
        if saved is None or saved.op != "call_function" or saved.name not in arguments or is_seeds(saved):
            continue
        steps = _steps_to(saved)
        if steps is None:
            continue
        results[place] = seeds = next(node for step in steps for node in step.all_input_nodes if is_seeds(node))
        _draw_in(backward, arguments[saved.name], seeds, steps)
    output.args = (type(output.args[0])(results), *output.args[1:])
    for module in (forward, backward):
        module.graph.eliminate_dead_code()
        module.recompile()


def _steps_to(saved: Any) -> list[Any] | None:
    """The nodes from seeds to a saved value, in order; None if the value depends on anything else."""
    steps: dict[Any, None] = {}
    waiting = [saved]
    while waiting:
        node = waiting.pop()
        if is_seeds(node):
            continue
        if node.op != "call_function" or name_of(node.target) not in _REPEATABLE:
            return None
        steps.pop(node, None)
        steps[node] = None
        waiting.extend(node.all_input_nodes)
    return list(reversed(steps)) if any(name_of(node.target) == DRAW for node in steps) else None


def _draw_in(backward: Any, argument: Any, seeds: Any, steps: Sequence[Any]) -> None:
    """Makes an argument of the backward graph the seeds, and computes the former argument in the graph."""
    users = list(argument.users)
    argument.meta = {**argument.meta, "val": seeds.meta["val"]}
    copies: dict[Any, Any] = {seeds: argument}
    first = next(node for node in backward.graph.nodes if node.op != "placeholder")
    with backward.graph.inserting_before(first):
        for step in steps:
            copies[step] = backward.graph.node_copy(step, copies.__getitem__)
    for user in users:
        user.replace_input_with(argument, copies[steps[-1]])


def _kind_of(node: Any) -> str | None:
    """The numbers that a node draws from torch's own generator; None for other nodes."""
    import torch

    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
        return None
    return _KINDS.get(name_of(node.target)) if node.meta["val"].device.type == "cpu" else None


def _bounds_of(node: Any) -> tuple[int, int]:
    """The least number of RANDINT, and the number above the greatest; 0 and 1 of others."""
    name = name_of(node.target)
    if _KINDS[name] != RANDINT:
        return 0, 1
    is_like = name.startswith("randint_like")
    numbers = node.args[1:] if is_like else node.args[: 1 + (name == "randint.low")]
    return (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def _size_of(graph: Any, node: Any) -> list[Any]:
    """The sizes of a node's result: numbers, and nodes for sizes that are symbols."""
    import torch

    name = name_of(node.target)
    if "_like" not in name:
        return list(node.args[{"randint.default": 1, "randint.low": 2}.get(name, 0)])
    like = node.args[0]
    sizes: list[Any] = []
    for axis, size in enumerate(node.meta["val"].shape):
        if isinstance(size, int):
            sizes.append(size)
            continue
        sizes.append(graph.call_function(torch.ops.aten.sym_size.int, (like, axis)))
        sizes[-1].meta["val"] = size
    return sizes


def random_decompositions() -> Mapping[Any, Any]:
    """Decompositions of random operators into those that become draws."""
    import torch
    from torch._decomp import get_decompositions

    ops = torch.ops.aten

    def uniform(x: Any, low: float = 0.0, high: float = 1.0, generator: Any = None) -> Any:
        return NotImplemented if generator is not None else torch.rand_like(x) * (high - low) + low

    def normal(x: Any, mean: Any = 0.0, std: Any = 1.0, generator: Any = None) -> Any:
        return NotImplemented if generator is not None else torch.randn_like(x) * std + mean

    def normal_around(mean: Any, std: Any, *, generator: Any = None) -> Any:
        like = mean if isinstance(mean, torch.Tensor) else std
        shape = torch.broadcast_shapes(*(x.shape for x in (mean, std) if isinstance(x, torch.Tensor)))
        return normal(like.new_empty(shape), mean, std, generator)

    def bernoulli(x: Any, p: float = 0.5, *, generator: Any = None) -> Any:
        return NotImplemented if generator is not None else (torch.rand_like(x, dtype=torch.float32) < p).to(x.dtype)

    known = [ops.native_dropout, ops.bernoulli.default, ops.exponential, ops.log_normal, ops.cauchy, ops.geometric]
    return {
        **get_decompositions(known),
        ops.bernoulli.p: bernoulli,
        ops.uniform.default: uniform,
        ops.normal_functional.default: normal,
        ops.normal.Tensor_float: normal_around,
        ops.normal.float_Tensor: normal_around,
        ops.normal.Tensor_Tensor: normal_around,
        ops.multinomial.default: multinomial,
    }
