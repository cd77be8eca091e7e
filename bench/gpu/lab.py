"""Where a case runs: whose arrays eqsat and its peers work on, and what the program is compiled for."""

from __future__ import annotations

import importlib.util
from typing import Any, Protocol

import numpy as np

from bench.gpu.case import Case, Shape
from ir.dtype import DTYPES
from ir.target import Target

_DRAWN = 1_048_573
"""A prime, so that rows of what is repeated from so many numbers differ."""


class Lab(Protocol):
    """`emulate`: the device is the emulator. `has_peers`: the arrays are torch's, which peers take."""

    target: Target
    emulate: bool
    has_peers: bool

    def put(self, array: np.ndarray) -> Any:
        """The array on the device."""
        ...

    def poisoned(self, shape: Shape, dtype: str) -> Any:
        """An array on the device of nothing but NaN."""
        ...

    def get(self, array: Any) -> np.ndarray:
        """An array of the device as fp32."""
        ...

    def release(self) -> None:
        """Gives the memory of what is gone back to the device."""
        ...


class TorchLab:
    """Tensors on "cuda", or on "cpu" for the emulator."""

    has_peers = True

    def __init__(self, device: str, target: Target, emulate: bool = False) -> None:
        self.target, self.emulate, self._device = target, emulate, device

    def put(self, array: np.ndarray) -> Any:
        import torch

        if array.dtype == DTYPES["bf16"].numpy:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(self._device)
        return torch.from_numpy(array).to(self._device)

    def poisoned(self, shape: Shape, dtype: str) -> Any:
        return self.put(np.full(shape, np.nan, DTYPES[dtype].numpy))

    def get(self, array: Any) -> np.ndarray:
        found: np.ndarray = array.detach().float().cpu().numpy()
        return found

    def release(self) -> None:
        import torch

        if self._device == "cuda":
            torch.cuda.empty_cache()
            _release_cupy()


class CupyLab:
    """CuPy's arrays: eqsat alone."""

    emulate = has_peers = False

    def __init__(self, target: Target) -> None:
        self.target = target

    def put(self, array: np.ndarray) -> Any:
        import cupy

        return cupy.asarray(array.view(np.uint8)).view(array.dtype).reshape(array.shape)

    def poisoned(self, shape: Shape, dtype: str) -> Any:
        return self.put(np.full(shape, np.nan, DTYPES[dtype].numpy))

    def get(self, array: Any) -> np.ndarray:
        found: np.ndarray = array.get()
        return found.astype(np.float32)

    def release(self) -> None:
        _release_cupy()


def cuda_lab(target: Target) -> Lab:
    """torch's where it has CUDA, else CuPy's."""
    if importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            return TorchLab("cuda", target)
    return CupyLab(target)


def draw(case: Case) -> list[np.ndarray]:
    """The inputs of a case, random and never zeros, on which chips are faster."""
    rng = np.random.default_rng(0)
    drawn = []
    for name, shape in case.inputs.items():
        pool = rng.standard_normal(min(int(np.prod(shape)), _DRAWN), np.float32) * case.scales.get(name, 1.0)
        drawn.append(np.resize(pool.astype(DTYPES[case.dtype].numpy), shape))
    return drawn


def _release_cupy() -> None:
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
