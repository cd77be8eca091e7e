/* dot: 1 products of 5 x 24 (x) and 24 x 16 (w)
   tile 5 x 16, blocks 5 x 16 x 24, outer, cache none
   epilogue none, tails none */
_Static_assert(EQ_VL == 16, "eq_dot is written for 16 lanes");
static void eq_dot_phase0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const float *restrict x = buf[0];
  const float *restrict w = buf[1];
  float *restrict n8 = buf[2];
  const int64_t task_ = task;
  for (int64_t n = 0; n < 16; n += 16) {
    for (int64_t m = 0; m < 5; m += 5) {
      /* 5 x 16 sums in registers */
      eq_f32 c0_0 = eq_imm_f32(0.0f);
      eq_f32 c1_0 = eq_imm_f32(0.0f);
      eq_f32 c2_0 = eq_imm_f32(0.0f);
      eq_f32 c3_0 = eq_imm_f32(0.0f);
      eq_f32 c4_0 = eq_imm_f32(0.0f);
      const int64_t column = 0;
      EQ_UNROLL(9)
      for (int64_t k = 0; k < 24; k++) {
        const eq_f32 w_2 = eq_load_f32(w + column + 16 * k);
        const eq_f32 b0 = eq_pin_f32(w_2);
        const eq_f32 x_2 = eq_splat_f32(x + k);
        c0_0 = eq_fma_f32(x_2, b0, c0_0);
        const eq_f32 x_3 = eq_splat_f32(x + k + 24);
        c1_0 = eq_fma_f32(x_3, b0, c1_0);
        const eq_f32 x_4 = eq_splat_f32(x + k + 48);
        c2_0 = eq_fma_f32(x_4, b0, c2_0);
        const eq_f32 x_5 = eq_splat_f32(x + k + 72);
        c3_0 = eq_fma_f32(x_5, b0, c3_0);
        const eq_f32 x_6 = eq_splat_f32(x + k + 96);
        c4_0 = eq_fma_f32(x_6, b0, c4_0);
      }
      /* epilogue: store */
      const int64_t c = 0;
      eq_store_f32(n8 + c, c0_0);
      eq_store_f32(n8 + c + 16, c1_0);
      eq_store_f32(n8 + c + 32, c2_0);
      eq_store_f32(n8 + c + 48, c3_0);
      eq_store_f32(n8 + c + 64, c4_0);
    }
  }
}
void eq_dot(void *const *buf, int32_t threads) {
  eq_dot_phase0((void *)buf, 0, 0);
}
