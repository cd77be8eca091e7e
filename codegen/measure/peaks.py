"""Measures the peaks of this machine: fused multiply-adds and products of bf16 per second, and bytes per second."""

from __future__ import annotations

import ctypes

import msgspec

from codegen.compile.library import Library, build, pool_source, vector_prelude
from codegen.compile.machine import Machine, machine
from codegen.run.aligned_memory import allocate_touched
from ir.host.address import address
from ir.target import PAIRS_OF_BF16

_SOURCE = """
#define EQ_CHAINS 12 /* a latency of 4 on 2 ports needs 8 */
#define EQ_EACH_CHAIN(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)

/* Variables, not an array: gcc keeps an array of vectors in memory. */
static void eq_fma_task(void *ctx, int32_t task, int32_t thread) {
  int64_t rounds = *(const int64_t *)ctx;
  eq_f32 a = eq_imm_f32(0.999f), b = eq_imm_f32(0.001f), sum = {0};
#define EQ_START(i) eq_f32 acc##i = eq_imm_f32((float)(task + i));
#define EQ_STEP(i) acc##i = eq_fma_f32(acc##i, a, b);
#define EQ_ADD(i) sum += acc##i;
  EQ_EACH_CHAIN(EQ_START)
  for (int64_t r = 0; r < rounds; r++) { EQ_EACH_CHAIN(EQ_STEP) }
  EQ_EACH_CHAIN(EQ_ADD)
  volatile float keep = eq_hsum_f32(sum);
  (void)keep;
}

/* With matrix registers, four products of 16 x 32 by 32 x 16 numbers per round, each of which takes 16 cycles. */
static void eq_bf16_task(void *ctx, int32_t task, int32_t thread) {
  int64_t rounds = *(const int64_t *)ctx;
#ifdef __AMX_TILE__
  eq_matrix_setup(0, 16);
  for (int64_t r = 0; r < rounds; r++) {
    EQ_MATRIX_MULTIPLY(bf16_bf16, 0, 4, 6);
    EQ_MATRIX_MULTIPLY(bf16_bf16, 1, 4, 7);
    EQ_MATRIX_MULTIPLY(bf16_bf16, 2, 5, 6);
    EQ_MATRIX_MULTIPLY(bf16_bf16, 3, 5, 7);
  }
  eq_matrix_end();
#else
  eq_i32 a = eq_imm_i32(task), b = eq_imm_i32(0x3f803f80);
  eq_f32 sum = {0};
#define EQ_PAIRS(i) acc##i = eq_dot_pairs_f32(a, b, acc##i);
  EQ_EACH_CHAIN(EQ_START)
  for (int64_t r = 0; r < rounds; r++) { EQ_EACH_CHAIN(EQ_PAIRS) }
  EQ_EACH_CHAIN(EQ_ADD)
  volatile float keep = eq_hsum_f32(sum);
  (void)keep;
#endif
}

/* ns of `rounds` rounds on each of n_threads threads, the best of `tries`: of EQ_CHAINS vector FMAs, or of bf16. */
__attribute__((visibility("default"))) int64_t eq_time_products(int32_t bf16, int64_t rounds, int32_t n_threads,
                                                                int32_t tries) {
  int64_t best = INT64_MAX;
  eq_run run;
  eq_run_begin(&run, 1);
  for (int32_t i = 0; i < tries; i++) {
    int64_t start = eq_now_ns();
    eq_parallel_for(bf16 ? eq_bf16_task : eq_fma_task, &rounds, n_threads, n_threads);
    int64_t ns = eq_now_ns() - start;
    if (ns < best) best = ns;
  }
  eq_run_end(&run);
  return best;
}

/* Stores that pass the caches, so that a copy moves each byte twice. p is aligned to the register. */
#if EQ_X86_MOVES
#define EQ_STREAM(p, v) __asm__("vmovntdq %1, %0" : "=m"(*(eq_loose_32 *)(p)) : "v"((eq_loose_32)(v)))
#define EQ_STREAM_FENCE() __asm__ volatile("sfence" : : : "memory")
#else
#define EQ_STREAM(p, v) eq_store_f32(p, v)
#define EQ_STREAM_FENCE() ((void)0)
#endif

typedef struct { float *to; const float *from; int64_t n; int32_t parts; } eq_copy;
static void eq_copy_task(void *ctx, int32_t task, int32_t thread) {
  const eq_copy *c = ctx;
  int64_t lo = c->n / c->parts * task / EQ_VL * EQ_VL, hi = c->n / c->parts * (task + 1) / EQ_VL * EQ_VL;
  for (int64_t i = lo; i < hi; i += EQ_VL) EQ_STREAM(c->to + i, eq_load_f32(c->from + i));
  EQ_STREAM_FENCE();
}

/* ns of copying n floats (64-byte aligned, a multiple of 64) with streaming stores, the best of `tries`. */
__attribute__((visibility("default"))) int64_t eq_time_copy(float *to, const float *from, int64_t n,
                                                            int32_t n_threads, int32_t tries) {
  eq_copy copy = {to, from, n, n_threads};
  int64_t best = INT64_MAX;
  for (int32_t i = 0; i < tries; i++) {
    int64_t start = eq_now_ns();
    eq_parallel_for(eq_copy_task, &copy, n_threads, n_threads);
    int64_t ns = eq_now_ns() - start;
    if (ns < best) best = ns;
  }
  return best;
}
"""
_CHAINS = 12
_MATRIX_FLOPS = 4 * 2 * 16 * 16 * 32
"""FLOPs of a round of matrix products."""


