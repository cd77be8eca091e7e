/* stream_fdiv: 1 streams of 6 x 20 scores from memory, 1 products of 8 columns
   tile 6 x 16 and 6 x 16, blocks 6 x 6 x 20, cache none
   epilogue fdiv, tails n */
_Static_assert(EQ_VL == 16, "eq_stream_fdiv is written for 16 lanes");
static void eq_stream_fdiv_phase0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const float *restrict scores = buf[0];
  const float *restrict values = buf[1];
  float *restrict n17 = buf[2];
  float *restrict stream_0_sums = __builtin_assume_aligned(((char *const *)buf[3])[1 + thread], 64);
  float *restrict score_tile = __builtin_assume_aligned(((char *const *)buf[3])[1 + thread] + 384, 64);
  float *restrict fresh = __builtin_assume_aligned(((char *const *)buf[3])[1 + thread] + 1536, 64);
  float *restrict base = __builtin_assume_aligned(((char *const *)buf[3])[1 + thread] + 1664, 64);
  float *restrict shrink = __builtin_assume_aligned(((char *const *)buf[3])[1 + thread] + 1792, 64);
  float *restrict top = __builtin_assume_aligned(((char *const *)buf[3])[1 + thread] + 1920, 64);
  float *restrict stream_1_sum = __builtin_assume_aligned(((char *const *)buf[3])[1 + thread] + 2048, 64);
  const int64_t task_ = task;
  for (int64_t x = 0; x < 6; x += 16) {
    eq_store_f32(top + x, eq_imm_f32(-INFINITY));
    eq_store_f32(stream_1_sum + x, eq_imm_f32(0.0f));
  }
  for (int64_t r0 = 0; r0 < 6; r0 += 6) {
    /* scores, and the maximum of each row */
    for (int64_t r = 0; r < 6; r++) {
      eq_f32 top_2 = eq_imm_f32(-INFINITY);
      eq_f32 top_3 = eq_imm_f32(-INFINITY);
      eq_f32 top_4 = eq_imm_f32(-INFINITY);
      eq_f32 top_5 = eq_imm_f32(-INFINITY);
      for (int64_t c = 0; c < 20; c += 16) {
        const int64_t n = eq_less(-c + 20, 16);
        const eq_bool exists = eq_first(n);
        const eq_f32 scores_2 = eq_load_n_f32(scores + 20 * r + c, n);
        const eq_f32 score = eq_where_f32(exists, scores_2, eq_imm_f32(-INFINITY));
        eq_store_f32(score_tile + 48 * r + c, score);
        top_2 = eq_max_f32(top_2, score);
      }
      eq_store_n_f32(fresh + r, eq_imm_f32(eq_hmax_f32(eq_max_f32(eq_max_f32(top_2, top_3), eq_max_f32(top_4, top_5)))), 1);
    }
    for (int64_t x_2 = 0; x_2 < 6; x_2 += 16) {
      const eq_f32 before = eq_load_n_f32(top + x_2, 6);
      const eq_f32 top_6 = eq_max_f32(before, eq_load_n_f32(fresh + x_2, 6));
      const eq_f32 base_2 = eq_where_f32(eq_cmpeq_f32(top_6, eq_imm_f32(-INFINITY)), eq_imm_f32(0.0f), top_6);
      const eq_f32 shrink_2 = eq_exp_f32(eq_sub_f32(before, base_2));
      eq_store_n_f32(top + x_2, top_6, 6);
      eq_store_n_f32(base + x_2, base_2, 6);
      eq_store_n_f32(shrink + x_2, shrink_2, 6);
      eq_store_n_f32(stream_1_sum + x_2, eq_mul_f32(eq_load_n_f32(stream_1_sum + x_2, 6), shrink_2), 6);
    }
    /* weights */
    for (int64_t r_2 = 0; r_2 < 6; r_2++) {
      const eq_f32 base_3 = eq_splat_f32(base + r_2);
      eq_f32 stream_1 = eq_imm_f32(0.0f);
      eq_f32 stream_1_2 = eq_imm_f32(0.0f);
      eq_f32 stream_1_3 = eq_imm_f32(0.0f);
      eq_f32 stream_1_4 = eq_imm_f32(0.0f);
      for (int64_t c_2 = 0; c_2 < 20; c_2 += 16) {
        const int64_t n_2 = eq_less(-c_2 + 20, 16);
        const eq_bool exists_2 = eq_first(n_2);
        const eq_f32 p = eq_exp_f32(eq_sub_f32(eq_load_f32(score_tile + 48 * r_2 + c_2), base_3));
        eq_store_f32(score_tile + 48 * r_2 + c_2, p);
        stream_1 = eq_add_f32(stream_1, eq_where_f32(exists_2, p, eq_imm_f32(0.0f)));
      }
      eq_store_n_f32(stream_1_sum + r_2, eq_add_f32(eq_splat_f32(stream_1_sum + r_2), eq_imm_f32(eq_hsum_f32(eq_add_f32(eq_add_f32(stream_1, stream_1_2), eq_add_f32(stream_1_3, stream_1_4))))), 1);
    }
    /* 6 x 16 sums in registers */
    for (int64_t n_3 = 0; n_3 < 8; n_3 += 16) {
      for (int64_t m = 0; m < 6; m += 6) {
        eq_f32 c0_0 = eq_imm_f32(0.0f);
        eq_f32 c1_0 = eq_imm_f32(0.0f);
        eq_f32 c2_0 = eq_imm_f32(0.0f);
        eq_f32 c3_0 = eq_imm_f32(0.0f);
        eq_f32 c4_0 = eq_imm_f32(0.0f);
        eq_f32 c5_0 = eq_imm_f32(0.0f);
        const int64_t column = eq_less(n_3, 7);
        const int64_t n_4 = eq_less(-n_3 + 8, 16);
        EQ_UNROLL(8)
        for (int64_t k = 0; k < 20; k++) {
          const eq_f32 values_2 = eq_load_n_f32(values + column + 8 * k, n_4);
          const eq_f32 b0 = eq_pin_f32(values_2);
          const eq_f32 a = eq_splat_f32(score_tile + k);
          c0_0 = eq_fma_f32(a, b0, c0_0);
          const eq_f32 a_2 = eq_splat_f32(score_tile + k + 48);
          c1_0 = eq_fma_f32(a_2, b0, c1_0);
          const eq_f32 a_3 = eq_splat_f32(score_tile + k + 96);
          c2_0 = eq_fma_f32(a_3, b0, c2_0);
          const eq_f32 a_4 = eq_splat_f32(score_tile + k + 144);
          c3_0 = eq_fma_f32(a_4, b0, c3_0);
          const eq_f32 a_5 = eq_splat_f32(score_tile + k + 192);
          c4_0 = eq_fma_f32(a_5, b0, c4_0);
          const eq_f32 a_6 = eq_splat_f32(score_tile + k + 240);
          c5_0 = eq_fma_f32(a_6, b0, c5_0);
        }
        eq_store_f32(stream_0_sums + n_3, c0_0);
        eq_store_f32(stream_0_sums + n_3 + 16, c1_0);
        eq_store_f32(stream_0_sums + n_3 + 32, c2_0);
        eq_store_f32(stream_0_sums + n_3 + 48, c3_0);
        eq_store_f32(stream_0_sums + n_3 + 64, c4_0);
        eq_store_f32(stream_0_sums + n_3 + 80, c5_0);
      }
    }
  }
  /* epilogue: fdiv */
  for (int64_t r_3 = 0; r_3 < 6; r_3++) {
    const eq_f32 top_7 = eq_splat_f32(top + r_3);
    const eq_f32 top_8 = eq_splat_f32(top + r_3);
    const eq_f32 stream_1_5 = eq_add_f32(eq_splat_f32(stream_1_sum + r_3), eq_sub_f32(top_8, top_8));
    for (int64_t j = 0; j < 8; j += 16) {
      const int64_t n_5 = eq_less(-j + 8, 16);
      const eq_f32 stream_0 = eq_add_f32(eq_load_n_f32(stream_0_sums + 16 * r_3 + j, n_5), eq_sub_f32(top_7, top_7));
      const eq_f32 fdiv_2 = eq_fdiv_f32(stream_0, stream_1_5);
      eq_store_n_f32(n17 + 8 * r_3 + j, fdiv_2, n_5);
    }
  }
}
void eq_stream_fdiv(void *const *buf, int32_t threads) {
  eq_stream_fdiv_phase0((void *)buf, 0, 0);
}
