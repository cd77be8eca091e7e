/* dot_cast_mul_where_cast: 2 products of 12 x 16 (Q) and 16 x 12 (K)
   tile 12 x 16, blocks 12 x 16 x 16, outer, cache K: packed at n.i
   epilogue cast, mul, where, cast, tails n */
_Static_assert(EQ_VL == 16, "eq_dot_cast_mul_where_cast is written for 16 lanes");
static void eq_dot_cast_mul_where_cast_0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const uint16_t *restrict Q = buf[0];
  const uint16_t *restrict K = buf[1];
  const uint8_t *restrict n5 = buf[2];
  float *restrict n19 = buf[3];
  float *restrict sums = __builtin_assume_aligned(((char *const *)buf[4])[1 + thread], 64);
  float *restrict columns = __builtin_assume_aligned(((char *const *)buf[4])[1 + thread] + 768, 64);
  float *restrict square = __builtin_assume_aligned(((char *const *)buf[4])[1 + thread] + 1792, 64);
  const int64_t task_ = task;
  for (int64_t b = 0; b < 2; b++) {
    const int64_t b_2 = b;
    for (int64_t n = 0; n < 12; n += 16) {
      /* pack a panel of K */
      for (int64_t x = 0; x < 12; x += 16) {
        for (int64_t k = 0; k < 1; k += 16) {
          for (int64_t x_2 = x; x_2 < 12; x_2++) {
            const eq_f32 K_2 = eq_load_f16(K + 192 * b_2 + k + 16 * x_2);
            eq_store_f32(square + -16 * x + 16 * x_2, K_2);
          }
          eq_transpose_32(columns + x + 16 * k, 16, square, 16);
        }
      }
      for (int64_t m = 0; m < 12; m += 12) {
        /* 12 x 16 sums in registers */
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
        for (int64_t k_2 = 0; k_2 < 16; k_2++) {
          const eq_f32 b0 = eq_load_f32(columns + 16 * k_2);
          const eq_f32 Q_2 = eq_splat_f16(Q + 192 * b_2 + k_2);
          c0_0 = eq_fma_f32(Q_2, b0, c0_0);
          const eq_f32 Q_3 = eq_splat_f16(Q + 192 * b_2 + k_2 + 16);
          c1_0 = eq_fma_f32(Q_3, b0, c1_0);
          const eq_f32 Q_4 = eq_splat_f16(Q + 192 * b_2 + k_2 + 32);
          c2_0 = eq_fma_f32(Q_4, b0, c2_0);
          const eq_f32 Q_5 = eq_splat_f16(Q + 192 * b_2 + k_2 + 48);
          c3_0 = eq_fma_f32(Q_5, b0, c3_0);
          const eq_f32 Q_6 = eq_splat_f16(Q + 192 * b_2 + k_2 + 64);
          c4_0 = eq_fma_f32(Q_6, b0, c4_0);
          const eq_f32 Q_7 = eq_splat_f16(Q + 192 * b_2 + k_2 + 80);
          c5_0 = eq_fma_f32(Q_7, b0, c5_0);
          const eq_f32 Q_8 = eq_splat_f16(Q + 192 * b_2 + k_2 + 96);
          c6_0 = eq_fma_f32(Q_8, b0, c6_0);
          const eq_f32 Q_9 = eq_splat_f16(Q + 192 * b_2 + k_2 + 112);
          c7_0 = eq_fma_f32(Q_9, b0, c7_0);
          const eq_f32 Q_10 = eq_splat_f16(Q + 192 * b_2 + k_2 + 128);
          c8_0 = eq_fma_f32(Q_10, b0, c8_0);
          const eq_f32 Q_11 = eq_splat_f16(Q + 192 * b_2 + k_2 + 144);
          c9_0 = eq_fma_f32(Q_11, b0, c9_0);
          const eq_f32 Q_12 = eq_splat_f16(Q + 192 * b_2 + k_2 + 160);
          c10_0 = eq_fma_f32(Q_12, b0, c10_0);
          const eq_f32 Q_13 = eq_splat_f16(Q + 192 * b_2 + k_2 + 176);
          c11_0 = eq_fma_f32(Q_13, b0, c11_0);
        }
        eq_store_f32(sums, c0_0);
        eq_store_f32(sums + 16, c1_0);
        eq_store_f32(sums + 32, c2_0);
        eq_store_f32(sums + 48, c3_0);
        eq_store_f32(sums + 64, c4_0);
        eq_store_f32(sums + 80, c5_0);
        eq_store_f32(sums + 96, c6_0);
        eq_store_f32(sums + 112, c7_0);
        eq_store_f32(sums + 128, c8_0);
        eq_store_f32(sums + 144, c9_0);
        eq_store_f32(sums + 160, c10_0);
        eq_store_f32(sums + 176, c11_0);
        /* epilogue: cast, mul, where, cast */
        for (int64_t r = 0; r < 12; r++) {
          for (int64_t c = 0; c < 12; c += 16) {
            const int64_t n_2 = eq_less(-c + 12, 16);
            const eq_f32 sum = eq_load_n_f32(sums + 16 * r + c, n_2);
            const eq_bool n5_2 = eq_load_n_bool(n5 + 12 * r + c, n_2);
            const eq_f32 cast_1 = eq_round_f16(sum);
            const eq_f32 mul_2 = eq_round_f16(eq_mul_f32(cast_1, eq_imm_f32(0.25f)));
            const eq_f32 where_3 = eq_where_f32(n5_2, mul_2, eq_imm_f32(-INFINITY));
            eq_store_n_f32(n19 + 144 * b_2 + 12 * r + c, where_3, n_2);
          }
        }
      }
    }
  }
}
void eq_dot_cast_mul_where_cast(void *const *buf, int32_t threads) {
  eq_dot_cast_mul_where_cast_0((void *)buf, 0, 0);
}

