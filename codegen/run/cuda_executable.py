"""A GPU program on a GPU: modules loaded by CuPy, constants kept on the device, launches on the caller's stream."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from codegen.compile.cubins import Cubins
from codegen.run.device import device_for, runs_cubins
from codegen.run.launch_log import note_launch
from codegen.run.slot_memory import Bytes, SlotMemory, Space, flat_bytes
from ir.diagnostics import Kind, fail
from ir.module.launch import Launch, LaunchTable
from ir.module.module import Module

_STAGE = "launch"
_WHOLE = "the program"
_WHICH = "with CUDA_LAUNCH_BLOCKING=1 in the environment the error names its kernel"
_STATIC_SHARED_BYTES = 48 * 1024
"""Bytes of dynamic shared memory that a block may use without asking the driver."""
_MOST_HELD = 256
"""Launches that wait on a held device, at most: the driver's queue has some 1,000 places, and then blocks the host."""
_HELD_SECONDS = 5.0
"""A device is held no longer than this."""


class _Loaded(NamedTuple):
    """A program on one device: a function per launch, and the constants."""

    functions: list[Any]
    constants: dict[str, Bytes]


class _Captured(NamedTuple):
    """A call as a CUDA graph; the memory that it reads and writes, whose addresses are in the graph; and the event at
    the end of the latest call."""

    graph: Any
    done: Any
    inputs: list[Bytes]
    outputs: list[Bytes]
    space: Space


