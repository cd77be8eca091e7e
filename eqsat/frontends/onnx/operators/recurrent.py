"""RNN, GRU and LSTM: a cell per operator, run over the steps of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

from eqsat import tensor
from eqsat.frontends.onnx.operands import malformed
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.named_activations import activations_by_name
from eqsat.frontends.onnx.stepping import State, run_steps
from eqsat.tensor import Tensor

Direction = Literal["forward", "reverse", "bidirectional"]
Step = Callable[[Tensor, State], State]


class Attributes(msgspec.Struct, frozen=True):
    """The attributes of recurrent networks."""

    activation_alpha: list[float] | None = None
    activation_beta: list[float] | None = None
    activations: list[str] | None = None
    clip: float | None = None
    direction: Direction = "forward"
    hidden_size: int | None = None
    input_forget: int = 0
    layout: int = 0
    linear_before_reset: int = 0
    output_sequence: int = 0


class Weights(NamedTuple):
    """The weights of one direction. w [gates·hidden, input], r [gates·hidden, hidden]; b, per gate, for w and for r."""

    w: Tensor
    r: Tensor
    b: Tensor | None


def run(
    x: Tensor,
    weights: tuple[Tensor, Tensor, Tensor | None],
    initial: Sequence[Tensor | None],
    lengths: Tensor | None,
    attributes: Attributes,
    cell: Callable[[Weights, int], Step],
) -> tuple[Tensor, ...]:
    """All hidden states [steps, directions, batch, hidden], and the last states [directions, batch, hidden].

    initial: the states before the first step; None is zeros. lengths: the steps of each batch; a longer sequence keeps
    its state and writes zeros. With the attribute `layout`, the batch comes first.
    """
    sequence = x.swapaxes(0, 1) if attributes.layout else x
    batch = sequence.shape[1]
    hidden = weights[1].shape[-1]
    outputs, ends = [], []
    for place in range(weights[0].shape[0]):
        backwards = attributes.direction == "reverse" or place == 1
        own = Weights(*[None if weight is None else weight[place] for weight in weights])  # type: ignore[arg-type]
        states = tuple(
            tensor.full((batch, hidden), 0.0, x.dtype)
            if state is None
            else (state[:, place] if attributes.layout else state[place])
            for state in initial
        )
        results, last = _run_direction(sequence, states, lengths, backwards, cell(own, place))
        outputs.append(results)
        ends.append(last)
    y = tensor.stack(outputs, 1)
    finals = [tensor.stack([end[k] for end in ends]) for k in range(len(initial))]
    if attributes.layout:
        return y.permute(2, 0, 1, 3), *[final.swapaxes(0, 1) for final in finals]
    return y, *finals


def _run_direction(
    x: Tensor, states: State, lengths: Tensor | None, backwards: bool, step: Step
) -> tuple[Tensor, State]:
    def recurrent_step(states: State, elements: State) -> tuple[State, State]:
        new = step(elements[0], states)
        if lengths is None:
            return new, new[:1]
        runs: Tensor = (lengths.cast("i64") > elements[1]).unsqueeze(-1)
        kept = tuple(tensor.where(runs, after, before) for after, before in zip(new, states, strict=True))
        return kept, (tensor.where(runs, new[0], 0),)

    places = () if lengths is None else (tensor.arange(x.shape[0]),)
    last, (results,) = run_steps(recurrent_step, states, (x, *places), backwards)
    return results, last


def gates(x: Tensor, h: Tensor, weights: Weights) -> Tensor:
    """x·wᵀ + both biases + h·rᵀ. The sum before h·rᵀ can be made for all steps at once."""
    entering = x @ weights.w.T
    if weights.b is not None:
        half = weights.b.shape[0] // 2
        entering = entering + (weights.b[:half] + weights.b[half:])
    return entering + h @ weights.r.T


def parts(x: Tensor, count: int) -> list[Tensor]:
    """x cut into equal parts along its last axis."""
    width = x.shape[-1] // count
    return [x[..., place * width : (place + 1) * width] for place in range(count)]


def activations_of(attributes: Attributes, usual: Sequence[str], place: int) -> list[Callable[[Tensor], Tensor]]:
    """The activations of one direction; their arguments are clipped to [-clip, clip]."""
    clip = attributes.clip
    given = attributes.activations or ()
    if len(given) % len(usual):
        malformed(f"{len(given)} activations", f"{len(usual)} of them for each direction")
    names = [*given, *usual, *usual]
    bound = activations_by_name(names, attributes.activation_alpha, attributes.activation_beta)
    functions = bound[place * len(usual) :][: len(usual)]
    if clip is None:
        return functions
    return [lambda x, f=f: f(x.maximum(-clip).minimum(clip)) for f in functions]  # type: ignore[misc]


@operator("RNN")
def _rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    attributes: Attributes,
) -> tuple[Tensor, ...]:
    def cell(weights: Weights, place: int) -> Step:
        (f,) = activations_of(attributes, ["Tanh"], place)
        return lambda element, states: (f(gates(element, states[0], weights)),)

    return run(x, (w, r, b), [h], lengths, attributes, cell)


@operator("GRU")
def _gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    attributes: Attributes,
) -> tuple[Tensor, ...]:
    """Gates z, r, h. `linear_before_reset` multiplies h·rᵀ + its bias by the reset gate, else h itself."""

    def cell(weights: Weights, place: int) -> Step:
        f, g = activations_of(attributes, ["Sigmoid", "Tanh"], place)
        size = weights.r.shape[-1]
        both = Weights(weights.w[: 2 * size], weights.r[: 2 * size], None)
        own = Weights(weights.w[2 * size :], weights.r[2 * size :], None)
        biases = None if weights.b is None else parts(weights.b, 6)

        def step(element: Tensor, states: State) -> State:
            (state,) = states
            update, reset = parts(gates(element, state, both), 2)
            if biases is not None:
                update, reset = update + (biases[0] + biases[3]), reset + (biases[1] + biases[4])
            update, reset = f(update), f(reset)
            entering = element @ own.w.T if biases is None else element @ own.w.T + biases[2]
            staying = (state if attributes.linear_before_reset else reset * state) @ own.r.T
            staying = staying if biases is None else staying + biases[5]
            new = g(entering + (reset * staying if attributes.linear_before_reset else staying))
            return ((1 - update) * new + update * state,)

        return step

    return run(x, (w, r, b), [h], lengths, attributes, cell)


@operator("LSTM")
def _lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    attributes: Attributes,
) -> tuple[Tensor, ...]:
    return run(x, (w, r, b), [h, c], lengths, attributes, lstm_cell(attributes, p))


def lstm_cell(
    attributes: Attributes, p: Tensor | None, seen: Callable[[Tensor], Tensor] = lambda hidden: hidden
) -> Callable[[Weights, int], Step]:
    """The cell of an LSTM. Gates i, o, f, c; `p` are the peepholes of i, o, f. `input_forget` makes f = 1 - i. seen:
    the hidden state as its product with the weights sees it."""

    def cell(weights: Weights, place: int) -> Step:
        f, g, last = activations_of(attributes, ["Sigmoid", "Tanh", "Tanh"], place)
        peepholes = None if p is None else parts(p[place], 3)

        def step(element: Tensor, states: State) -> State:
            hidden, memory = states
            enter, leave, forget, new = parts(gates(element, seen(hidden), weights), 4)
            if peepholes is not None:
                enter, forget = enter + peepholes[0] * memory, forget + peepholes[2] * memory
            enter = f(enter)
            kept = (1 - enter if attributes.input_forget else f(forget)) * memory + enter * g(new)
            leave = f(leave if peepholes is None else leave + peepholes[1] * kept)
            return leave * last(kept), kept

        return step

    return cell