/* region max (n19: fp32[1,2,12,12]) -> (n20: fp32[1,2,12])
     max_0 = reduce max(n19[0, i0, i1, i2]) : fp32 over [2,12,12], the last 1 reduced
     n20 = max_0[i1, i2]
   plan avx512: nest i0i1i2, tile [24], bind {}, 16 elements a step along i0i1i2, tails along i0i1i2 */
_Static_assert(EQ_VL == 16, "eq_max is written for 16 lanes");
static void eq_max_0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const float *restrict n19 = buf[0];
  float *restrict n20 = buf[1];
  const int64_t t = task;
  for (int64_t i0i1i2 = 0; i0i1i2 < 16; i0i1i2 += 16) {
    eq_f32 max_0_acc = eq_imm_f32(-INFINITY);
    const eq_f32 n19_2 = eq_strided_f32(n19 + 12 * i0i1i2, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_2);
    const eq_f32 n19_3 = eq_strided_f32(n19 + 12 * i0i1i2 + 1, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_3);
    const eq_f32 n19_4 = eq_strided_f32(n19 + 12 * i0i1i2 + 2, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_4);
    const eq_f32 n19_5 = eq_strided_f32(n19 + 12 * i0i1i2 + 3, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_5);
    const eq_f32 n19_6 = eq_strided_f32(n19 + 12 * i0i1i2 + 4, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_6);
    const eq_f32 n19_7 = eq_strided_f32(n19 + 12 * i0i1i2 + 5, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_7);
    const eq_f32 n19_8 = eq_strided_f32(n19 + 12 * i0i1i2 + 6, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_8);
    const eq_f32 n19_9 = eq_strided_f32(n19 + 12 * i0i1i2 + 7, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_9);
    const eq_f32 n19_10 = eq_strided_f32(n19 + 12 * i0i1i2 + 8, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_10);
    const eq_f32 n19_11 = eq_strided_f32(n19 + 12 * i0i1i2 + 9, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_11);
    const eq_f32 n19_12 = eq_strided_f32(n19 + 12 * i0i1i2 + 10, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_12);
    const eq_f32 n19_13 = eq_strided_f32(n19 + 12 * i0i1i2 + 11, 12, EQ_VL);
    max_0_acc = eq_max_f32(max_0_acc, n19_13);
    eq_store_f32(n20 + i0i1i2, max_0_acc);
  }
  for (int64_t i0i1i2_2 = 16; i0i1i2_2 < 24; i0i1i2_2 += 16) {
    eq_f32 max_0_acc_2 = eq_imm_f32(-INFINITY);
    const eq_f32 n19_14 = eq_strided_f32(n19 + 12 * i0i1i2_2, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_14);
    const eq_f32 n19_15 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 1, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_15);
    const eq_f32 n19_16 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 2, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_16);
    const eq_f32 n19_17 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 3, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_17);
    const eq_f32 n19_18 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 4, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_18);
    const eq_f32 n19_19 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 5, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_19);
    const eq_f32 n19_20 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 6, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_20);
    const eq_f32 n19_21 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 7, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_21);
    const eq_f32 n19_22 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 8, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_22);
    const eq_f32 n19_23 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 9, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_23);
    const eq_f32 n19_24 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 10, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_24);
    const eq_f32 n19_25 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 11, 12, 8);
    max_0_acc_2 = eq_max_f32(max_0_acc_2, n19_25);
    eq_store_n_f32(n20 + i0i1i2_2, max_0_acc_2, 8);
  }
}
void eq_max(void *const *buf, int32_t threads) {
  eq_max_0((void *)buf, 0, 0);
}