class CudaExecutable:
    """Runs a module. No device is needed before the first call. `graph`: the second call is captured as a CUDA graph,
    with its own memory for inputs and outputs; later calls copy inputs into it and outputs out of it."""

    def __init__(
        self,
        module: Module,
        table: LaunchTable,
        library: Cubins,
        constants: Mapping[str, np.ndarray],
        graph: bool,
    ) -> None:
        self._memory = SlotMemory(module, table)
        self._arena_bytes, self._workspace = module.arena_bytes, table.workspace
        self._launches = table.launches
        self._library = library
        self._constants = {name: np.ascontiguousarray(constants[name]) for name in self._memory.constants}
        self._wants_graph = graph
        self._loaded: dict[int, _Loaded] = {}
        self._ran: set[int] = set()
        self._captured: dict[int, _Captured] = {}
        self._counters: dict[tuple[int, int, int], Bytes] = {}
        self._lock = threading.Lock()

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int) -> None:
        """Runs on NumPy arrays in the module's order: copies them to the device, and the results back.

        Raises:
            EqsatError: NoDevice, or KernelFault where a kernel fails.
        """
        self.require_device()
        with _report_driver_errors(_WHOLE):
            import cupy

            results = [cupy.empty(output.nbytes, cupy.uint8) for output in outputs]
            self.run_on_device([cupy.asarray(flat_bytes(array)) for array in inputs], results)
            for output, result in zip(outputs, results, strict=True):
                flat_bytes(output)[...] = result.get()

    def run_on_device(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> None:
        """As `run`, on memory of the current device, in the order of the current stream; does not wait for the end.

        Raises:
            EqsatError: as `run`; InputMismatch where the stream is being captured.
        """
        with _report_driver_errors(_WHOLE):
            import cupy

            _refuse_capture(cupy.cuda.get_current_stream())
            device = cupy.cuda.Device().id
            if self._wants_graph and device in self._ran:
                self._replay(device, inputs, outputs)
                return
            self._launch_all(self._on(device), self._space(), inputs, outputs)
            self._ran.add(device)

    def profile(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int, repeats: int
    ) -> np.ndarray:
        """ns per launch, over all its runs in a call: [repeats, launches]. Events around each run measure it, after one
        call that warms up. The device starts when the host has enqueued the launches, up to `_MOST_HELD` of them, so
        that a short kernel's time does not have the host's time in it."""
        self.require_device()
        with _report_driver_errors(_WHOLE):
            import cupy

            loaded = self._on(cupy.cuda.Device().id)
            given = [cupy.asarray(flat_bytes(array)) for array in inputs]
            results = [cupy.empty(output.nbytes, cupy.uint8) for output in outputs]
            space = self._space()
            rows = np.zeros((repeats + 1, len(self._launches)))
            for row in rows:
                with _held_device() as release:
                    events = self._launch_between_events(loaded, space, given, results, release)
                events[-1][1].synchronize()
                for (_, start), (position, end) in itertools.pairwise(events):
                    row[position] += 1e6 * cupy.cuda.get_elapsed_time(start, end)
        return rows[1:]

    def require_device(self) -> None:
        """Raises EqsatError, NoDevice, unless there is a device that runs the cubins."""
        device_for(self._library.arch)

    def _launch_all(
        self,
        loaded: _Loaded,
        space: Space,
        inputs: Sequence[Bytes],
        outputs: Sequence[Bytes],
        launched: Callable[[int], None] | None = None,
    ) -> None:
        """Starts the launches in order. `launched` gets the place of every launch that was started."""
        placed = self._memory.place(space.arena, loaded.constants, inputs, outputs)
        for position, held in self._memory.runs(placed):
            launch = self._launches[position]
            _launch(launch, loaded.functions[position], self._memory.arguments(launch, held, space))
            if launched is not None:
                launched(position)
        self._memory.copy_shared(placed, outputs)

    def _launch_between_events(
        self,
        loaded: _Loaded,
        space: Space,
        inputs: Sequence[Bytes],
        outputs: Sequence[Bytes],
        release: Callable[[], None],
    ) -> list[tuple[int, Any]]:
        """Starts the launches in order. Returns an event before the first run, and one after every run, with the
        launch's place. `release` is called after `_MOST_HELD` launches."""
        events = [(0, _recorded())]

        def launched(position: int) -> None:
            events.append((position, _recorded()))
            if len(events) == _MOST_HELD:
                release()

        self._launch_all(loaded, space, inputs, outputs, launched)
        return events

    def _space(self) -> Space:
        """Memory for a call in the order of the current stream: memory of CuPy, which later calls on the stream may
        reuse, and counters, which are zeroed once for all calls of one stream and thread."""
        import cupy

        stream = cupy.cuda.get_current_stream()
        key = cupy.cuda.Device().id, stream.ptr, threading.get_ident()  # a thread may have a default stream of its own
        with self._lock:
            if key not in self._counters:
                self._counters[key] = cupy.zeros(self._workspace.counters, cupy.uint8)
        return Space(*self._unset(), self._counters[key])

    def _unset(self) -> tuple[Bytes, Bytes]:
        """An arena, and the memory that blocks share; not initialised."""
        import cupy

        return cupy.empty(self._arena_bytes, cupy.uint8), cupy.empty(self._workspace.shared, cupy.uint8)

    def _on(self, device: int) -> _Loaded:
        """The program on a device; the first call loads it."""
        with self._lock:
            if device not in self._loaded:
                self._loaded[device] = self._load()
            return self._loaded[device]

    def _load(self) -> _Loaded:
        """The program on the current device: its cubins, or, where the device is newer than they, its PTX, which the
        driver compiles now and keeps in its own cache."""
        import cupy

        is_native = runs_cubins(cupy.cuda.Device().compute_capability, self._library.arch)
        paths = self._library.paths if is_native else self._library.ptx
        functions = []
        for launch in self._launches:
            with _report_driver_errors(launch.function):
                module = cupy.RawModule(path=str(paths[launch.function]))
                function = module.get_function(launch.function)
                shared = launch.geometry.shared_bytes if launch.geometry else 0
                if shared > _STATIC_SHARED_BYTES:
                    _take_shared(function, shared, launch.function)
            functions.append(function)
        constants = {name: cupy.asarray(flat_bytes(constant)) for name, constant in self._constants.items()}
        cupy.cuda.get_current_stream().synchronize()  # later calls may come on other streams
        return _Loaded(functions, constants)

    def _replay(self, device: int, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> None:
        """Runs the graph after the latest call of it, on any stream: all calls share the memory of the graph."""
        import cupy

        loaded, stream = self._on(device), cupy.cuda.get_current_stream()
        with self._lock:
            if device not in self._captured:
                self._captured[device] = self._capture(loaded, inputs, outputs)
            captured = self._captured[device]
            stream.wait_event(captured.done)
            for to, source in zip(captured.inputs, inputs, strict=True):
                to[...] = source
            captured.graph.launch(stream)
            for to, source in zip(outputs, captured.outputs, strict=True):
                to[...] = source
            captured.done.record(stream)

    def _capture(self, loaded: _Loaded, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> _Captured:
        """Captures a call. Memory is allocated first, since that is not allowed while a stream is captured."""
        import cupy

        own = [cupy.empty(array.size, cupy.uint8) for array in inputs]
        results = [cupy.empty(output.size, cupy.uint8) for output in outputs]
        space = Space(*self._unset(), cupy.zeros(self._workspace.counters, cupy.uint8))
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            self._launch_all(loaded, space, own, results)
            graph = stream.end_capture()
        return _Captured(graph, cupy.cuda.Event(disable_timing=True), own, results, space)


@contextmanager
def _held_device() -> Iterator[Callable[[], None]]:
    """The current stream waits at this place until the block ends, or until the yielded function is called."""
    import cupy

    released = threading.Event()
    cupy.cuda.get_current_stream().launch_host_func(lambda event: event.wait(_HELD_SECONDS), released)
    try:
        yield released.set
    finally:
        released.set()


def _recorded() -> Any:
    """An event recorded now on the current stream."""
    import cupy

    event = cupy.cuda.Event()
    event.record()
    return event


def _take_shared(function: Any, nbytes: int, name: str) -> None:
    """Asks for so much shared memory. Some devices that run the same cubins (sm_86, sm_89) do not have it."""
    try:
        function.max_dynamic_shared_size_bytes = nbytes
    except RuntimeError as error:
        message = f"a block takes {nbytes} bytes of shared memory, which this device does not give: {error}"
        fail(Kind.RESOURCE_EXCEEDED, _STAGE, message, at=name, shared_bytes=nbytes)


def _refuse_capture(stream: Any) -> None:
    """Refuses to be captured: the caller's graph would hold addresses of memory that is freed when the call returns."""
    if stream.is_capturing():
        message = "a call cannot be captured in a CUDA graph of the caller's, which would keep its memory by address"
        fail(Kind.INPUT_MISMATCH, _STAGE, message, hint="graph=True makes a graph of the program itself")


def _launch(launch: Launch, function: Any, arguments: tuple[Bytes, ...]) -> None:
    assert launch.geometry is not None, "a GPU's launches have a geometry"
    grid, threads, shared = launch.geometry.grid, launch.geometry.threads, launch.geometry.shared_bytes
    with _report_driver_errors(launch.function):
        note_launch(launch.function)
        function(grid, (threads, 1, 1), arguments, shared_mem=shared)


@contextmanager
def _report_driver_errors(what: str) -> Iterator[None]:
    """Turns errors of the driver and of CuPy, which are RuntimeErrors and MemoryErrors, into diagnostics."""
    try:
        yield
    except MemoryError as error:
        fail(Kind.RESOURCE_EXCEEDED, _STAGE, f"the memory of the device is full: {error}", at=what)
    except RuntimeError as error:
        hint = _WHICH if what == _WHOLE else None
        fail(Kind.KERNEL_FAULT, _STAGE, f"{type(error).__name__}: {error}", at=what, hint=hint)
