"""ONNX's backend interface, for ONNX's own tests: `onnx.backend.test.BackendTest(eqsat.onnx_backend, __name__)`.

`prepare` compiles when it can. A size, or the value of an input that decides a shape, may be known only from a call:
then each new size and each new value compiles a program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.api import optimize_and_compile
from eqsat.runtime.program import Program
from ir.diagnostics import EqsatError

_DEVICES = ("CPU",)


class PreparedModel:
    """A model that runs on arrays."""

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        self._model, self._options = model, options
        stored = {tensor.name for tensor in model.graph.initializer}
        self._names = [value.name for value in model.graph.input if value.name not in stored]
        self._decisive: tuple[str, ...] = ()
        self._programs: dict[tuple[bytes, ...], Program] = {}

    def run(self, inputs: Any, **_: Any) -> tuple[np.ndarray, ...]:
        """The outputs of the model for inputs in order, or for a mapping of inputs by name.

        Raises:
            EqsatError: whatever `optimize_and_compile` and a call raise.
        """
        given = inputs if isinstance(inputs, Mapping) else dict(zip(self._names, _listed(inputs), strict=False))
        arrays = {name: np.asarray(value) if isinstance(value, np.generic) else value for name, value in given.items()}
        while True:
            try:
                results = self._program(arrays)(**{n: a for n, a in arrays.items() if n not in self._decisive})
            except EqsatError as error:
                needs = [name for name in _needs(error) if name in arrays and name not in self._decisive]
                if not needs:
                    raise
                self._decisive = (*self._decisive, *needs)
            else:
                return results if isinstance(results, tuple) else (results,)

    def _program(self, arrays: Mapping[str, Any]) -> Program:
        """The program for the values of the inputs that decide shapes."""
        known = {name: np.asarray(arrays[name]) for name in self._decisive}
        key = tuple(array.tobytes() + repr(array.shape).encode() for array in known.values())
        if key not in self._programs:
            self._programs[key] = optimize_and_compile(self._model, constants=known, **self._options)
        return self._programs[key]


def prepare(model: Any, device: str = "CPU", **options: Any) -> PreparedModel:
    """The model, ready to run. options: those of `optimize_and_compile`."""
    return PreparedModel(model, options)


def run_model(model: Any, inputs: Any, device: str = "CPU", **options: Any) -> tuple[np.ndarray, ...]:
    """The outputs of a model for these inputs."""
    return prepare(model, device, **options).run(inputs)


def supports_device(device: str) -> bool:
    """Whether models run on a device, such as "CPU"."""
    return device in _DEVICES


def is_compatible(model: Any, device: str = "CPU", **options: Any) -> bool:
    """Whether a model may be tried: always; what is not supported raises an EqsatError that says so."""
    return True


def _listed(inputs: Any) -> Sequence[Any]:
    return inputs if isinstance(inputs, list | tuple) else (inputs,)


def _needs(error: EqsatError) -> Sequence[str]:
    """The inputs whose values an operator needs when the program is built."""
    needs: Sequence[str] = error.diagnostics[0].details.get("needs", ())
    return needs
