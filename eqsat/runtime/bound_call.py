"""A call whose arguments and results stay where they are: nothing is checked, converted or allocated again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from eqsat.runtime.arrays import STAGE, as_numpy
from eqsat.runtime.compiled import Compiled
from ir.diagnostics import Kind, fail
from ir.host.address import address
from ir.module.executable import TakesObjects


class BoundCall:
    """Call it without arguments: it reads the arrays that were bound, writes `results` and returns them. Calls from
    several threads run one after another.

    results: one array, or a tuple; the same arrays after every call.
    """

    def __init__(self, run: Callable[[], None], results: Any) -> None:
        self.results = results
        self._run = run
        self._lock = threading.Lock()

    def __call__(self) -> Any:
        with self._lock:
            self._run()
        return self.results


def runner(
    compiled: Compiled, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
) -> Callable[[], None]:
    """A function that makes one call on these arrays, which it keeps alive."""
    executable = compiled.executable
    if isinstance(executable, TakesObjects):
        return executable.bind(inputs, outputs, threads)
    return partial(executable.run, inputs, outputs, threads)


def require_same_memory(given: Mapping[str, Any], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """Checks that calls read the caller's own memory, and that no call writes what it reads.

    Raises:
        EqsatError: InputMismatch for an argument that had to be copied or converted, or that shares memory with an
            array of `out=`.
    """
    for (name, value), array in zip(given.items(), inputs, strict=True):
        if array.size and address(as_numpy(name, value)) != address(array):
            message = f"a {type(value).__name__} that has to be copied cannot be bound"
            hint = "bind a C-contiguous, aligned array, or call the program"
            fail(Kind.INPUT_MISMATCH, STAGE, message, at=name, hint=hint)
        if any(np.may_share_memory(array, output) for output in outputs):
            fail(Kind.INPUT_MISMATCH, STAGE, "the array shares memory with out=", at=name, hint="bind another array")
