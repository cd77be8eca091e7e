/* gemm + bias_add + relu */
/* dot_cast_add_relu: 1 products of 32 x 48 (A) and 48 x 40 (B)
   tile 8 x 48, blocks 32 x 48 x 48, outer, cache B: packed at n.i
   epilogue cast, add, relu, tails n */
_Static_assert(EQ_VL == 16, "eq_dot_cast_add_relu is written for 16 lanes");
static void eq_dot_cast_add_relu_phase0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const uint16_t *restrict A = buf[0];
  const uint16_t *restrict B = buf[1];
  const uint16_t *restrict bias = buf[2];
  uint16_t *restrict n14 = buf[3];
  float *restrict sums = __builtin_assume_aligned(((char *const *)buf[4])[1 + thread], 64);
  float *restrict columns = __builtin_assume_aligned(((char *const *)buf[4])[1 + thread] + 1536, 64);
  const int64_t task_ = task;
  for (int64_t n = 0; n < 40; n += 48) {
    /* pack a panel of B */
    for (int64_t k = 0; k < 48; k++) {
      for (int64_t x = 0; x < 40; x += 16) {
        const int64_t n_2 = eq_less(-x + 40, 16);
        const eq_f32 B_2 = eq_load_n_f16(B + 40 * k + x, n_2);
        eq_store_n_f32(columns + 48 * k + x, B_2, n_2);
      }
    }
    for (int64_t m = 0; m < 32; m += 8) {
      /* 8 x 48 sums in registers */
      eq_f32 c0_0 = eq_imm_f32(0.0f);
      eq_f32 c0_1 = eq_imm_f32(0.0f);
      eq_f32 c0_2 = eq_imm_f32(0.0f);
      eq_f32 c1_0 = eq_imm_f32(0.0f);
      eq_f32 c1_1 = eq_imm_f32(0.0f);
      eq_f32 c1_2 = eq_imm_f32(0.0f);
      eq_f32 c2_0 = eq_imm_f32(0.0f);
      eq_f32 c2_1 = eq_imm_f32(0.0f);
      eq_f32 c2_2 = eq_imm_f32(0.0f);
      eq_f32 c3_0 = eq_imm_f32(0.0f);
      eq_f32 c3_1 = eq_imm_f32(0.0f);
      eq_f32 c3_2 = eq_imm_f32(0.0f);
      eq_f32 c4_0 = eq_imm_f32(0.0f);
      eq_f32 c4_1 = eq_imm_f32(0.0f);
      eq_f32 c4_2 = eq_imm_f32(0.0f);
      eq_f32 c5_0 = eq_imm_f32(0.0f);
      eq_f32 c5_1 = eq_imm_f32(0.0f);
      eq_f32 c5_2 = eq_imm_f32(0.0f);
      eq_f32 c6_0 = eq_imm_f32(0.0f);
      eq_f32 c6_1 = eq_imm_f32(0.0f);
      eq_f32 c6_2 = eq_imm_f32(0.0f);
      eq_f32 c7_0 = eq_imm_f32(0.0f);
      eq_f32 c7_1 = eq_imm_f32(0.0f);
      eq_f32 c7_2 = eq_imm_f32(0.0f);
      const int64_t tile = m / 8;
      EQ_UNROLL(2)
      for (int64_t k_2 = 0; k_2 < 48; k_2++) {
        const eq_f32 b0 = eq_pin_f32(eq_load_f32(columns + 48 * k_2));
        const eq_f32 b1 = eq_pin_f32(eq_load_f32(columns + 48 * k_2 + 16));
        const eq_f32 b2 = eq_pin_f32(eq_load_f32(columns + 48 * k_2 + 32));
        const eq_f32 A_2 = eq_splat_f16(A + 384 * tile + k_2);
        c0_0 = eq_fma_f32(A_2, b0, c0_0);
        c0_1 = eq_fma_f32(A_2, b1, c0_1);
        c0_2 = eq_fma_f32(A_2, b2, c0_2);
        const eq_f32 A_3 = eq_splat_f16(A + 384 * tile + k_2 + 48);
        c1_0 = eq_fma_f32(A_3, b0, c1_0);
        c1_1 = eq_fma_f32(A_3, b1, c1_1);
        c1_2 = eq_fma_f32(A_3, b2, c1_2);
        const eq_f32 A_4 = eq_splat_f16(A + 384 * tile + k_2 + 96);
        c2_0 = eq_fma_f32(A_4, b0, c2_0);
        c2_1 = eq_fma_f32(A_4, b1, c2_1);
        c2_2 = eq_fma_f32(A_4, b2, c2_2);
        const eq_f32 A_5 = eq_splat_f16(A + 384 * tile + k_2 + 144);
        c3_0 = eq_fma_f32(A_5, b0, c3_0);
        c3_1 = eq_fma_f32(A_5, b1, c3_1);
        c3_2 = eq_fma_f32(A_5, b2, c3_2);
        const eq_f32 A_6 = eq_splat_f16(A + 384 * tile + k_2 + 192);
        c4_0 = eq_fma_f32(A_6, b0, c4_0);
        c4_1 = eq_fma_f32(A_6, b1, c4_1);
        c4_2 = eq_fma_f32(A_6, b2, c4_2);
        const eq_f32 A_7 = eq_splat_f16(A + 384 * tile + k_2 + 240);
        c5_0 = eq_fma_f32(A_7, b0, c5_0);
        c5_1 = eq_fma_f32(A_7, b1, c5_1);
        c5_2 = eq_fma_f32(A_7, b2, c5_2);
        const eq_f32 A_8 = eq_splat_f16(A + 384 * tile + k_2 + 288);
        c6_0 = eq_fma_f32(A_8, b0, c6_0);
        c6_1 = eq_fma_f32(A_8, b1, c6_1);
        c6_2 = eq_fma_f32(A_8, b2, c6_2);
        const eq_f32 A_9 = eq_splat_f16(A + 384 * tile + k_2 + 336);
        c7_0 = eq_fma_f32(A_9, b0, c7_0);
        c7_1 = eq_fma_f32(A_9, b1, c7_1);
        c7_2 = eq_fma_f32(A_9, b2, c7_2);
      }
      eq_store_f32(sums, c0_0);
      eq_store_f32(sums + 16, c0_1);
      eq_store_f32(sums + 32, c0_2);
      eq_store_f32(sums + 48, c1_0);
      eq_store_f32(sums + 64, c1_1);
      eq_store_f32(sums + 80, c1_2);
      eq_store_f32(sums + 96, c2_0);
      eq_store_f32(sums + 112, c2_1);
      eq_store_f32(sums + 128, c2_2);
      eq_store_f32(sums + 144, c3_0);
      eq_store_f32(sums + 160, c3_1);
      eq_store_f32(sums + 176, c3_2);
      eq_store_f32(sums + 192, c4_0);
      eq_store_f32(sums + 208, c4_1);
      eq_store_f32(sums + 224, c4_2);
      eq_store_f32(sums + 240, c5_0);
      eq_store_f32(sums + 256, c5_1);
      eq_store_f32(sums + 272, c5_2);
      eq_store_f32(sums + 288, c6_0);
      eq_store_f32(sums + 304, c6_1);
      eq_store_f32(sums + 320, c6_2);
      eq_store_f32(sums + 336, c7_0);
      eq_store_f32(sums + 352, c7_1);
      eq_store_f32(sums + 368, c7_2);
      /* epilogue: cast, add, relu */
      for (int64_t r = m; r < m + 8; r++) {
        for (int64_t c = 0; c < 40; c += 16) {
          const int64_t n_3 = eq_less(-c + 40, 16);
          const eq_f32 sum = eq_load_n_f32(sums + -48 * m + 48 * r + c, n_3);
          const eq_f32 cast_1 = eq_round_f16(sum);
          const eq_f32 bias_2 = eq_load_n_f16(bias + c, n_3);
          const eq_f32 add_2 = eq_round_f16(eq_add_f32(cast_1, bias_2));
          const eq_f32 relu_3 = eq_relu_f32(add_2);
          eq_store_n_f16(n14 + 40 * r + c, relu_3, n_3);
        }
      }
    }
  }
}
void eq_dot_cast_add_relu(void *const *buf, int32_t threads) {
  eq_dot_cast_add_relu_phase0((void *)buf, 0, 0);
}