class Peaks(msgspec.Struct, frozen=True):
    """By number of threads: fp32 FMA FLOP per second (an FMA is two); bytes per second, read plus written, of a copy
    between arrays far above the last cache; and FLOP per second of bf16, none where no instruction multiplies bf16.
    """

    fma_flops: dict[int, float]
    copy_bytes: dict[int, float]
    bf16_flops: dict[int, float]


def measure_peaks(on: Machine | None = None, *, copy_megabytes: int) -> Peaks:
    """Measure `on` (this machine) with one thread and with one per core, copies between arrays of so many megabytes.
    Takes about a second."""
    on = on or machine()
    library = build({"peaks": pool_source() + vector_prelude() + _SOURCE}, on)
    threads = sorted({1, on.cores})
    return Peaks(
        fma_flops={n: _products(library, n, 2.0 * _CHAINS * on.lanes, 1_000_000) for n in threads},
        copy_bytes={n: _copy(library, n, copy_megabytes << 20) for n in threads},
        bf16_flops={n: rate for n in threads if (rate := _bf16_flops(library, on, n))},
    )


def _bf16_flops(library: Library, on: Machine, threads: int) -> float:
    """FLOPs per second of products of bf16; 0 where no instruction multiplies bf16."""
    if on.arch == "amx":
        return _products(library, threads, _MATRIX_FLOPS, 200_000, bf16=True)
    if on.arch in PAIRS_OF_BF16:
        return _products(library, threads, 4.0 * _CHAINS * on.lanes, 1_000_000, bf16=True)
    return 0.0


def _products(library: Library, threads: int, flops: float, rounds: int, *, bf16: bool = False) -> float:
    """FLOPs per second of all threads, where a round of one thread has so many `flops`."""
    types = (ctypes.c_int32, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32)
    time = library.function("eq_time_products", types, ctypes.c_int64)
    return 1e9 * flops * rounds * threads / int(time(int(bf16), rounds, threads, 7))


def _copy(library: Library, threads: int, size: int) -> float:
    time = library.function(
        "eq_time_copy",
        (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32),
        ctypes.c_int64,
    )
    arrays = [allocate_touched(size) for _ in range(2)]
    return 2e9 * size / int(time(*map(address, arrays), size // 4, threads, 5))
