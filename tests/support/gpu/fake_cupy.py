"""A fake CuPy whose device is the host and whose kernels run in the emulator, to test calls of CuPy without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from codegen.simt import EmulatedKernel, compile_kernels


class Array:
    """An array on the device, of host memory."""

    def __init__(self, host: np.ndarray) -> None:
        self.host = host
        self.shape, self.size, self.dtype, self.nbytes = host.shape, host.size, host.dtype, host.nbytes
        self.data = SimpleNamespace(ptr=host.ctypes.data)
        self.device = SimpleNamespace(id=0)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def reshape(self, *shape: Any) -> Array:
        return Array(self.host.reshape(*shape))

    def view(self, dtype: Any) -> Array:
        return Array(self.host.view(dtype))

    def copy(self) -> Array:
        return Array(self.host.copy())

    def get(self) -> np.ndarray:
        return self.host.copy()

    def __getitem__(self, at: Any) -> Array:
        return Array(self.host[at])

    def __setitem__(self, at: Any, value: Array) -> None:
        Stream.work(lambda: self.host.__setitem__(at, value.host))


class Stream:
    """Work is done at once, except while it is captured."""

    capturing: list[Callable[[], None]] | None = None
    ptr = 0

    @classmethod
    def work(cls, task: Callable[[], None]) -> None:
        if cls.capturing is None:
            task()
        else:
            cls.capturing.append(task)

    def __init__(self, non_blocking: bool = False) -> None: ...

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None: ...

    def is_capturing(self) -> bool:
        return Stream.capturing is not None

    def begin_capture(self) -> None:
        Stream.capturing = []

    def end_capture(self) -> SimpleNamespace:
        work, Stream.capturing = Stream.capturing or [], None
        return SimpleNamespace(launch=lambda stream: [task() for task in work])

    def synchronize(self) -> None: ...

    def wait_event(self, event: Event) -> None: ...

    def launch_host_func(self, callback: Any, argument: Any) -> None: ...


class Event:
    def __init__(self, disable_timing: bool = False) -> None: ...
    def record(self, stream: Stream | None = None) -> None: ...
    def synchronize(self) -> None: ...


class Function:
    """A kernel; more than 48 KB of dynamic shared memory must have been asked for before."""

    max_dynamic_shared_size_bytes = 48 * 1024

    def __init__(self, kernel: EmulatedKernel, launched: list[str]) -> None:
        self._kernel, self._launched = kernel, launched

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Array, ...], *, shared_mem: int = 0
    ) -> None:
        assert block == (self._kernel.signature.threads, 1, 1)
        assert shared_mem <= self.max_dynamic_shared_size_bytes
        parameters = self._kernel.signature.parameters
        arrays = [arg.host.view(one.dtype) for arg, one in zip(args, parameters, strict=True)]

        def work() -> None:
            self._launched.append(self._kernel.signature.name)
            self._kernel.launch(grid, arrays, shared_bytes=shared_mem).require_clean()

        Stream.work(work)


def fake_cupy(texts: Mapping[str, str], launched: list[str]) -> Any:
    """The module, whose kernels are those of `texts`; the names of those that run are added to `launched`."""
    kernels = compile_kernels("\n".join(texts.values()))
    return SimpleNamespace(
        ndarray=Array,
        uint8=np.uint8,
        empty=lambda size, dtype: Array(np.full(size, 77, dtype)),
        zeros=lambda size, dtype: Array(np.zeros(size, dtype)),
        asarray=lambda host: Array(host.copy()),
        ascontiguousarray=lambda array: Array(np.ascontiguousarray(array.host)),
        RawModule=lambda path: SimpleNamespace(get_function=lambda name: Function(kernels[name], launched)),
        cuda=SimpleNamespace(
            Device=lambda: SimpleNamespace(id=0, compute_capability="80"),
            Stream=Stream,
            Event=Event,
            get_current_stream=Stream,
            get_elapsed_time=lambda start, end: 0.001,
        ),
    )
