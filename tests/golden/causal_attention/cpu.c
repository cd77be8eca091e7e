/* attn */
/* mul_where_stream_fdiv_cast: 2 streams of 12 x 12 scores of depth 16, 1 products of 16 columns
   tile 12 x 16 and 12 x 16, blocks 12 x 12 x 12, cache Q: packed at m.o, K: packed at k.o
   epilogue fdiv, cast, tails none */
_Static_assert(EQ_VL == 16, "eq_mul_where_stream_fdiv_cast is written for 16 lanes");
static void eq_mul_where_stream_fdiv_cast_phase0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const uint16_t *restrict Q = buf[0];
  const uint16_t *restrict K = buf[1];
  const uint8_t *restrict n5 = buf[2];
  const uint16_t *restrict V = buf[3];
  uint16_t *restrict n37 = buf[4];
  float *restrict queries = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread], 64);
  float *restrict keys = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread] + 1600, 64);
  float *restrict stream_3_sums = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread] + 2624, 64);
  float *restrict score_tile = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread] + 3392, 64);
  float *restrict fresh = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread] + 4928, 64);
  float *restrict base = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread] + 5056, 64);
  float *restrict shrink = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread] + 5184, 64);
  float *restrict top = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread] + 5312, 64);
  float *restrict stream_4_sum = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread] + 5440, 64);
  float *restrict square = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread] + 5568, 64);
  const int64_t task_ = task;
  for (int64_t b = 0; b < 2; b++) {
    const int64_t b_2 = b;
    for (int64_t x = 0; x < 12; x += 16) {
      eq_store_f32(top + x, eq_imm_f32(-INFINITY));
      eq_store_f32(stream_4_sum + x, eq_imm_f32(0.0f));
    }
    /* pack the rows of Q */
    for (int64_t x_2 = 0; x_2 < 12; x_2++) {
      for (int64_t k = 0; k < 16; k += 16) {
        const eq_f32 Q_2 = eq_load_f16(Q + 192 * b_2 + 16 * x_2 + k);
        eq_store_f32(queries + 32 * x_2 + k, Q_2);
      }
    }
    /* pack a block of K */
    for (int64_t n = 0; n < 12; n += 16) {
      for (int64_t x_3 = n; x_3 < 12; x_3 += 16) {
        for (int64_t k_2 = 0; k_2 < 1; k_2 += 16) {
          for (int64_t x_4 = x_3; x_4 < 12; x_4++) {
            const eq_f32 K_2 = eq_load_f16(K + 192 * b_2 + k_2 + 16 * x_4);
            eq_store_f32(square + -16 * x_3 + 16 * x_4, K_2);
          }
          eq_transpose_32(keys + 15 * n + x_3 + 16 * k_2, 16, square, 16);
        }
      }
    }
    for (int64_t r0 = 0; r0 < 12; r0 += 12) {
      /* 12 x 16 scores in registers */
      for (int64_t n_2 = 0; n_2 < 12; n_2 += 16) {
        for (int64_t m = 0; m < 12; m += 12) {
          eq_f32 c0_0 = eq_imm_f32(0.0f);
          eq_f32 c1_0 = eq_imm_f32(0.0f);
          eq_f32 c2_0 = eq_imm_f32(0.0f);
          eq_f32 c3_0 = eq_imm_f32(0.0f);
          eq_f32 c4_0 = eq_imm_f32(0.0f);
          eq_f32 c5_0 = eq_imm_f32(0.0f);
          eq_f32 c6_0 = eq_imm_f32(0.0f);
          eq_f32 c7_0 = eq_imm_f32(0.0f);
          eq_f32 c8_0 = eq_imm_f32(0.0f);
          eq_f32 c9_0 = eq_imm_f32(0.0f);
          eq_f32 c10_0 = eq_imm_f32(0.0f);
          eq_f32 c11_0 = eq_imm_f32(0.0f);
          EQ_UNROLL(4)
          for (int64_t k_3 = 0; k_3 < 16; k_3++) {
            const eq_f32 b0 = eq_pin_f32(eq_load_f32(keys + 16 * n_2 + 16 * k_3));
            const eq_f32 a = eq_splat_f32(queries + k_3);
            c0_0 = eq_fma_f32(a, b0, c0_0);
            const eq_f32 a_2 = eq_splat_f32(queries + k_3 + 32);
            c1_0 = eq_fma_f32(a_2, b0, c1_0);
            const eq_f32 a_3 = eq_splat_f32(queries + k_3 + 64);
            c2_0 = eq_fma_f32(a_3, b0, c2_0);
            const eq_f32 a_4 = eq_splat_f32(queries + k_3 + 96);
            c3_0 = eq_fma_f32(a_4, b0, c3_0);
            const eq_f32 a_5 = eq_splat_f32(queries + k_3 + 128);
            c4_0 = eq_fma_f32(a_5, b0, c4_0);
            const eq_f32 a_6 = eq_splat_f32(queries + k_3 + 160);
            c5_0 = eq_fma_f32(a_6, b0, c5_0);
            const eq_f32 a_7 = eq_splat_f32(queries + k_3 + 192);
            c6_0 = eq_fma_f32(a_7, b0, c6_0);
            const eq_f32 a_8 = eq_splat_f32(queries + k_3 + 224);
            c7_0 = eq_fma_f32(a_8, b0, c7_0);
            const eq_f32 a_9 = eq_splat_f32(queries + k_3 + 256);
            c8_0 = eq_fma_f32(a_9, b0, c8_0);
            const eq_f32 a_10 = eq_splat_f32(queries + k_3 + 288);
            c9_0 = eq_fma_f32(a_10, b0, c9_0);
            const eq_f32 a_11 = eq_splat_f32(queries + k_3 + 320);
            c10_0 = eq_fma_f32(a_11, b0, c10_0);
            const eq_f32 a_12 = eq_splat_f32(queries + k_3 + 352);
            c11_0 = eq_fma_f32(a_12, b0, c11_0);
          }
          eq_store_f32(score_tile + n_2, c0_0);
          eq_store_f32(score_tile + n_2 + 32, c1_0);
          eq_store_f32(score_tile + n_2 + 64, c2_0);
          eq_store_f32(score_tile + n_2 + 96, c3_0);
          eq_store_f32(score_tile + n_2 + 128, c4_0);
          eq_store_f32(score_tile + n_2 + 160, c5_0);
          eq_store_f32(score_tile + n_2 + 192, c6_0);
          eq_store_f32(score_tile + n_2 + 224, c7_0);
          eq_store_f32(score_tile + n_2 + 256, c8_0);
          eq_store_f32(score_tile + n_2 + 288, c9_0);
          eq_store_f32(score_tile + n_2 + 320, c10_0);
          eq_store_f32(score_tile + n_2 + 352, c11_0);
        }
      }
      /* scores, and the maximum of each row */
      for (int64_t r = 0; r < 12; r++) {
        eq_f32 top_2 = eq_imm_f32(-INFINITY);
        eq_f32 top_3 = eq_imm_f32(-INFINITY);
        eq_f32 top_4 = eq_imm_f32(-INFINITY);
        eq_f32 top_5 = eq_imm_f32(-INFINITY);
        for (int64_t c = 0; c < 12; c += 16) {
          const int64_t n_3 = eq_less(-c + 12, 16);
          const eq_bool exists = eq_first(n_3);
          const eq_f32 sum = eq_load_f32(score_tile + 32 * r + c);
          const eq_bool n5_2 = eq_load_n_bool(n5 + 12 * r + c, n_3);
          const eq_f32 mul_1 = eq_mul_f32(sum, eq_imm_f32(0.25f));
          const eq_f32 where_2 = eq_where_f32(n5_2, mul_1, eq_imm_f32(-INFINITY));
          const eq_f32 score = eq_where_f32(exists, where_2, eq_imm_f32(-INFINITY));
          eq_store_f32(score_tile + 32 * r + c, score);
          top_2 = eq_max_f32(top_2, score);
        }
        eq_store_n_f32(fresh + r, eq_imm_f32(eq_hmax_f32(eq_max_f32(eq_max_f32(top_2, top_3), eq_max_f32(top_4, top_5)))), 1);
      }
      for (int64_t x_5 = 0; x_5 < 12; x_5 += 16) {
        const eq_f32 before = eq_load_n_f32(top + x_5, 12);
        const eq_f32 top_6 = eq_max_f32(before, eq_load_n_f32(fresh + x_5, 12));
        const eq_f32 base_2 = eq_where_f32(eq_cmpeq_f32(top_6, eq_imm_f32(-INFINITY)), eq_imm_f32(0.0f), top_6);
        const eq_f32 shrink_2 = eq_exp_f32(eq_sub_f32(before, base_2));
        eq_store_n_f32(top + x_5, top_6, 12);
        eq_store_n_f32(base + x_5, base_2, 12);
        eq_store_n_f32(shrink + x_5, shrink_2, 12);
        eq_store_n_f32(stream_4_sum + x_5, eq_mul_f32(eq_load_n_f32(stream_4_sum + x_5, 12), shrink_2), 12);
      }
      /* weights */
      for (int64_t r_2 = 0; r_2 < 12; r_2++) {
        const eq_f32 base_3 = eq_splat_f32(base + r_2);
        eq_f32 stream_4 = eq_imm_f32(0.0f);
        eq_f32 stream_4_2 = eq_imm_f32(0.0f);
        eq_f32 stream_4_3 = eq_imm_f32(0.0f);
        eq_f32 stream_4_4 = eq_imm_f32(0.0f);
        for (int64_t c_2 = 0; c_2 < 12; c_2 += 16) {
          const int64_t n_4 = eq_less(-c_2 + 12, 16);
          const eq_bool exists_2 = eq_first(n_4);
          const eq_f32 p = eq_exp_f32(eq_sub_f32(eq_load_f32(score_tile + 32 * r_2 + c_2), base_3));
          eq_store_f32(score_tile + 32 * r_2 + c_2, p);
          stream_4 = eq_add_f32(stream_4, eq_where_f32(exists_2, p, eq_imm_f32(0.0f)));
        }
        eq_store_n_f32(stream_4_sum + r_2, eq_add_f32(eq_splat_f32(stream_4_sum + r_2), eq_imm_f32(eq_hsum_f32(eq_add_f32(eq_add_f32(stream_4, stream_4_2), eq_add_f32(stream_4_3, stream_4_4))))), 1);
      }
      /* 12 x 16 sums in registers */
      for (int64_t n_5 = 0; n_5 < 16; n_5 += 16) {
        for (int64_t m_2 = 0; m_2 < 12; m_2 += 12) {
          eq_f32 c0_0_2 = eq_imm_f32(0.0f);
          eq_f32 c1_0_2 = eq_imm_f32(0.0f);
          eq_f32 c2_0_2 = eq_imm_f32(0.0f);
          eq_f32 c3_0_2 = eq_imm_f32(0.0f);
          eq_f32 c4_0_2 = eq_imm_f32(0.0f);
          eq_f32 c5_0_2 = eq_imm_f32(0.0f);
          eq_f32 c6_0_2 = eq_imm_f32(0.0f);
          eq_f32 c7_0_2 = eq_imm_f32(0.0f);
          eq_f32 c8_0_2 = eq_imm_f32(0.0f);
          eq_f32 c9_0_2 = eq_imm_f32(0.0f);
          eq_f32 c10_0_2 = eq_imm_f32(0.0f);
          eq_f32 c11_0_2 = eq_imm_f32(0.0f);
          const int64_t column = 0;
          EQ_UNROLL(4)
          for (int64_t k_4 = 0; k_4 < 12; k_4++) {
            const eq_f32 V_2 = eq_load_f16(V + 192 * b_2 + column + 16 * k_4);
            const eq_f32 b0_2 = eq_pin_f32(V_2);
            const eq_f32 a_13 = eq_splat_f32(score_tile + k_4);
            c0_0_2 = eq_fma_f32(a_13, b0_2, c0_0_2);
            const eq_f32 a_14 = eq_splat_f32(score_tile + k_4 + 32);
            c1_0_2 = eq_fma_f32(a_14, b0_2, c1_0_2);
            const eq_f32 a_15 = eq_splat_f32(score_tile + k_4 + 64);
            c2_0_2 = eq_fma_f32(a_15, b0_2, c2_0_2);
            const eq_f32 a_16 = eq_splat_f32(score_tile + k_4 + 96);
            c3_0_2 = eq_fma_f32(a_16, b0_2, c3_0_2);
            const eq_f32 a_17 = eq_splat_f32(score_tile + k_4 + 128);
            c4_0_2 = eq_fma_f32(a_17, b0_2, c4_0_2);
            const eq_f32 a_18 = eq_splat_f32(score_tile + k_4 + 160);
            c5_0_2 = eq_fma_f32(a_18, b0_2, c5_0_2);
            const eq_f32 a_19 = eq_splat_f32(score_tile + k_4 + 192);
            c6_0_2 = eq_fma_f32(a_19, b0_2, c6_0_2);
            const eq_f32 a_20 = eq_splat_f32(score_tile + k_4 + 224);
            c7_0_2 = eq_fma_f32(a_20, b0_2, c7_0_2);
            const eq_f32 a_21 = eq_splat_f32(score_tile + k_4 + 256);
            c8_0_2 = eq_fma_f32(a_21, b0_2, c8_0_2);
            const eq_f32 a_22 = eq_splat_f32(score_tile + k_4 + 288);
            c9_0_2 = eq_fma_f32(a_22, b0_2, c9_0_2);
            const eq_f32 a_23 = eq_splat_f32(score_tile + k_4 + 320);
            c10_0_2 = eq_fma_f32(a_23, b0_2, c10_0_2);
            const eq_f32 a_24 = eq_splat_f32(score_tile + k_4 + 352);
            c11_0_2 = eq_fma_f32(a_24, b0_2, c11_0_2);
          }
          eq_store_f32(stream_3_sums + n_5, c0_0_2);
          eq_store_f32(stream_3_sums + n_5 + 16, c1_0_2);
          eq_store_f32(stream_3_sums + n_5 + 32, c2_0_2);
          eq_store_f32(stream_3_sums + n_5 + 48, c3_0_2);
          eq_store_f32(stream_3_sums + n_5 + 64, c4_0_2);
          eq_store_f32(stream_3_sums + n_5 + 80, c5_0_2);
          eq_store_f32(stream_3_sums + n_5 + 96, c6_0_2);
          eq_store_f32(stream_3_sums + n_5 + 112, c7_0_2);
          eq_store_f32(stream_3_sums + n_5 + 128, c8_0_2);
          eq_store_f32(stream_3_sums + n_5 + 144, c9_0_2);
          eq_store_f32(stream_3_sums + n_5 + 160, c10_0_2);
          eq_store_f32(stream_3_sums + n_5 + 176, c11_0_2);
        }
      }
    }
    /* epilogue: fdiv, cast */
    for (int64_t r_3 = 0; r_3 < 12; r_3++) {
      const eq_f32 top_7 = eq_splat_f32(top + r_3);
      const eq_f32 top_8 = eq_splat_f32(top + r_3);
      const eq_f32 stream_4_5 = eq_add_f32(eq_splat_f32(stream_4_sum + r_3), eq_sub_f32(top_8, top_8));
      for (int64_t j = 0; j < 16; j += 16) {
        const eq_f32 stream_3 = eq_add_f32(eq_load_f32(stream_3_sums + 16 * r_3 + j), eq_sub_f32(top_7, top_7));
        const eq_f32 fdiv_5 = eq_fdiv_f32(stream_3, stream_4_5);
        eq_store_u16(n37 + 192 * b_2 + 16 * r_3 + j, eq_bits_of_nearest_f16(fdiv_5));
      }
    }
  }
}
void eq_mul_where_stream_fdiv_cast(void *const *buf, int32_t threads) {
  eq_mul_where_stream_fdiv_cast_phase0((void *)buf, 0, 0);
}
