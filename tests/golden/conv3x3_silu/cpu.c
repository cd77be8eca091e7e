/* conv + silu */
/* dot_cast_mul: 1 products of 16 x 72 (W) and 72 x 120 (X)
   tile 8 x 32, blocks 16 x 32 x 72, outer, cache X: packed at n.i, W: packed at k.o
   epilogue cast, sigmoid, mul, tails n */
_Static_assert(EQ_VL == 16, "eq_dot_cast_mul is written for 16 lanes");
static void eq_dot_cast_mul_phase0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const uint16_t *restrict X = buf[0];
  const uint16_t *restrict W = buf[1];
  uint16_t *restrict n14 = buf[2];
  float *restrict sums = __builtin_assume_aligned(((char *const *)buf[3])[1 + thread], 64);
  float *restrict columns = __builtin_assume_aligned(((char *const *)buf[3])[1 + thread] + 1024, 64);
  float *restrict rows = __builtin_assume_aligned(((char *const *)buf[3])[1 + thread] + 10240, 64);
  const int64_t task_ = task;
  const int64_t n0 = 32 * task_;
  /* pack the rows of W */
  for (int64_t x = 0; x < 16; x++) {
    for (int64_t k = 0; k < 72; k += 16) {
      const int64_t n = eq_less(-k + 72, 16);
      const eq_f32 W_2 = eq_load_n_f16(W + 72 * x + k, n);
      eq_store_n_f32(rows + 88 * x + k, W_2, n);
    }
  }
  for (int64_t n_2 = n0; n_2 < n0 + 32 && n_2 < 120; n_2 += 32) {
    /* pack a panel of X */
    for (int64_t z = 0; z < 2304; z += 16) {
      eq_store_f32(columns + z, eq_imm_f32(0.0f));
    }
    for (int64_t row = n_2 / 10; row < (n_2 + 1) / 10 + 4 && row < 12; row++) {
      const int64_t first = eq_more(eq_less(n_2 - 10 * row, 10), 0);
      const int64_t last = eq_more(eq_less(n_2 - 10 * row + 32, 10), 0);
      for (int64_t k_2 = 0; k_2 < 3; k_2++) {
        for (int64_t k_3 = 0; k_3 < 3; k_3++) {
          if (1 <= row + k_2 && row + k_2 < 13) {
            const int64_t from = eq_more(eq_more(eq_less(first, 10), -k_3 + 1), 0);
            const int64_t to = eq_less(eq_less(last, -k_3 + 11), 10);
            for (int64_t x_2 = from; x_2 < to; x_2 += 16) {
              const int64_t n_3 = eq_more(eq_less(-x_2 + to, 16), 0);
              for (int64_t k_4 = 0; k_4 < 8; k_4++) {
                const eq_f32 X_2 = eq_load_n_f16(X + 10 * row + 10 * k_2 + k_3 + x_2 + 120 * k_4 - 11, n_3);
                eq_store_n_f32(columns + -n_2 + 10 * row + 96 * k_2 + 32 * k_3 + x_2 + 288 * k_4, X_2, n_3);
              }
            }
          }
        }
      }
    }
    for (int64_t m = 0; m < 16; m += 8) {
      /* 8 x 32 sums in registers */
      eq_f32 c0_0 = eq_imm_f32(0.0f);
      eq_f32 c0_1 = eq_imm_f32(0.0f);
      eq_f32 c1_0 = eq_imm_f32(0.0f);
      eq_f32 c1_1 = eq_imm_f32(0.0f);
      eq_f32 c2_0 = eq_imm_f32(0.0f);
      eq_f32 c2_1 = eq_imm_f32(0.0f);
      eq_f32 c3_0 = eq_imm_f32(0.0f);
      eq_f32 c3_1 = eq_imm_f32(0.0f);
      eq_f32 c4_0 = eq_imm_f32(0.0f);
      eq_f32 c4_1 = eq_imm_f32(0.0f);
      eq_f32 c5_0 = eq_imm_f32(0.0f);
      eq_f32 c5_1 = eq_imm_f32(0.0f);
      eq_f32 c6_0 = eq_imm_f32(0.0f);
      eq_f32 c6_1 = eq_imm_f32(0.0f);
      eq_f32 c7_0 = eq_imm_f32(0.0f);
      eq_f32 c7_1 = eq_imm_f32(0.0f);
      EQ_UNROLL(3)
      for (int64_t k_5 = 0; k_5 < 72; k_5++) {
        const eq_f32 b0 = eq_pin_f32(eq_load_f32(columns + 32 * k_5));
        const eq_f32 b1 = eq_pin_f32(eq_load_f32(columns + 32 * k_5 + 16));
        const eq_f32 a = eq_splat_f32(rows + 88 * m + k_5);
        c0_0 = eq_fma_f32(a, b0, c0_0);
        c0_1 = eq_fma_f32(a, b1, c0_1);
        const eq_f32 a_2 = eq_splat_f32(rows + 88 * m + k_5 + 88);
        c1_0 = eq_fma_f32(a_2, b0, c1_0);
        c1_1 = eq_fma_f32(a_2, b1, c1_1);
        const eq_f32 a_3 = eq_splat_f32(rows + 88 * m + k_5 + 176);
        c2_0 = eq_fma_f32(a_3, b0, c2_0);
        c2_1 = eq_fma_f32(a_3, b1, c2_1);
        const eq_f32 a_4 = eq_splat_f32(rows + 88 * m + k_5 + 264);
        c3_0 = eq_fma_f32(a_4, b0, c3_0);
        c3_1 = eq_fma_f32(a_4, b1, c3_1);
        const eq_f32 a_5 = eq_splat_f32(rows + 88 * m + k_5 + 352);
        c4_0 = eq_fma_f32(a_5, b0, c4_0);
        c4_1 = eq_fma_f32(a_5, b1, c4_1);
        const eq_f32 a_6 = eq_splat_f32(rows + 88 * m + k_5 + 440);
        c5_0 = eq_fma_f32(a_6, b0, c5_0);
        c5_1 = eq_fma_f32(a_6, b1, c5_1);
        const eq_f32 a_7 = eq_splat_f32(rows + 88 * m + k_5 + 528);
        c6_0 = eq_fma_f32(a_7, b0, c6_0);
        c6_1 = eq_fma_f32(a_7, b1, c6_1);
        const eq_f32 a_8 = eq_splat_f32(rows + 88 * m + k_5 + 616);
        c7_0 = eq_fma_f32(a_8, b0, c7_0);
        c7_1 = eq_fma_f32(a_8, b1, c7_1);
      }
      eq_store_f32(sums, c0_0);
      eq_store_f32(sums + 16, c0_1);
      eq_store_f32(sums + 32, c1_0);
      eq_store_f32(sums + 48, c1_1);
      eq_store_f32(sums + 64, c2_0);
      eq_store_f32(sums + 80, c2_1);
      eq_store_f32(sums + 96, c3_0);
      eq_store_f32(sums + 112, c3_1);
      eq_store_f32(sums + 128, c4_0);
      eq_store_f32(sums + 144, c4_1);
      eq_store_f32(sums + 160, c5_0);
      eq_store_f32(sums + 176, c5_1);
      eq_store_f32(sums + 192, c6_0);
      eq_store_f32(sums + 208, c6_1);
      eq_store_f32(sums + 224, c7_0);
      eq_store_f32(sums + 240, c7_1);
      /* epilogue: cast, sigmoid, mul */
      for (int64_t r = m; r < m + 8; r++) {
        for (int64_t c = n_2; c < n_2 + 32 && c < 120; c += 16) {
          const int64_t n_4 = eq_less(-c + 120, 16);
          const eq_f32 sum = eq_load_n_f32(sums + -n_2 - 32 * m + 32 * r + c, n_4);
          const eq_f32 cast_1 = eq_round_f16(sum);
          const eq_f32 sigmoid_2 = eq_round_f16(eq_sigmoid_f32(cast_1));
          eq_store_n_u16(n14 + 120 * r + c, eq_bits_of_nearest_f16(eq_mul_f32(cast_1, sigmoid_2)), n_4);
        }
      }
    }
  }
}
void eq_dot_cast_mul(void *const *buf, int32_t threads) {
  eq_parallel_for(eq_dot_cast_mul_phase0, (void *)buf, 4, threads);
}
