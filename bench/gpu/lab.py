"""The lab of a case: the arrays that eqsat and its peers work on, and the target of the program."""

from __future__ import annotations

import importlib.util
from typing import Any, Protocol

import numpy as np

from bench.device.kernel_by_kernel import wait_for_device
from bench.gpu.case import Case, Shape
from ir.dtype import DTYPES
from ir.target import Target

_DISTINCT = 1_048_573
"""Random numbers per input, repeated to its size; a prime, so that rows differ."""


class Lab(Protocol):
    """`emulate`: the device is the emulator. `has_peers`: the arrays are torch's, so that peers can run."""

    target: Target
    emulate: bool
    has_peers: bool

    def put(self, array: np.ndarray) -> Any:
        """The array on the device."""
        ...

    def allocate_poisoned(self, shape: Shape, dtype: str) -> Any:
        """An array of NaN on the device."""
        ...

    def get(self, array: Any) -> np.ndarray:
        """An array of the device as fp32."""
        ...

    def wait(self) -> None:
        """Waits until the device is idle."""
        ...

    def release(self) -> None:
        """Returns unused memory to the device."""
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

    def allocate_poisoned(self, shape: Shape, dtype: str) -> Any:
        return self.put(np.full(shape, np.nan, DTYPES[dtype].numpy))

    def get(self, array: Any) -> np.ndarray:
        host: np.ndarray = array.detach().float().cpu().numpy()
        return host

    def wait(self) -> None:
        if self._device == "cuda":
            wait_for_device()

    def release(self) -> None:
        import torch

        if self._device == "cuda":
            torch.cuda.empty_cache()
            _release_cupy()


class CupyLab:
    """CuPy's arrays, without peers."""

    emulate = has_peers = False

    def __init__(self, target: Target) -> None:
        self.target = target

    def put(self, array: np.ndarray) -> Any:
        import cupy

        return cupy.asarray(array.view(np.uint8)).view(array.dtype).reshape(array.shape)

    def allocate_poisoned(self, shape: Shape, dtype: str) -> Any:
        return self.put(np.full(shape, np.nan, DTYPES[dtype].numpy))

    def get(self, array: Any) -> np.ndarray:
        host: np.ndarray = array.get()
        return host.astype(np.float32)

    def wait(self) -> None:
        wait_for_device()

    def release(self) -> None:
        _release_cupy()


def cuda_lab(target: Target) -> Lab:
    """torch's lab if torch has CUDA, else CuPy's."""
    if importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            return TorchLab("cuda", target)
    return CupyLab(target)


def draw(case: Case) -> list[np.ndarray]:
    """The inputs of a case: random, never zeros, on which chips run faster."""
    rng = np.random.default_rng(0)
    drawn = []
    for name, shape in case.inputs.items():
        pool = rng.standard_normal(min(int(np.prod(shape)), _DISTINCT), np.float32) * case.scales.get(name, 1.0)
        drawn.append(np.resize(pool.astype(DTYPES[case.dtype].numpy), shape))
    return drawn


def _release_cupy() -> None:
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
