"""A call on arrays of the host: arguments → arrays as kernels take them → results of the caller's library.

A result that updates an argument (`updates=`) is that argument, with new elements, after the call. Where kernels write
the result over the argument, nothing is copied; else the result is copied there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from eqsat.runtime.arrays import STAGE, adopt, as_numpy, copy_into, family_of, give_back, is_tensor, writable
from eqsat.runtime.bound_call import BoundCall, require_same_memory, runner
from eqsat.runtime.compiled import Compiled
from eqsat.runtime.out_arrays import targets_of
from eqsat.serving.padded_calls import Answer
from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.grammar import with_article

Updates = Mapping[str, str]
"""Result → the argument that it updates."""


def call_on_host(compiled: Compiled, updates: Updates, given: Mapping[str, Any], out: Any, threads: int) -> Any:
    """The results of the code for the call's own sizes. out: as in `Program.__call__`."""
    inputs = adopt_all(compiled, given)
    results = _CallResults(compiled.outputs, updates, given, out)
    inputs = results.apart(inputs, compiled.updated)
    outputs = compiled.output_arrays(inputs, results.memory)
    compiled.executable.run(inputs, outputs, threads)
    return results.give(outputs)


def answer_on_host(answer: Answer, updates: Updates, given: Mapping[str, Any], out: Any, threads: int) -> Any:
    """The results of a program that computes the call in place of its own code."""
    inputs = [adopt(name, given[name], type_.dtype, type_.shape) for name, type_ in answer.signature.items()]
    results = _CallResults(answer.outputs, updates, given, out)
    outputs = answer.run(results.apart(inputs, results.updated_inputs(answer.signature)), threads)
    for place, memory in results.memory.items():
        memory[...] = outputs[place]
    return results.give(outputs)


def bind_on_host(compiled: Compiled, updates: Updates, given: Mapping[str, Any], out: Any, threads: int) -> BoundCall:
    """A call with fixed arguments and results.

    Raises:
        EqsatError: InputMismatch for an argument that has to be copied, or that shares memory with what calls write.
    """
    inputs = adopt_all(compiled, given)
    results = _CallResults(compiled.outputs, updates, given, out)
    outputs = compiled.output_arrays(inputs, results.memory)
    names = list(compiled.inputs)
    new = [array for place, array in enumerate(outputs) if place not in compiled.overwritten]
    require_same_memory({name: given[name] for name in names}, inputs[: len(names)], new)
    apart = results.apart(inputs, compiled.updated)
    shared = [name for name, array, own in zip(names, inputs, apart, strict=False) if array is not own]
    if shared:
        message = "the array shares memory with an argument that is updated"
        fail(Kind.INPUT_MISMATCH, STAGE, message, at=shared[0], hint="bind another array")
    run = runner(compiled, inputs, outputs, threads)
    copied = {place: target for place, target in results.updated.items() if place not in compiled.overwritten}
    bound = partial(_run_and_copy, run, copied, outputs) if copied else run
    return BoundCall(bound, results.give(outputs, copies=False))


def adopt_all(compiled: Compiled, given: Mapping[str, Any]) -> list[np.ndarray]:
    """The arguments as arrays that the code takes, with those that tell lengths."""
    arguments = [adopt(name, given[name], type_.dtype, type_.shape) for name, type_ in compiled.inputs.items()]
    return [*arguments, *compiled.bound.length_arrays()]


def _run_and_copy(run: Callable[[], None], targets: Mapping[int, Any], outputs: Sequence[np.ndarray]) -> None:
    run()
    for place, target in targets.items():
        copy_into(target, outputs[place])


class _CallResults:
    """Where the results of a call go. updated: place of a result → the argument that it updates. memory: place of a
    result → the array of `out=` for it."""

    def __init__(
        self, types: Sequence[tuple[str, TensorType]], updates: Updates, given: Mapping[str, Any], out: Any
    ) -> None:
        self._types, self._updates, self._given, self._out = types, updates, given, out
        self.updated = {place: given[updates[name]] for place, (name, _) in enumerate(types) if name in updates}
        for place, value in self.updated.items():
            _require_writable(updates[types[place][0]], value)
        own = [place for place in range(len(types)) if place not in self.updated]
        targets = targets_of(len(own), out) if out is not None else []
        self._targets = dict(zip(own, targets, strict=False))
        self.memory = {
            place: writable(types[place][0], target, types[place][1].dtype, types[place][1].shape)
            for place, target in self._targets.items()
        }

    def updated_inputs(self, signature: Mapping[str, TensorType]) -> dict[int, int]:
        """Place of an updating result → place of its argument."""
        places = {name: place for place, name in enumerate(signature)}
        return {place: places[self._updates[self._types[place][0]]] for place in self.updated}

    def apart(self, inputs: Sequence[np.ndarray], updated: Mapping[int, int]) -> list[np.ndarray]:
        """The inputs, of which those that share memory with what the call writes are copies.

        Raises:
            EqsatError: InputMismatch if two arrays that the call writes share memory.
        """
        memory = list(self.memory.values())
        if any(_share_memory(one, other) for place, one in enumerate(memory) for other in memory[:place]):
            fail(Kind.INPUT_MISMATCH, STAGE, "two arrays of out= share memory")
        written = {position: as_numpy(None, self.updated[place]) for place, position in updated.items()}
        for position, one in written.items():
            others = [array for other, array in written.items() if other != position]
            if any(_share_memory(one, other) for other in (*memory, *others)):
                message = "an argument that is updated shares memory with another array that the call writes"
                fail(Kind.INPUT_MISMATCH, STAGE, message, hint="give arrays of their own")
        memory += written.values()
        shared = [any(_share_memory(array, one) for one in memory) for array in inputs]
        return [
            array.copy() if shared[position] and position not in written else array
            for position, array in enumerate(inputs)
        ]

    def give(self, outputs: Sequence[np.ndarray], copies: bool = True) -> Any:
        """The results in arrays of the caller's library; `out` if there is one. copies: into updated arguments."""
        if not self.updated and self._out is not None:
            return self._out
        family = family_of(self._given.values())
        results = []
        for place, array in enumerate(outputs):
            if place in self.updated and copies:
                copy_into(self.updated[place], array)
            kept = self.updated.get(place, self._targets.get(place))
            results.append(give_back(array, family) if kept is None else kept)
        return results[0] if len(results) == 1 else tuple(results)


_MOST_WORK = 10_000
"""Solutions that NumPy tries before it gives up."""


def _share_memory(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have a byte in common, or may have where that is hard to tell."""
    if not np.may_share_memory(one, other):
        return False
    try:
        return np.shares_memory(one, other, max_work=_MOST_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _require_writable(name: str, value: Any) -> None:
    """Checks that a call can change each element of an argument by itself."""
    if is_tensor(value) or (isinstance(value, np.ndarray) and value.flags.writeable):
        steps = value.stride() if is_tensor(value) else value.strides
        repeats = any(size > 1 and not step for size, step in zip(value.shape, steps, strict=True))
        if repeats and 0 not in value.shape:
            message = "a result updates the argument, whose elements share memory with one another"
            fail(Kind.INPUT_MISMATCH, STAGE, message, at=name, hint="an array of its own, such as a copy")
        return
    kind = "an array that is read-only" if isinstance(value, np.ndarray) else with_article(type(value).__name__)
    hint = "a writable array of NumPy, or a tensor of torch"
    fail(Kind.INPUT_MISMATCH, STAGE, f"a result updates the argument, which is {kind}", at=name, hint=hint)
