"""The clock and the launches on a GPU, through a CuPy that notes what it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.device import launch as device_launch
from bench.device.clock import FEWEST_ROUNDS, FLUSH, FLUSH_TILE, MOST_ROUNDS, WARM_UPS, EventClock
from bench.device.launch import CudaDevice, EmulatedDevice, launch
from codegen.run.device import Device
from ir.diagnostics import EqsatError, Kind

H100 = Device("NVIDIA H100", "90", 132, 80 << 30, 13000)
COPY = """
extern "C" EQ_KERNEL(32, 1) void eq_copy(const eq_f32 *x, eq_f32 *y, int n) {
  if (eq_thread() < n) eq_st_global_f32(y + eq_thread(), eq_ld_global_f32(x + eq_thread()));
}
"""


class Memory:
    """Bytes on the device that there is not."""

    def __init__(self, host: np.ndarray) -> None:
        self.host, self.nbytes = host, host.nbytes
        self.data = SimpleNamespace(ptr=id(self))

    def get(self) -> np.ndarray:
        return self.host.copy()


class NotingCupy:
    """`asked` holds what was done, in order; a run that was noted as "a" takes 2 ms, any other 3 ms."""

    uint8 = np.uint8

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.launched: list[tuple[Any, ...]] = []
        self.cuda = SimpleNamespace(
            Device=lambda: SimpleNamespace(id=0, synchronize=lambda: None),
            Event=lambda: SimpleNamespace(
                record=lambda: self.asked.append("event"), synchronize=lambda: self.asked.append("wait")
            ),
            get_elapsed_time=lambda start, end: 2.0 if self.asked[-3] == "a" else 3.0,
            runtime=SimpleNamespace(getDeviceProperties=lambda device: {"l2CacheSize": 5 * FLUSH_TILE // 2 - 1}),
        )

    def empty(self, size: int, dtype: Any) -> Memory:
        return Memory(np.zeros(size, dtype))

    def asarray(self, host: np.ndarray) -> Memory:
        return Memory(host.copy())

    def RawModule(self, path: str) -> Any:  # noqa: N802
        def function(grid: Sequence[int], block: Sequence[int], arguments: Any, shared_mem: int) -> None:
            self.asked.append(f"launch {grid[0]}")
            self.launched.append((grid, block, arguments, shared_mem))
            if len(arguments) == 3:
                x, y, n = arguments
                y.host[: 4 * int(n)] = x.host[: 4 * int(n)]

        return SimpleNamespace(get_function=lambda name: function)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> NotingCupy:
    result = NotingCupy()
    monkeypatch.setitem(sys.modules, "cupy", result)
    monkeypatch.setattr(device_launch, "find_device", lambda: H100)
    monkeypatch.setattr(device_launch, "build", lambda text, arch: SimpleNamespace(path=f"{arch}.cubin"))
    return result


def test_each_sample_is_cold_and_its_host_is_ahead(cupy: NotingCupy) -> None:
    runs = {name: (lambda name=name: cupy.asked.append(name)) for name in "ab"}
    times = EventClock().measure(runs, 0.0)
    assert (times["a"].median, times["b"].median) == (2e-3, 3e-3)
    assert times["a"].samples == FEWEST_ROUNDS
    warm = 2 * (WARM_UPS + 2)
    assert cupy.asked[:warm] == ["a"] * (warm // 2) + ["b"] * (warm // 2)
    samples = cupy.asked[warm:]
    for at in range(0, len(samples), 6):
        assert samples[at : at + 6] in (["launch 5", "launch 1", "event", name, "event", "wait"] for name in "ab")
    assert [samples[at + 3] for at in range(0, len(samples), 6)][:6] == ["a", "b", "a", "b", "b", "a"]
    assert EventClock().measure({"a": runs["a"]}, 1e9)["a"].samples == MOST_ROUNDS


@pytest.mark.slow
def test_the_flush_reads_all_and_stores_nothing() -> None:
    words, ticks = np.zeros(2 * FLUSH_TILE // 4, np.int32), np.zeros(1, np.int32)
    launch(EmulatedDevice(), FLUSH, "eq_flush", (2,), 256, [words, ticks])
    assert ticks[0] == 0
    words[-1] = 5
    launch(EmulatedDevice(), FLUSH, "eq_flush", (2,), 256, [words, ticks])
    assert ticks[0] == 5


def test_arrays_go_to_the_device_and_back(cupy: NotingCupy) -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    launch(CudaDevice(), COPY, "eq_copy", (2,), 32, [x, y, 5], 128)
    np.testing.assert_array_equal(y, [0, 1, 2, 3, 4, 0, 0, 0])
    [(grid, block, arguments, shared)] = cupy.launched
    assert (grid, block, shared) == ((2, 1, 1), (32, 1, 1), 128)
    assert isinstance(arguments[2], np.int32)


def test_without_a_device_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_launch, "find_device", lambda: None)
    with pytest.raises(EqsatError) as caught:
        CudaDevice()
    assert caught.value.kind is Kind.NO_DEVICE
