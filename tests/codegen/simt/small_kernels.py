"""Small right kernels: a reduction over a block, one over all blocks, sums of the blocks before a block, and tiles that
a warp turns over in shared memory of its own."""

from __future__ import annotations

import numpy as np

from codegen.simt import EmulatedKernel, Order, Report

# One row of n numbers a block. The scratch of four numbers serves both reductions.
SOFTMAX = """\
extern "C" EQ_KERNEL(128, 1) void eq_softmax(const eq_f32 *__restrict__ X, eq_f32 *__restrict__ Y, int n) {
  const int thread = eq_thread(), lane = eq_lane(), warp = eq_warp();
  const long long row = (long long)eq_block_x() * n;
  float most = -__builtin_huge_valf();
  for (int i = thread; i < n; i += 128) most = eq_max_f32(most, eq_ld_global_f32(X + row + i));
  for (int step = 16; step > 0; step /= 2) most = eq_max_f32(most, eq_shfl_xor_f32(most, step));
  if (lane == 0) eq_st_shared_f32(4 * warp, most);
  eq_barrier();
  for (int i = 0; i < 4; i++) most = eq_max_f32(most, eq_ld_shared_f32(4 * i));
  eq_barrier();
  float sum = 0;
  for (int i = thread; i < n; i += 128) sum += eq_exp_f32(eq_ld_global_f32(X + row + i) - most);
  for (int step = 16; step > 0; step /= 2) sum += eq_shfl_down_f32(sum, step);
  if (lane == 0) eq_st_shared_f32(4 * warp, sum);
  eq_barrier();
  sum = 0;
  for (int i = 0; i < 4; i++) sum += eq_ld_shared_f32(4 * i);
  for (int i = thread; i < n; i += 128) {
    eq_st_global_f32(Y + row + i, eq_exp_f32(eq_ld_global_f32(X + row + i) - most) / sum);
  }
}
"""

# Each warp turns `tiles` tiles of 32 × 32 fp16 over; halves of one word belong to different lanes.
TURN = """\
extern "C" EQ_KERNEL(64, 1) void eq_turn(const eq_f16 *__restrict__ X, eq_f16 *__restrict__ Y, int tiles) {
  const int lane = eq_lane(), warp = eq_warp();
  const unsigned own = 2112 * warp;
  for (int tile = 0; tile < tiles; tile++) {
    const long long at = 1024LL * (tiles * warp + tile) + lane;
    for (int i = 0; i < 32; i++) eq_st_shared_f16(own + 66 * i + 2 * lane, eq_ld_global_f16(X + at + 32 * i));
    eq_sync_warp();
    for (int i = 0; i < 32; i++) eq_st_global_f16(Y + at + 32 * i, eq_ld_shared_f16(own + 66 * lane + 2 * i));
    eq_sync_warp();
  }
}
"""

# Each block of 64 threads adds up its part of n numbers, thread by thread; the last block adds up the parts.
TOTAL = """\
extern "C" EQ_KERNEL(64, 1) void eq_total(const eq_f32 *__restrict__ X, eq_f32 *__restrict__ Y,
                                          eq_f32 *__restrict__ parts, eq_counter *__restrict__ tickets,
                                          int n, int blocks) {
  const int thread = eq_thread(), block = eq_block_x();
  float sum = 0;
  for (int i = 64 * block + thread; i < n; i += 64 * blocks) sum += eq_ld_global_f32(X + i);
  eq_st_global_f32(parts + 64 * block + thread, sum);
  eq_barrier();
  bool last = false;
  if (thread == 0) {
    eq_fence();
    const int before = eq_ticket(tickets, blocks);
    eq_fence();
    last = before == blocks - 1;
  }
  if (eq_barrier_or(last)) {
    sum = 0;
    for (int part = 0; part < blocks; part++) sum += eq_ld_global_f32(parts + 64 * part + thread);
    eq_st_global_f32(Y + thread, sum);
  }
}
"""

# Each block of 64 threads stores its part of the sum of n numbers, and adds up the parts of the blocks that started
# before it.
RUNNING = """\
extern "C" EQ_KERNEL(64, 1) void eq_running(const eq_f32 *__restrict__ X, eq_f32 *__restrict__ Y,
                                            eq_f32 *__restrict__ parts, eq_counter *__restrict__ starts,
                                            eq_counter *__restrict__ arrived, int blocks) {
  const int thread = eq_thread();
  if (thread == 0) eq_st_shared_i32(0, eq_ticket(starts, blocks));
  eq_barrier();
  const int part = eq_ld_shared_i32(0);
  eq_st_global_f32(parts + 64 * part + thread, eq_ld_global_f32(X + 64 * part + thread));
  eq_barrier();  // all stored
  if (thread == 0) {
    eq_fence();  // publishes
    eq_ticket(arrived + part, blocks - part);
  }
  for (int earlier = thread; earlier < part; earlier += 64) eq_await(arrived + earlier, blocks - earlier);
  eq_fence();
  eq_barrier();  // all arrived
  float sum = 0;
  for (int earlier = 0; earlier < part; earlier++) sum += eq_ld_global_f32(parts + 64 * earlier + thread);
  eq_st_global_f32(Y + 64 * part + thread, sum);
}
"""


def softmax(kernel: EmulatedKernel, order: Order) -> tuple[Report, bool]:
    """The report, and whether the numbers are right."""
    x = np.random.default_rng(1).standard_normal((3, 300)).astype(np.float32)
    y = np.full_like(x, np.nan)
    report = kernel.launch((3,), [x, y, 300], shared_bytes=16, order=order)
    e = np.exp(x - x.max(1, keepdims=True))
    return report, np.allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


def turn(kernel: EmulatedKernel, order: Order) -> tuple[Report, bool]:
    """As `softmax`."""
    x = np.random.default_rng(2).standard_normal((6, 32, 32)).astype(np.float16)
    y = np.full_like(x, np.nan)
    report = kernel.launch((1,), [x, y, 3], shared_bytes=4224, order=order)
    return report, np.array_equal(y, x.transpose(0, 2, 1))


def total(kernel: EmulatedKernel, order: Order) -> tuple[Report, bool]:
    """As `softmax`."""
    x = np.random.default_rng(3).standard_normal(1000).astype(np.float32)
    y, parts, tickets = np.full(64, np.nan, np.float32), np.full(64 * 5, np.nan, np.float32), np.zeros(1, np.uint32)
    report = kernel.launch((5,), [x, y, parts, tickets, 1000, 5], order=order)
    wanted = np.pad(x, (0, 24)).reshape(16, 64).sum(0)
    return report, np.allclose(y, wanted, rtol=1e-5, atol=1e-5)


def running(kernel: EmulatedKernel, order: Order) -> tuple[Report, bool]:
    """As `softmax`."""
    x = np.random.default_rng(4).standard_normal((70, 64)).astype(np.float32)
    y, parts = np.full_like(x, np.nan), np.full_like(x, np.nan)
    counters = [np.zeros(count, np.uint32) for count in (1, 70)]
    report = kernel.launch((70,), [x, y, parts, *counters, 70], shared_bytes=16, order=order)
    wanted = np.cumsum(x, 0) - x
    return report, np.allclose(y, wanted, rtol=1e-5, atol=1e-5)
