"""Times of work on a GPU, by CUDA events on an idle device with a cold cache; the systems take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

Runner = Callable[[], Any]
"""Enqueues one run on the current stream; may return before the run is done."""

WARM_UPS = 3
FEWEST_ROUNDS, MOST_ROUNDS = 7, 200
_MOST_LEAD_NS = 5_000_000
"""Most ns that the device spins before a run."""
_SPIN = """
extern "C" EQ_KERNEL(32, 1) void eq_spin(int ns) {
  unsigned long long start, at;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(at)); while (at - start < (unsigned long long)ns);
}
"""
"""Keeps the device busy for `ns` ns."""
FLUSH_TILE = 16 * 1024
"""Bytes that one block of `FLUSH` reads."""
FLUSH = """
extern "C" EQ_KERNEL(256, 4) void eq_flush(const eq_i32 *__restrict__ X, eq_i32 *__restrict__ Y) {
  unsigned words[4][4], all = 0;
  EQ_UNROLL
  for (int i = 0; i < 4; i++) eq_ld_global_16(words[i], X + 4LL * (1024LL * eq_block_x() + 256 * i + eq_thread()));
  EQ_UNROLL
  for (int i = 0; i < 16; i++) all |= words[i / 4][i % 4];
  if (all != 0) eq_st_global_i32(Y, (int)all);
}
"""
"""Reads zeros and stores nothing, so that the cache then has no line to write back."""


class Times(NamedTuple):
    """Seconds of one run: quartiles over `samples` runs."""

    low: float
    median: float
    high: float
    samples: int


class Clock(Protocol):
    """Measures runners side by side."""

    def measure(self, runs: Mapping[str, Runner], seconds: float) -> dict[str, Times]:
        """The times of all runners, over as many rounds as fit into about `seconds`."""
        ...


def quartiles(samples: list[float]) -> Times:
    low, median, high = map(float, np.quantile(samples, (0.25, 0.5, 0.75)))
    return Times(low, median, high, len(samples))


def in_turns(runs: Mapping[str, Runner], rounds: int, sample: Callable[[str, Runner], None]) -> None:
    """Samples every runner once a round, in reversed order in every second round."""
    for number in range(rounds):
        for name in reversed(list(runs)) if number % 2 else runs:
            sample(name, runs[name])


class EventClock:
    """CUDA events on the current stream.

    Before every sample, data of twice the size of the L2 cache is read, and a kernel spins while the host
    enqueues the run, so that the events measure the device's time alone.
    """

    def __init__(self) -> None:
        import cupy

        from bench.device.launch import CudaDevice

        facts = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        self._device = CudaDevice()
        blocks = -(-2 * int(facts["l2CacheSize"]) // FLUSH_TILE)
        zeros = [np.zeros(blocks * FLUSH_TILE // 4, np.int32), np.zeros(1, np.int32)]
        self._flush = self._device.prepare(FLUSH, "eq_flush", (blocks,), 256, zeros)

    def measure(self, runs: Mapping[str, Runner], seconds: float) -> dict[str, Times]:
        leads = {name: self._lead_ns(run) for name, run in runs.items()}
        spins = {name: self._device.prepare(_SPIN, "eq_spin", (1,), 32, [lead]) for name, lead in leads.items()}
        samples: dict[str, list[float]] = {name: [] for name in runs}

        def sample(name: str, run: Runner) -> None:
            samples[name].append(self._sample(run, spins[name]))

        start = time.perf_counter()
        in_turns(runs, 1, sample)
        turn = time.perf_counter() - start
        in_turns(runs, max(FEWEST_ROUNDS, min(MOST_ROUNDS, int(seconds / turn))), sample)
        return {name: quartiles(taken[1:]) for name, taken in samples.items()}

    def _lead_ns(self, run: Runner) -> int:
        """Most ns that the host needs to enqueue a run, measured after some warm-up runs."""
        import cupy

        taken = []
        for _ in range(WARM_UPS + 2):
            cupy.cuda.Device().synchronize()
            start = time.perf_counter_ns()
            run()
            taken.append(time.perf_counter_ns() - start)
        cupy.cuda.Device().synchronize()
        return min(20_000 + 2 * max(taken[WARM_UPS:]), _MOST_LEAD_NS)

    def _sample(self, run: Runner, spin: Runner) -> float:
        import cupy

        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        self._flush()
        spin()
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) / 1e3
