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

/* region sum_cast (n19: fp32[1,2,12,12], V: fp16[1,2,12,16]) -> (n37: fp16[1,2,12,16])
     max_0 = reduce max(n19[0, i0, i1, i2]) : fp32 over [2,12,12], the last 1 reduced
     sub_1 = sub(n19[0, i0, i1, i2], max_0[i0, i1]) : fp32 over [2,12,12]
     exp_2 = exp(sub_1[i0, i1, i2]) : fp32 over [2,12,12]
     sub_3 = sub(n19[0, i0, i1, i2], max_0[i0, i1]) : fp32 over [2,12,12]
     exp_4 = exp(sub_3[i0, i1, i2]) : fp32 over [2,12,12]
     sum_5 = reduce sum(exp_4[i0, i1, i2]) : fp32 over [2,12,12], the last 1 reduced
     recip_6 = recip(sum_5[i0, i1]) : fp32 over [2,12]
     mul_7 = mul(exp_2[i0, i1, i2], recip_6[i0, i1]) : fp32 over [2,12,12]
     cast_8 = cast(mul_7[i0, i1, i2]) : fp16 over [2,12,12]
     mul_9 = mul(cast_8[i0, i1, i3], V[0, i0, i3, i2]) : fp16 over [2,12,16,12]
     sum_10 = reduce sum(mul_9[i0, i1, i2, i3]) : fp32 over [2,12,16,12], the last 1 reduced
     cast_11 = cast(sum_10[i0, i1, i2]) : fp16 over [2,12,16]
     n37 = cast_11[i1, i2, i3]
   plan avx512: nest i0i1 i2 i3, tile [2, 12, 16], bind {}, 16 elements a step along i3 */