/* region sum (n19: fp32[1,2,12,12], n20: fp32[1,2,12]) -> (n25: fp32[1,2,12])
     sub_0 = sub(n19[0, i0, i1, i2], n20[0, i0, i1]) : fp32 over [2,12,12]
     exp_1 = exp(sub_0[i0, i1, i2]) : fp32 over [2,12,12]
     sum_2 = reduce sum(exp_1[i0, i1, i2]) : fp32 over [2,12,12], the last 1 reduced
     n25 = sum_2[i1, i2]
   plan avx512: nest i0i1i2, tile [24], bind {}, 16 elements a step along i0i1i2, tails along i0i1i2 */
_Static_assert(EQ_VL == 16, "eq_sum is written for 16 lanes");
static void eq_sum_0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const float *restrict n19 = buf[0];
  const float *restrict n20 = buf[1];
  float *restrict n25 = buf[2];
  const int64_t t = task;
  for (int64_t i0i1i2 = 0; i0i1i2 < 16; i0i1i2 += 16) {
    eq_f32 sum_2_acc = eq_imm_f32(0.0f);
    const eq_f32 n19_2 = eq_strided_f32(n19 + 12 * i0i1i2, 12, EQ_VL);
    const eq_f32 n20_2 = eq_load_f32(n20 + i0i1i2);
    const eq_f32 sub_0 = eq_sub_f32(n19_2, n20_2);
    const eq_f32 exp_1 = eq_exp_f32(sub_0);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1);
    const eq_f32 n19_3 = eq_strided_f32(n19 + 12 * i0i1i2 + 1, 12, EQ_VL);
    const eq_f32 sub_0_2 = eq_sub_f32(n19_3, n20_2);
    const eq_f32 exp_1_2 = eq_exp_f32(sub_0_2);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_2);
    const eq_f32 n19_4 = eq_strided_f32(n19 + 12 * i0i1i2 + 2, 12, EQ_VL);
    const eq_f32 sub_0_3 = eq_sub_f32(n19_4, n20_2);
    const eq_f32 exp_1_3 = eq_exp_f32(sub_0_3);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_3);
    const eq_f32 n19_5 = eq_strided_f32(n19 + 12 * i0i1i2 + 3, 12, EQ_VL);
    const eq_f32 sub_0_4 = eq_sub_f32(n19_5, n20_2);
    const eq_f32 exp_1_4 = eq_exp_f32(sub_0_4);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_4);
    const eq_f32 n19_6 = eq_strided_f32(n19 + 12 * i0i1i2 + 4, 12, EQ_VL);
    const eq_f32 sub_0_5 = eq_sub_f32(n19_6, n20_2);
    const eq_f32 exp_1_5 = eq_exp_f32(sub_0_5);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_5);
    const eq_f32 n19_7 = eq_strided_f32(n19 + 12 * i0i1i2 + 5, 12, EQ_VL);
    const eq_f32 sub_0_6 = eq_sub_f32(n19_7, n20_2);
    const eq_f32 exp_1_6 = eq_exp_f32(sub_0_6);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_6);
    const eq_f32 n19_8 = eq_strided_f32(n19 + 12 * i0i1i2 + 6, 12, EQ_VL);
    const eq_f32 sub_0_7 = eq_sub_f32(n19_8, n20_2);
    const eq_f32 exp_1_7 = eq_exp_f32(sub_0_7);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_7);
    const eq_f32 n19_9 = eq_strided_f32(n19 + 12 * i0i1i2 + 7, 12, EQ_VL);
    const eq_f32 sub_0_8 = eq_sub_f32(n19_9, n20_2);
    const eq_f32 exp_1_8 = eq_exp_f32(sub_0_8);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_8);
    const eq_f32 n19_10 = eq_strided_f32(n19 + 12 * i0i1i2 + 8, 12, EQ_VL);
    const eq_f32 sub_0_9 = eq_sub_f32(n19_10, n20_2);
    const eq_f32 exp_1_9 = eq_exp_f32(sub_0_9);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_9);
    const eq_f32 n19_11 = eq_strided_f32(n19 + 12 * i0i1i2 + 9, 12, EQ_VL);
    const eq_f32 sub_0_10 = eq_sub_f32(n19_11, n20_2);
    const eq_f32 exp_1_10 = eq_exp_f32(sub_0_10);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_10);
    const eq_f32 n19_12 = eq_strided_f32(n19 + 12 * i0i1i2 + 10, 12, EQ_VL);
    const eq_f32 sub_0_11 = eq_sub_f32(n19_12, n20_2);
    const eq_f32 exp_1_11 = eq_exp_f32(sub_0_11);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_11);
    const eq_f32 n19_13 = eq_strided_f32(n19 + 12 * i0i1i2 + 11, 12, EQ_VL);
    const eq_f32 sub_0_12 = eq_sub_f32(n19_13, n20_2);
    const eq_f32 exp_1_12 = eq_exp_f32(sub_0_12);
    sum_2_acc = eq_add_f32(sum_2_acc, exp_1_12);
    eq_store_f32(n25 + i0i1i2, sum_2_acc);
  }
  for (int64_t i0i1i2_2 = 16; i0i1i2_2 < 24; i0i1i2_2 += 16) {
    eq_f32 sum_2_acc_2 = eq_imm_f32(0.0f);
    const eq_f32 n19_14 = eq_strided_f32(n19 + 12 * i0i1i2_2, 12, 8);
    const eq_f32 n20_3 = eq_load_n_f32(n20 + i0i1i2_2, 8);
    const eq_f32 sub_0_13 = eq_sub_f32(n19_14, n20_3);
    const eq_f32 exp_1_13 = eq_exp_f32(sub_0_13);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_13);
    const eq_f32 n19_15 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 1, 12, 8);
    const eq_f32 sub_0_14 = eq_sub_f32(n19_15, n20_3);
    const eq_f32 exp_1_14 = eq_exp_f32(sub_0_14);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_14);
    const eq_f32 n19_16 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 2, 12, 8);
    const eq_f32 sub_0_15 = eq_sub_f32(n19_16, n20_3);
    const eq_f32 exp_1_15 = eq_exp_f32(sub_0_15);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_15);
    const eq_f32 n19_17 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 3, 12, 8);
    const eq_f32 sub_0_16 = eq_sub_f32(n19_17, n20_3);
    const eq_f32 exp_1_16 = eq_exp_f32(sub_0_16);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_16);
    const eq_f32 n19_18 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 4, 12, 8);
    const eq_f32 sub_0_17 = eq_sub_f32(n19_18, n20_3);
    const eq_f32 exp_1_17 = eq_exp_f32(sub_0_17);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_17);
    const eq_f32 n19_19 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 5, 12, 8);
    const eq_f32 sub_0_18 = eq_sub_f32(n19_19, n20_3);
    const eq_f32 exp_1_18 = eq_exp_f32(sub_0_18);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_18);
    const eq_f32 n19_20 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 6, 12, 8);
    const eq_f32 sub_0_19 = eq_sub_f32(n19_20, n20_3);
    const eq_f32 exp_1_19 = eq_exp_f32(sub_0_19);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_19);
    const eq_f32 n19_21 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 7, 12, 8);
    const eq_f32 sub_0_20 = eq_sub_f32(n19_21, n20_3);
    const eq_f32 exp_1_20 = eq_exp_f32(sub_0_20);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_20);
    const eq_f32 n19_22 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 8, 12, 8);
    const eq_f32 sub_0_21 = eq_sub_f32(n19_22, n20_3);
    const eq_f32 exp_1_21 = eq_exp_f32(sub_0_21);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_21);
    const eq_f32 n19_23 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 9, 12, 8);
    const eq_f32 sub_0_22 = eq_sub_f32(n19_23, n20_3);
    const eq_f32 exp_1_22 = eq_exp_f32(sub_0_22);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_22);
    const eq_f32 n19_24 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 10, 12, 8);
    const eq_f32 sub_0_23 = eq_sub_f32(n19_24, n20_3);
    const eq_f32 exp_1_23 = eq_exp_f32(sub_0_23);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_23);
    const eq_f32 n19_25 = eq_strided_f32(n19 + 12 * i0i1i2_2 + 11, 12, 8);
    const eq_f32 sub_0_24 = eq_sub_f32(n19_25, n20_3);
    const eq_f32 exp_1_24 = eq_exp_f32(sub_0_24);
    sum_2_acc_2 = eq_add_f32(sum_2_acc_2, exp_1_24);
    eq_store_n_f32(n25 + i0i1i2_2, sum_2_acc_2, 8);
  }
}
void eq_sum(void *const *buf, int32_t threads) {
  eq_sum_0((void *)buf, 0, 0);
}

