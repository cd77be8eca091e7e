"""Graphs in attributes: branches, loops and scans whose trips are known when the program is built."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat import tensor
from eqsat.frontends.lower_node import Values, lower_nodes, read_value
from eqsat.frontends.onnx.operands import known_number, malformed, refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.stepping import MOST_UNROLLED, State, run_steps
from eqsat.frontends.onnx.subgraph import Subgraph
from eqsat.lazy.argument_checks import axis_in
from eqsat.lazy.known_value import is_known
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError

_MOST_TRIPS = 256
"""Trips of a loop that is unrolled because its trips differ."""


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
    """The number of trips, and the condition before each trip, must be known when the program is built.

    A loop is unrolled if its condition, or the shape of a state, depends on the trip, or if its body needs the number
    of the trip when the program is built.
    """
    run = _LoopRun(body, operands, condition, results)
    most = None if trips is None else int(known_number(trips, "the number of trips"))
    if most is not None and most > MOST_UNROLLED and run.starts:
        try:
            return run.as_loop(most)
        except EqsatError:
            if most > _MOST_TRIPS:
                raise
    return run.unrolled(most)


class _LoopRun:
    """A Loop with its operands. starts: the condition before the first trip."""

    def __init__(self, body: Subgraph, operands: Sequence[Tensor], condition: Tensor | None, results: int) -> None:
        initial, captures = body.split(operands)
        self.body, self.condition = body, condition
        self.initial: tuple[Tensor, ...] = tuple(initial)
        self.captures: Sequence[Tensor] = captures
        self.stacked = results - len(self.initial)
        self.starts = condition is None or bool(known_number(condition, "the condition of the loop"))

    def trip(self, number: Tensor, states: State) -> tuple[Tensor | None, State, State]:
        """One trip: the condition of the next one (None: there is no condition), the states, and what is stacked."""
        given = tensor.constant(True)
        results = run_subgraph(self.body, [number, given, *states], self.captures)
        condition = None if self.condition is None else results[0]
        return condition, tuple(results[1 : 1 + len(states)]), tuple(results[1 + len(states) :])

    def as_loop(self, trips: int) -> State:
        """The results of so many trips. Raises EqsatError, UnsupportedOp, unless the condition is always true."""

        def step(states: State, number: State) -> tuple[State, State]:
            condition, after, outputs = self.trip(number[0], states)
            if condition is not None and not known_number(condition, "the condition of the loop"):
                refuse("a loop whose condition becomes false")
            return after, outputs

        states, outputs = run_steps(step, self.initial, (tensor.arange(trips),))
        return (*states, *outputs)

    def unrolled(self, trips: int | None) -> State:
        """The results of so many trips, or of as many as the condition allows (None)."""
        states, continues, trip = self.initial, self.starts, 0
        stacked: list[State] = []
        while continues and (trips is None or trip < trips):
            if trip == _MOST_TRIPS:
                refuse(f"a loop of more than {_MOST_TRIPS} trips that is not the same in every trip")
            condition, states, outputs = self.trip(tensor.constant(trip, "i64"), states)
            continues = condition is None or bool(known_number(condition, "the condition of the loop"))
            stacked.append(outputs)
            trip += 1
        if self.stacked and not stacked:
            refuse("a loop of no trips with scanned results")
        return (*states, *(tensor.stack(items, 0) for items in zip(*stacked, strict=True)))


@operator("Scan", since=8)
def _scan_of_batch(
    lengths: Tensor | None = None,
    *operands: Tensor,
    body: Subgraph,
    num_scan_inputs: int,
    directions: tuple[int, ...] = (),
) -> tuple[Tensor, ...]:
    """A scan for each element of a batch, which is axis 0 of all operands and results."""
    if lengths is not None:
        refuse("a Scan over sequences of several lengths")
    own, captures = body.split(operands)
    results = [
        _scan(
            *(x[place] for x in own),
            *captures,
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for place in range(operands[0].shape[0])
    ]
    return tuple(tensor.stack(items) for items in zip(*results, strict=True))


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
    """The scan runs backwards if all scanned inputs do; inputs and outputs of the other direction are reversed."""
    own, captures = body.split(operands)
    count = len(own) - num_scan_inputs
    initial: State = tuple(own[:count])
    sources: State = tuple(own[count:])
    axes = [axis_in(axis, x.shape) for axis, x in zip(scan_input_axes or (0,) * len(sources), sources, strict=True)]
    backwards = scan_input_directions or (0,) * len(sources)
    lengths = {x.shape[axis] for axis, x in zip(axes, sources, strict=True)}
    if len(lengths) != 1:
        malformed(f"the scanned inputs have different lengths: {sorted(lengths)}")
    reverse = all(backwards)
    sequences = tuple(
        _turned(_moved(x, axis, 0), bool(back) != reverse)
        for x, axis, back in zip(sources, axes, backwards, strict=True)
    )

    def step(states: State, elements: State) -> tuple[State, State]:
        results = run_subgraph(body, [*states, *elements], captures)
        return tuple(results[:count]), tuple(results[count:])

    states, outputs = run_steps(step, initial, sequences, reverse)
    stacked = []
    for place, output in enumerate(outputs):
        back = bool(scan_output_directions[place]) if scan_output_directions else False
        axis = axis_in(scan_output_axes[place], output.shape) if scan_output_axes else 0
        stacked.append(_moved(_turned(output, back != reverse), 0, axis))
    return (*states, *stacked)


def _turned(x: Tensor, turn: bool) -> Tensor:
    """x, reversed along axis 0 if `turn`."""
    return x.flip(0) if turn else x


def _moved(x: Tensor, source: int, target: int) -> Tensor:
    """x with the axis `source` at the position `target`."""
    others = [axis for axis in range(x.ndim) if axis != source]
    return x.permute(*others[:target], source, *others[target:])
