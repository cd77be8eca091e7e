"""Steps of recurrent networks and of loops: one step is written out, more are a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqsat import tensor
from eqsat.tensor import Tensor

State = tuple[Tensor, ...]
Step = Callable[[State, State], tuple[State, State]]
"""From the states and an element of each sequence to the next states and the outputs."""

MOST_UNROLLED = 1
"""Steps that are no loop. For an LSTM of 128 units, a loop of 2 steps is already as fast as 2 steps written out, and
one of 8 steps takes half the time, because the products with the input are one product for all steps."""


def run_steps(step: Step, initial: State, sequences: State, reverse: bool = False) -> tuple[State, State]:
    """The last states, and the outputs stacked along a new axis 0. The sequences, at least one, run along axis 0;
    `reverse`: from the last step to the first."""
    steps = sequences[0].shape[0]
    if not 0 < steps <= MOST_UNROLLED:
        results: Any = tensor.scan(step, initial, sequences, reverse=reverse)
        return tuple(results[0]), tuple(results[1])
    states, outputs = initial, []
    for place in reversed(range(steps)) if reverse else range(steps):
        states, results = step(states, tuple(sequence[place] for sequence in sequences))
        outputs.append(results)
    in_order = outputs[::-1] if reverse else outputs
    return states, tuple(tensor.stack(items) for items in zip(*in_order, strict=True))