/* dot_cast: 2 products of 12 x 12 (cast_3) and 12 x 16 (V)
   tile 12 x 16, blocks 12 x 16 x 12, outer, cache none
   epilogue cast, tails none */
_Static_assert(EQ_VL == 16, "eq_dot_cast is written for 16 lanes");
static void eq_dot_cast_0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const float *restrict n19 = buf[0];
  const float *restrict n20 = buf[1];
  const float *restrict n25 = buf[2];
  const uint16_t *restrict V = buf[3];
  uint16_t *restrict n37 = buf[4];
  float *restrict sums = __builtin_assume_aligned(((char *const *)buf[5])[1 + thread], 64);
  const int64_t task_ = task;
  for (int64_t b = 0; b < 2; b++) {
    const int64_t b_2 = b;
    const eq_f32 n20_2 = eq_splat_f32(n20 + 12 * b_2);
    const eq_f32 n25_2 = eq_splat_f32(n25 + 12 * b_2);
    const eq_f32 n20_3 = eq_splat_f32(n20 + 12 * b_2 + 1);
    const eq_f32 n25_3 = eq_splat_f32(n25 + 12 * b_2 + 1);
    const eq_f32 n20_4 = eq_splat_f32(n20 + 12 * b_2 + 2);
    const eq_f32 n25_4 = eq_splat_f32(n25 + 12 * b_2 + 2);
    const eq_f32 n20_5 = eq_splat_f32(n20 + 12 * b_2 + 3);
    const eq_f32 n25_5 = eq_splat_f32(n25 + 12 * b_2 + 3);
    const eq_f32 n20_6 = eq_splat_f32(n20 + 12 * b_2 + 4);
    const eq_f32 n25_6 = eq_splat_f32(n25 + 12 * b_2 + 4);
    const eq_f32 n20_7 = eq_splat_f32(n20 + 12 * b_2 + 5);
    const eq_f32 n25_7 = eq_splat_f32(n25 + 12 * b_2 + 5);
    const eq_f32 n20_8 = eq_splat_f32(n20 + 12 * b_2 + 6);
    const eq_f32 n25_8 = eq_splat_f32(n25 + 12 * b_2 + 6);
    const eq_f32 n20_9 = eq_splat_f32(n20 + 12 * b_2 + 7);
    const eq_f32 n25_9 = eq_splat_f32(n25 + 12 * b_2 + 7);
    const eq_f32 n20_10 = eq_splat_f32(n20 + 12 * b_2 + 8);
    const eq_f32 n25_10 = eq_splat_f32(n25 + 12 * b_2 + 8);
    const eq_f32 n20_11 = eq_splat_f32(n20 + 12 * b_2 + 9);
    const eq_f32 n25_11 = eq_splat_f32(n25 + 12 * b_2 + 9);
    const eq_f32 n20_12 = eq_splat_f32(n20 + 12 * b_2 + 10);
    const eq_f32 n25_12 = eq_splat_f32(n25 + 12 * b_2 + 10);
    const eq_f32 n20_13 = eq_splat_f32(n20 + 12 * b_2 + 11);
    const eq_f32 n25_13 = eq_splat_f32(n25 + 12 * b_2 + 11);
    for (int64_t n = 0; n < 16; n += 16) {
      for (int64_t m = 0; m < 12; m += 12) {
        /* 12 x 16 sums in registers */
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
        const int64_t column = eq_less(0, 15);
        for (int64_t k = 0; k < 12; k++) {
          const eq_f32 V_2 = eq_load_f16(V + 192 * b_2 + column + 16 * k);
          const eq_f32 n19_2 = eq_splat_f32(n19 + 144 * b_2 + k);
          const eq_f32 sub_0 = eq_sub_f32(n19_2, n20_2);
          const eq_f32 exp_1 = eq_exp_f32(sub_0);
          const eq_f32 fdiv_2 = eq_fdiv_f32(exp_1, n25_2);
          const eq_f32 cast_3 = eq_round_f16(fdiv_2);
          c0_0 = eq_fma_f32(cast_3, V_2, c0_0);
          const eq_f32 n19_3 = eq_splat_f32(n19 + 144 * b_2 + k + 12);
          const eq_f32 sub_0_2 = eq_sub_f32(n19_3, n20_3);
          const eq_f32 exp_1_2 = eq_exp_f32(sub_0_2);
          const eq_f32 fdiv_2_2 = eq_fdiv_f32(exp_1_2, n25_3);
          const eq_f32 cast_3_2 = eq_round_f16(fdiv_2_2);
          c1_0 = eq_fma_f32(cast_3_2, V_2, c1_0);
          const eq_f32 n19_4 = eq_splat_f32(n19 + 144 * b_2 + k + 24);
          const eq_f32 sub_0_3 = eq_sub_f32(n19_4, n20_4);
          const eq_f32 exp_1_3 = eq_exp_f32(sub_0_3);
          const eq_f32 fdiv_2_3 = eq_fdiv_f32(exp_1_3, n25_4);
          const eq_f32 cast_3_3 = eq_round_f16(fdiv_2_3);
          c2_0 = eq_fma_f32(cast_3_3, V_2, c2_0);
          const eq_f32 n19_5 = eq_splat_f32(n19 + 144 * b_2 + k + 36);
          const eq_f32 sub_0_4 = eq_sub_f32(n19_5, n20_5);
          const eq_f32 exp_1_4 = eq_exp_f32(sub_0_4);
          const eq_f32 fdiv_2_4 = eq_fdiv_f32(exp_1_4, n25_5);
          const eq_f32 cast_3_4 = eq_round_f16(fdiv_2_4);
          c3_0 = eq_fma_f32(cast_3_4, V_2, c3_0);
          const eq_f32 n19_6 = eq_splat_f32(n19 + 144 * b_2 + k + 48);
          const eq_f32 sub_0_5 = eq_sub_f32(n19_6, n20_6);
          const eq_f32 exp_1_5 = eq_exp_f32(sub_0_5);
          const eq_f32 fdiv_2_5 = eq_fdiv_f32(exp_1_5, n25_6);
          const eq_f32 cast_3_5 = eq_round_f16(fdiv_2_5);
          c4_0 = eq_fma_f32(cast_3_5, V_2, c4_0);
          const eq_f32 n19_7 = eq_splat_f32(n19 + 144 * b_2 + k + 60);
          const eq_f32 sub_0_6 = eq_sub_f32(n19_7, n20_7);
          const eq_f32 exp_1_6 = eq_exp_f32(sub_0_6);
          const eq_f32 fdiv_2_6 = eq_fdiv_f32(exp_1_6, n25_7);
          const eq_f32 cast_3_6 = eq_round_f16(fdiv_2_6);
          c5_0 = eq_fma_f32(cast_3_6, V_2, c5_0);
          const eq_f32 n19_8 = eq_splat_f32(n19 + 144 * b_2 + k + 72);
          const eq_f32 sub_0_7 = eq_sub_f32(n19_8, n20_8);
          const eq_f32 exp_1_7 = eq_exp_f32(sub_0_7);
          const eq_f32 fdiv_2_7 = eq_fdiv_f32(exp_1_7, n25_8);
          const eq_f32 cast_3_7 = eq_round_f16(fdiv_2_7);
          c6_0 = eq_fma_f32(cast_3_7, V_2, c6_0);
          const eq_f32 n19_9 = eq_splat_f32(n19 + 144 * b_2 + k + 84);
          const eq_f32 sub_0_8 = eq_sub_f32(n19_9, n20_9);
          const eq_f32 exp_1_8 = eq_exp_f32(sub_0_8);
          const eq_f32 fdiv_2_8 = eq_fdiv_f32(exp_1_8, n25_9);
          const eq_f32 cast_3_8 = eq_round_f16(fdiv_2_8);
          c7_0 = eq_fma_f32(cast_3_8, V_2, c7_0);
          const eq_f32 n19_10 = eq_splat_f32(n19 + 144 * b_2 + k + 96);
          const eq_f32 sub_0_9 = eq_sub_f32(n19_10, n20_10);
          const eq_f32 exp_1_9 = eq_exp_f32(sub_0_9);
          const eq_f32 fdiv_2_9 = eq_fdiv_f32(exp_1_9, n25_10);
          const eq_f32 cast_3_9 = eq_round_f16(fdiv_2_9);
          c8_0 = eq_fma_f32(cast_3_9, V_2, c8_0);
          const eq_f32 n19_11 = eq_splat_f32(n19 + 144 * b_2 + k + 108);
          const eq_f32 sub_0_10 = eq_sub_f32(n19_11, n20_11);
          const eq_f32 exp_1_10 = eq_exp_f32(sub_0_10);
          const eq_f32 fdiv_2_10 = eq_fdiv_f32(exp_1_10, n25_11);
          const eq_f32 cast_3_10 = eq_round_f16(fdiv_2_10);
          c9_0 = eq_fma_f32(cast_3_10, V_2, c9_0);
          const eq_f32 n19_12 = eq_splat_f32(n19 + 144 * b_2 + k + 120);
          const eq_f32 sub_0_11 = eq_sub_f32(n19_12, n20_12);
          const eq_f32 exp_1_11 = eq_exp_f32(sub_0_11);
          const eq_f32 fdiv_2_11 = eq_fdiv_f32(exp_1_11, n25_12);
          const eq_f32 cast_3_11 = eq_round_f16(fdiv_2_11);
          c10_0 = eq_fma_f32(cast_3_11, V_2, c10_0);
          const eq_f32 n19_13 = eq_splat_f32(n19 + 144 * b_2 + k + 132);
          const eq_f32 sub_0_12 = eq_sub_f32(n19_13, n20_13);
          const eq_f32 exp_1_12 = eq_exp_f32(sub_0_12);
          const eq_f32 fdiv_2_12 = eq_fdiv_f32(exp_1_12, n25_13);
          const eq_f32 cast_3_12 = eq_round_f16(fdiv_2_12);
          c11_0 = eq_fma_f32(cast_3_12, V_2, c11_0);
        }
        eq_store_f32(sums, c0_0);
        eq_store_f32(sums + 16, c1_0);
        eq_store_f32(sums + 32, c2_0);
        eq_store_f32(sums + 48, c3_0);
        eq_store_f32(sums + 64, c4_0);
        eq_store_f32(sums + 80, c5_0);
        eq_store_f32(sums + 96, c6_0);
        eq_store_f32(sums + 112, c7_0);
        eq_store_f32(sums + 128, c8_0);
        eq_store_f32(sums + 144, c9_0);
        eq_store_f32(sums + 160, c10_0);
        eq_store_f32(sums + 176, c11_0);
        /* epilogue: cast */
        for (int64_t r = 0; r < 12; r++) {
          for (int64_t c = 0; c < 16; c += 16) {
            const eq_f32 sum = eq_load_f32(sums + 16 * r + c);
            const eq_f32 cast_5 = eq_round_f16(sum);
            eq_store_f16(n37 + 192 * b_2 + 16 * r + c, cast_5);
          }
        }
      }
    }
  }
}
void eq_dot_cast(void *const *buf, int32_t threads) {
  eq_dot_cast_0((void *)buf, 0, 0);
}
