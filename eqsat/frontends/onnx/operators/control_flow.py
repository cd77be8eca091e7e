"""Graphs in attributes: branches, loops and scans whose trips are known when the program is built."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat import tensor
from eqsat.frontends.lower_node import Values, lower_nodes, read_value
from eqsat.frontends.onnx.operands import known_number, malformed, refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.subgraph import Subgraph
from eqsat.lazy.argument_checks import axis_in
from eqsat.lazy.known_value import is_known
from eqsat.tensor import Tensor

_MOST_TRIPS = 256
"""Trips of a loop or a scan that are unrolled."""


def run_subgraph(body: Subgraph, operands: Sequence[Tensor | None], captures: Sequence[Tensor | None]) -> list[Tensor]:
    """The results of a graph on these arguments."""
    values: Values = {"": None, **dict(zip(body.captures, captures, strict=True))}
    values |= dict(zip(body.inputs, operands, strict=True))
    lower_nodes(body.nodes, values)
    results = [read_value(values, name, name) for name in body.outputs]
    return [result for result in results if result is not None]


@operator("If")
def _if(condition: Tensor, *captures: Tensor, then_branch: Subgraph, else_branch: Subgraph) -> tuple[Tensor, ...]:
    """The branch of a known condition; else both, and a choice between results of one shape."""
    if is_known(condition):
        chosen = then_branch if known_number(condition, "the condition") else else_branch
        return tuple(run_subgraph(chosen, (), captures))
    both = [run_subgraph(branch, (), captures) for branch in (then_branch, else_branch)]
    for one, other in zip(*both, strict=True):
        if one.shape != other.shape:
            refuse(f"an If whose branches make shapes {list(one.shape)} and {list(other.shape)}")
    return tuple(tensor.where(condition.reshape(()), one, other) for one, other in zip(*both, strict=True))


@operator("Loop")
def _loop(
    trips: Tensor | None = None, condition: Tensor | None = None, *operands: Tensor, body: Subgraph, results: int
) -> tuple[Tensor, ...]:
    """Unrolled: the number of trips, and the condition before each trip, must be known."""
    initial, captures = body.split(operands)
    carried: list[Tensor] = list(initial)  # type: ignore[arg-type]
    scanned: list[list[Tensor]] = [[] for _ in range(results - len(carried))]
    most = _MOST_TRIPS + 1 if trips is None else int(known_number(trips, "the number of trips"))
    trip = 0
    while trip < most and (condition is None or known_number(condition, "the condition of the loop")):
        if trip == _MOST_TRIPS:
            refuse(f"a loop of more than {_MOST_TRIPS} trips")
        current = condition if condition is not None else tensor.constant(True)
        found = run_subgraph(body, [tensor.constant(trip, "i64"), current, *carried], captures)  # type: ignore[arg-type]
        condition, carried = (found[0] if condition is not None else None), found[1 : 1 + len(carried)]
        for place, element in enumerate(found[1 + len(carried) :]):
            scanned[place].append(element)
        trip += 1
    if scanned and not trip:
        refuse("a loop of no trips with scanned results")
    return (*carried, *(tensor.stack(elements, 0) for elements in scanned))


@operator("Scan", since=9)
def _scan(
    *operands: Tensor,
    body: Subgraph,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] = (),
    scan_input_directions: tuple[int, ...] = (),
    scan_output_axes: tuple[int, ...] = (),
    scan_output_directions: tuple[int, ...] = (),
) -> tuple[Tensor, ...]:
    """Unrolled over the elements of the scanned inputs."""
    own, captures = body.split(operands)
    count = len(own) - num_scan_inputs
    carried: list[Tensor] = list(own[:count])  # type: ignore[arg-type]
    sources: list[Tensor] = list(own[count:])  # type: ignore[arg-type]
    axes = [axis_in(axis, x.shape) for axis, x in zip(scan_input_axes or (0,) * len(sources), sources, strict=True)]
    backwards = scan_input_directions or (0,) * len(sources)
    lengths = {x.shape[axis] for axis, x in zip(axes, sources, strict=True)}
    if len(lengths) != 1:
        malformed(f"the scanned inputs have different lengths: {sorted(lengths)}")
    (length,) = lengths
    if not 0 < length <= _MOST_TRIPS:
        refuse(f"a scan of {length} trips; 1 to {_MOST_TRIPS} are unrolled, others")
    scanned: list[list[Tensor]] = [[] for _ in body.outputs[count:]]
    for trip in range(length):
        elements = [
            x[(*(slice(None),) * axis, length - 1 - trip if back else trip)]
            for x, axis, back in zip(sources, axes, backwards, strict=True)
        ]
        found = run_subgraph(body, [*carried, *elements], captures)  # type: ignore[arg-type]
        carried = found[:count]
        for place, element in enumerate(found[count:]):
            scanned[place].append(element)
    stacked = []
    for place, elements in enumerate(scanned):
        back = scan_output_directions[place] if scan_output_directions else 0
        axis = scan_output_axes[place] if scan_output_axes else 0
        stacked.append(tensor.stack(elements[::-1] if back else elements, axis))
    return (*carried, *stacked)
