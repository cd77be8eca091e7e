"""A matrix product written by hand: what the emulator's tests run, break and measure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codegen.simt import EmulatedKernel, Order, Report

SHARED_BYTES = 3 * 8192

# C = A·B in fp16, tiles of 64 × 64 × 32, 4 warps of 32 × 32, a ring of three stages. Rows of A and B start at multiples
# of 16 bytes (lda, ldb, ldc % 8 == 0); M, N and K are anything.
GEMM = """\
extern "C" EQ_KERNEL(128, 1) void eq_gemm(const eq_f16 *__restrict__ A, const eq_f16 *__restrict__ B,
                                          eq_f16 *__restrict__ C, int M, int N, int K, int lda, int ldb, int ldc) {
  const int thread = eq_thread(), lane = eq_lane(), warp = eq_warp();
  const int row0 = 64 * eq_block_y(), col0 = 64 * eq_block_x();
  const int warp_row = warp / 2 * 32, warp_col = warp % 2 * 32;
  const int tiles = (K + 31) / 32;
  float acc[2][4][4];
  for (int i = 0; i < 32; i++) acc[i / 16][i / 4 % 4][i % 4] = 0;
  for (int tile = 0; tile < 2; tile++) {
    if (tile < tiles) {
      EQ_UNROLL
      for (int i = 0; i < 2; i++) {
        const int chunk = 128 * i + thread, row = row0 + chunk / 4, k = 32 * tile + chunk % 4 * 8;
        const int valid = row < M ? eq_clip(2LL * (K - k), 16) : 0;
        eq_cp_async16(8192 * tile + eq_swizzle<2>(16 * chunk), A + (long long)row * lda + k, valid);
      }
      EQ_UNROLL
      for (int i = 0; i < 2; i++) {
        const int chunk = 128 * i + thread, k = 32 * tile + chunk / 8, col = col0 + chunk % 8 * 8;
        const int valid = k < K ? eq_clip(2LL * (N - col), 16) : 0;
        eq_cp_async16(8192 * tile + 4096 + eq_swizzle<3>(16 * chunk), B + (long long)k * ldb + col, valid);
      }
    }
    eq_cp_async_commit();  // prologue
  }
  for (int tile = 0; tile < tiles; tile++) {
    eq_cp_async_wait<1>();
    eq_barrier();  // main loop
    const int next = tile + 2, target = 8192 * (next % 3);
    if (next < tiles) {
      EQ_UNROLL
      for (int i = 0; i < 2; i++) {
        const int chunk = 128 * i + thread, row = row0 + chunk / 4, k = 32 * next + chunk % 4 * 8;
        const int valid = row < M ? eq_clip(2LL * (K - k), 16) : 0;
        eq_cp_async16(target + eq_swizzle<2>(16 * chunk), A + (long long)row * lda + k, valid);
      }
      EQ_UNROLL
      for (int i = 0; i < 2; i++) {
        const int chunk = 128 * i + thread, k = 32 * next + chunk / 8, col = col0 + chunk % 8 * 8;
        const int valid = k < K ? eq_clip(2LL * (N - col), 16) : 0;
        eq_cp_async16(target + 4096 + eq_swizzle<3>(16 * chunk), B + (long long)k * ldb + col, valid);
      }
    }
    eq_cp_async_commit();  // main loop
    const unsigned stage = 8192 * (tile % 3);
    EQ_UNROLL
    for (int kk = 0; kk < 2; kk++) {
      unsigned a[2][4], b[2][4];
      EQ_UNROLL
      for (int i = 0; i < 2; i++) {
        const int row = warp_row + 16 * i + lane % 16, chunk = 2 * kk + lane / 16;
        eq_ldmatrix_x4(a[i], stage + eq_swizzle<2>(64 * row + 16 * chunk));
      }
      EQ_UNROLL
      for (int j = 0; j < 2; j++) {
        const int row = 16 * kk + lane % 16, chunk = warp_col / 8 + 2 * j + lane / 16;
        eq_ldmatrix_x4_trans(b[j], stage + 4096 + eq_swizzle<3>(128 * row + 16 * chunk));
      }
      EQ_UNROLL
      for (int i = 0; i < 2; i++) {
        EQ_UNROLL
        for (int j = 0; j < 4; j++) eq_mma_m16n8k16_f16(acc[i][j], a[i], b[j / 2] + j % 2 * 2);
      }
    }
  }
  eq_barrier();  // the stages become the output's staging
  const unsigned staging = 2560 * warp;
  EQ_UNROLL
  for (int i = 0; i < 2; i++) {
    EQ_UNROLL
    for (int j = 0; j < 4; j++) {
      const unsigned at = staging + 80 * (16 * i + lane / 4) + 16 * j + lane % 4 * 4;
      eq_st_shared_f16x2(at, acc[i][j]);
      eq_st_shared_f16x2(at + 8 * 80, acc[i][j] + 2);
    }
  }
  eq_sync_warp();
  EQ_UNROLL
  for (int i = 0; i < 4; i++) {
    const int row = row0 + warp_row + 8 * i + lane / 4, col = col0 + warp_col + lane % 4 * 8;
    const unsigned at = staging + 80 * (8 * i + lane / 4) + lane % 4 * 16;
    eq_f16 *to = C + (long long)row * ldc + col;
    unsigned words[4];
    eq_ld_shared_16(words, at);
    eq_st_global_16_if(row < M && col + 8 <= N, to, words);
    if (row < M && col + 8 > N) {
      for (int j = 0; j < 8; j++) eq_st_global_f16_if(col + j < N, to + j, eq_ld_shared_f16(at + 2 * j));
    }
  }
}
"""


@dataclass(frozen=True)
class Problem:
    """C = A·B, m × k × n; pitches are rounded up to 8 elements, and what lies between the rows is NaN."""

    m: int
    n: int
    k: int

    @property
    def grid(self) -> tuple[int, int]:
        return -(-self.n // 64), -(-self.m // 64)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(self.m * 1_000_003 + self.n * 1009 + self.k)
        a = _padded(rng.standard_normal((self.m, self.k)))
        b = _padded(rng.standard_normal((self.k, self.n)))
        return a, b, np.full((self.m, _pitch(self.n)), np.nan, np.float16)

    def launch(self, kernel: EmulatedKernel, order: Order = Order.FORWARD, seed: int = 0) -> tuple[Report, np.ndarray]:
        """The report, and C without its padding."""
        a, b, c = self.arrays()
        sizes = [self.m, self.n, self.k, a.shape[1], b.shape[1], c.shape[1]]
        report = kernel.launch(self.grid, [a, b, c, *sizes], shared_bytes=SHARED_BYTES, order=order, seed=seed)
        return report, c[:, : self.n]

    def right(self, c: np.ndarray) -> bool:
        a, b, _ = self.arrays()
        wanted = a[:, : self.k].astype(np.float64) @ b[:, : self.n].astype(np.float64)
        return bool(np.allclose(c.astype(np.float64), wanted, rtol=2e-3, atol=2e-3))


def _pitch(columns: int) -> int:
    return -(-columns // 8) * 8


def _padded(values: np.ndarray) -> np.ndarray:
    padded = np.full((values.shape[0], _pitch(values.shape[1])), np.nan, np.float16)
    padded[:, : values.shape[1]] = values.astype(np.float16)
    return padded