_Static_assert(EQ_VL == 16, "eq_sum_cast is written for 16 lanes");
static void eq_sum_cast_0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const float *restrict n19 = buf[0];
  const uint16_t *restrict V = buf[1];
  uint16_t *restrict n37 = buf[2];
  const int64_t t = task;
  for (int64_t i0i1 = 0; i0i1 < 2; i0i1++) {
    for (int64_t i2 = 0; i2 < 12; i2++) {
      eq_f32 max_0_acc = eq_imm_f32(-INFINITY);
      for (int64_t r0 = 0; r0 < 12; r0 += 16) {
        const eq_f32 n19_2 = eq_load_n_f32(n19 + 144 * i0i1 + 12 * i2 + r0, 12);
        max_0_acc = eq_max_f32(max_0_acc, eq_where_f32(eq_first(12), n19_2, eq_imm_f32(-INFINITY)));
      }
      const eq_f32 max_0 = eq_imm_f32(eq_hmax_f32(max_0_acc));
      eq_f32 sum_5_acc = eq_imm_f32(0.0f);
      for (int64_t r0_2 = 0; r0_2 < 12; r0_2 += 16) {
        const eq_f32 n19_3 = eq_load_n_f32(n19 + 144 * i0i1 + 12 * i2 + r0_2, 12);
        const eq_f32 sub_3 = eq_sub_f32(n19_3, max_0);
        const eq_f32 exp_4 = eq_exp_f32(sub_3);
        sum_5_acc = eq_add_f32(sum_5_acc, eq_where_f32(eq_first(12), exp_4, eq_imm_f32(0.0f)));
      }
      const eq_f32 sum_5 = eq_imm_f32(eq_hsum_f32(sum_5_acc));
      const eq_f32 n19_4 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2);
      const eq_f32 sub_1 = eq_sub_f32(n19_4, max_0);
      const eq_f32 exp_2 = eq_exp_f32(sub_1);
      const eq_f32 recip_6 = eq_recip_f32(sum_5);
      const eq_f32 mul_7 = eq_mul_f32(exp_2, recip_6);
      const eq_f32 cast_8 = eq_round_f16(mul_7);
      const eq_f32 n19_5 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 1);
      const eq_f32 sub_1_2 = eq_sub_f32(n19_5, max_0);
      const eq_f32 exp_2_2 = eq_exp_f32(sub_1_2);
      const eq_f32 mul_7_2 = eq_mul_f32(exp_2_2, recip_6);
      const eq_f32 cast_8_2 = eq_round_f16(mul_7_2);
      const eq_f32 n19_6 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 2);
      const eq_f32 sub_1_3 = eq_sub_f32(n19_6, max_0);
      const eq_f32 exp_2_3 = eq_exp_f32(sub_1_3);
      const eq_f32 mul_7_3 = eq_mul_f32(exp_2_3, recip_6);
      const eq_f32 cast_8_3 = eq_round_f16(mul_7_3);
      const eq_f32 n19_7 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 3);
      const eq_f32 sub_1_4 = eq_sub_f32(n19_7, max_0);
      const eq_f32 exp_2_4 = eq_exp_f32(sub_1_4);
      const eq_f32 mul_7_4 = eq_mul_f32(exp_2_4, recip_6);
      const eq_f32 cast_8_4 = eq_round_f16(mul_7_4);
      const eq_f32 n19_8 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 4);
      const eq_f32 sub_1_5 = eq_sub_f32(n19_8, max_0);
      const eq_f32 exp_2_5 = eq_exp_f32(sub_1_5);
      const eq_f32 mul_7_5 = eq_mul_f32(exp_2_5, recip_6);
      const eq_f32 cast_8_5 = eq_round_f16(mul_7_5);
      const eq_f32 n19_9 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 5);
      const eq_f32 sub_1_6 = eq_sub_f32(n19_9, max_0);
      const eq_f32 exp_2_6 = eq_exp_f32(sub_1_6);
      const eq_f32 mul_7_6 = eq_mul_f32(exp_2_6, recip_6);
      const eq_f32 cast_8_6 = eq_round_f16(mul_7_6);
      const eq_f32 n19_10 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 6);
      const eq_f32 sub_1_7 = eq_sub_f32(n19_10, max_0);
      const eq_f32 exp_2_7 = eq_exp_f32(sub_1_7);
      const eq_f32 mul_7_7 = eq_mul_f32(exp_2_7, recip_6);
      const eq_f32 cast_8_7 = eq_round_f16(mul_7_7);
      const eq_f32 n19_11 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 7);
      const eq_f32 sub_1_8 = eq_sub_f32(n19_11, max_0);
      const eq_f32 exp_2_8 = eq_exp_f32(sub_1_8);
      const eq_f32 mul_7_8 = eq_mul_f32(exp_2_8, recip_6);
      const eq_f32 cast_8_8 = eq_round_f16(mul_7_8);
      const eq_f32 n19_12 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 8);
      const eq_f32 sub_1_9 = eq_sub_f32(n19_12, max_0);
      const eq_f32 exp_2_9 = eq_exp_f32(sub_1_9);
      const eq_f32 mul_7_9 = eq_mul_f32(exp_2_9, recip_6);
      const eq_f32 cast_8_9 = eq_round_f16(mul_7_9);
      const eq_f32 n19_13 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 9);
      const eq_f32 sub_1_10 = eq_sub_f32(n19_13, max_0);
      const eq_f32 exp_2_10 = eq_exp_f32(sub_1_10);
      const eq_f32 mul_7_10 = eq_mul_f32(exp_2_10, recip_6);
      const eq_f32 cast_8_10 = eq_round_f16(mul_7_10);
      const eq_f32 n19_14 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 10);
      const eq_f32 sub_1_11 = eq_sub_f32(n19_14, max_0);
      const eq_f32 exp_2_11 = eq_exp_f32(sub_1_11);
      const eq_f32 mul_7_11 = eq_mul_f32(exp_2_11, recip_6);
      const eq_f32 cast_8_11 = eq_round_f16(mul_7_11);
      const eq_f32 n19_15 = eq_splat_f32(n19 + 144 * i0i1 + 12 * i2 + 11);
      const eq_f32 sub_1_12 = eq_sub_f32(n19_15, max_0);
      const eq_f32 exp_2_12 = eq_exp_f32(sub_1_12);
      const eq_f32 mul_7_12 = eq_mul_f32(exp_2_12, recip_6);
      const eq_f32 cast_8_12 = eq_round_f16(mul_7_12);
      for (int64_t i3 = 0; i3 < 16; i3 += 16) {
        eq_f32 sum_10_acc = eq_imm_f32(0.0f);
        const eq_f32 V_2 = eq_load_f16(V + 192 * i0i1 + i3);
        const eq_f32 mul_9 = eq_round_f16(eq_mul_f32(cast_8, V_2));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9);
        const eq_f32 V_3 = eq_load_f16(V + 192 * i0i1 + i3 + 16);
        const eq_f32 mul_9_2 = eq_round_f16(eq_mul_f32(cast_8_2, V_3));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_2);
        const eq_f32 V_4 = eq_load_f16(V + 192 * i0i1 + i3 + 32);
        const eq_f32 mul_9_3 = eq_round_f16(eq_mul_f32(cast_8_3, V_4));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_3);
        const eq_f32 V_5 = eq_load_f16(V + 192 * i0i1 + i3 + 48);
        const eq_f32 mul_9_4 = eq_round_f16(eq_mul_f32(cast_8_4, V_5));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_4);
        const eq_f32 V_6 = eq_load_f16(V + 192 * i0i1 + i3 + 64);
        const eq_f32 mul_9_5 = eq_round_f16(eq_mul_f32(cast_8_5, V_6));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_5);
        const eq_f32 V_7 = eq_load_f16(V + 192 * i0i1 + i3 + 80);
        const eq_f32 mul_9_6 = eq_round_f16(eq_mul_f32(cast_8_6, V_7));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_6);
        const eq_f32 V_8 = eq_load_f16(V + 192 * i0i1 + i3 + 96);
        const eq_f32 mul_9_7 = eq_round_f16(eq_mul_f32(cast_8_7, V_8));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_7);
        const eq_f32 V_9 = eq_load_f16(V + 192 * i0i1 + i3 + 112);
        const eq_f32 mul_9_8 = eq_round_f16(eq_mul_f32(cast_8_8, V_9));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_8);
        const eq_f32 V_10 = eq_load_f16(V + 192 * i0i1 + i3 + 128);
        const eq_f32 mul_9_9 = eq_round_f16(eq_mul_f32(cast_8_9, V_10));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_9);
        const eq_f32 V_11 = eq_load_f16(V + 192 * i0i1 + i3 + 144);
        const eq_f32 mul_9_10 = eq_round_f16(eq_mul_f32(cast_8_10, V_11));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_10);
        const eq_f32 V_12 = eq_load_f16(V + 192 * i0i1 + i3 + 160);
        const eq_f32 mul_9_11 = eq_round_f16(eq_mul_f32(cast_8_11, V_12));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_11);
        const eq_f32 V_13 = eq_load_f16(V + 192 * i0i1 + i3 + 176);
        const eq_f32 mul_9_12 = eq_round_f16(eq_mul_f32(cast_8_12, V_13));
        sum_10_acc = eq_add_f32(sum_10_acc, mul_9_12);
        const eq_f32 cast_11 = eq_round_f16(sum_10_acc);
        eq_store_f16(n37 + 192 * i0i1 + 16 * i2 + i3, cast_11);
      }
    }
  }
}
void eq_sum_cast(void *const *buf, int32_t threads) {
  eq_sum_cast_0((void *)buf, 0, 0);
}
