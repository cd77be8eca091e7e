"""How fast this machine moves numbers and starts kernels, measured: by cache level, lane by lane, fork and join."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import msgspec

from codegen.compile.library import Library, build, pool_source, vector_prelude
from codegen.compile.machine import Machine
from codegen.run.aligned_memory import allocate_touched
from ir.host.address import address

_SOURCE = """
enum { EQ_COPY, EQ_LANES_APART, EQ_WORK };
/* Task t goes `rounds` times over its own n floats of `from` and `to`. */
typedef struct { float *to; const float *from; int64_t n, rounds, stride; int what; } eq_move;

static void eq_move_task(void *ctx, int32_t task, int32_t thread) {
  const eq_move m = *(const eq_move *)ctx;
  float *to = m.to + task * m.n;
  const float *from = m.from + task * m.n;
  eq_f32 sum = eq_imm_f32((float)task);
  for (int64_t r = 0; r < m.rounds; r++) {
    __asm__ volatile("" : : : "memory");
    if (m.what == EQ_COPY)
      for (int64_t i = 0; i < m.n; i += EQ_VL) eq_store_f32(to + i, eq_load_f32(from + i));
    else if (m.what == EQ_LANES_APART) /* rows of `stride` floats, read along columns */
      for (int64_t j = 0; j < m.stride; j++)
        for (int64_t i = 0; i < m.n / m.stride; i += EQ_VL)
          eq_store_f32(to + j * (m.n / m.stride) + i, eq_strided_f32(from + i * m.stride + j, m.stride, EQ_VL));
    else sum = eq_fma_f32(sum, sum, sum);
  }
  volatile float keep = eq_hsum_f32(sum);
  (void)keep;
}

/* ns of one such parallel loop, the least of `tries`, after one that warms up. */
__attribute__((visibility("default"))) int64_t eq_time_moves(float *to, const float *from, int64_t n, int64_t rounds,
                                                             int64_t stride, int32_t what, int32_t threads,
                                                             int32_t tries) {
  eq_move move = {to, from, n, rounds, stride, what};
  int64_t best = INT64_MAX;
  eq_run run;
  eq_run_begin(&run, 1);
  for (int32_t i = 0; i <= tries; i++) {
    int64_t start = eq_now_ns();
    eq_parallel_for(eq_move_task, &move, threads, threads);
    int64_t ns = eq_now_ns() - start;
    if (i && ns < best) best = ns;
  }
  eq_run_end(&run);
  return best;
}
"""
_COPY, _APART, _WORK = range(3)
_FLOAT = 4
_SAMPLE_BYTES = 32 << 20
"""A sample moves about this much."""


class MemorySpeeds(msgspec.Struct, frozen=True):
    """Measured speeds.

    l2, l3, memory  bytes per second, read plus written, of copies by all cores in the caches and in memory
    alone           the same of one core, in memory
    vector_ns, lane_ns, far_ns
                    ns to move a register, a lane whose neighbours are near, a lane in a cache line of its own
    call_ns         ns of a call of one thread
    fork_ns         ns of a fork and join of all threads
    """

    l2: float
    l3: float
    memory: float
    alone: float
    vector_ns: float
    lane_ns: float
    far_ns: float
    call_ns: float
    fork_ns: float


def best_of(measured: Sequence[MemorySpeeds]) -> MemorySpeeds:
    """The best measurement of every figure."""

    def best(name: str) -> float:
        values = [float(getattr(speeds, name)) for speeds in measured]
        return min(values) if name.endswith("_ns") else max(values)

    return MemorySpeeds(**{name: best(name) for name in MemorySpeeds.__struct_fields__})


def measure_memory(on: Machine) -> MemorySpeeds:
    """Measure `on`. Takes about two seconds."""
    library = build({"memory": pool_source() + vector_prelude() + _SOURCE}, on)
    most = max(4 * on.l3_bytes, 64 << 20)
    memory = [allocate_touched(most // 2) for _ in range(2)]
    probe = _Probe(library, on, [address(array) for array in memory])
    near = on.l1_bytes // 3
    return MemorySpeeds(
        l2=probe.copy_speed(on.l2_bytes // 2, on.cores),
        l3=probe.copy_speed(max(2 * on.l2_bytes, on.l3_bytes // (4 * on.cores)), on.cores),
        memory=probe.copy_speed(most // on.cores, on.cores),
        alone=probe.copy_speed(most, 1),
        vector_ns=_FLOAT * on.lanes / probe.copy_speed(near, 1) * 1e9,
        lane_ns=probe.apart(near, 3),
        far_ns=probe.apart(on.l2_bytes // 2, 256),
        call_ns=float(probe.time(0, 1, 1, _COPY, 1, 200)),
        fork_ns=probe.fork(),
    )


class _Probe:
    """Timings of loops over two arrays."""

    def __init__(self, library: Library, on: Machine, addresses: list[int]) -> None:
        argtypes = (ctypes.c_void_p, ctypes.c_void_p, *(ctypes.c_int64,) * 3, *(ctypes.c_int32,) * 3)
        self._run = library.function("eq_time_moves", argtypes, ctypes.c_int64)
        self._on, self._addresses = on, addresses

    def time(self, n: int, rounds: int, stride: int, what: int, threads: int, tries: int = 5) -> int:
        """ns of `rounds` rounds over n floats per thread."""
        return int(self._run(*self._addresses, n, rounds, stride, what, threads, tries))

    def copy_speed(self, size: int, threads: int) -> float:
        """Bytes per second of copies whose source and target take `size` bytes per thread."""
        n = size // (2 * _FLOAT) // self._on.lanes * self._on.lanes
        rounds = max(1, _SAMPLE_BYTES // size)
        return 2e9 * _FLOAT * n * rounds * threads / self.time(n, rounds, 1, _COPY, threads)

    def apart(self, size: int, stride: int) -> float:
        """ns per lane that is read `stride` floats from its neighbour, beyond the ns of a copy of `size` bytes."""
        n = size // (2 * _FLOAT) // (stride * self._on.lanes) * stride * self._on.lanes
        rounds = max(1, _SAMPLE_BYTES // size // 8)
        apart, copy = (self.time(n, rounds, stride, what, 1) for what in (_APART, _COPY))
        return max(0.0, apart - copy) / (n * rounds)

    def fork(self) -> float:
        """ns that parallel tasks of some microseconds, one per thread, take longer than one task."""
        rounds = 2000
        alone = self.time(0, rounds, 1, _WORK, 1, 50)
        return max(0.0, float(self.time(0, rounds, 1, _WORK, self._on.cores, 200) - alone))
