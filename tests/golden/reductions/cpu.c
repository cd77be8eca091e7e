/* region max_sub_exp_mul(x: fp32[2,40]) -> (n9: fp32[2,40])
     max_0: fp32[2] = reduce max[2|40](x[i0, r0])
     sub_1: fp32[2,40] = sub[2,40](x[i0, i1], max_0[i0])
     exp_2: fp32[2,40] = exp[2,40](sub_1[i0, i1])
     sum_3: fp32[2] = reduce sum[2|40](exp_2[i0, r0])
     recip_4: fp32[2] = recip[2](sum_3[i0])
     mul_5: fp32[2,40] = mul[2,40](exp_2[i0, i1], recip_4[i0])
     yield mul_5[i0, i1] -> n9
   plan avx512: nest i0 i1, tile [2, 40], bind {}, 16 elements a step along i1, tails along i1 */
_Static_assert(EQ_VL == 16, "eq_max_sub_exp_mul is written for 16 lanes");
static void eq_max_sub_exp_mul_phase0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const float *restrict x = buf[0];
  float *restrict n9 = buf[1];
  const int64_t t = task;
  for (int64_t i0 = 0; i0 < 2; i0++) {
    eq_f32 max_0_acc = eq_imm_f32(-INFINITY);
    eq_f32 max_0_acc_2 = eq_imm_f32(-INFINITY);
    for (int64_t r0 = 0; r0 < 32; r0 += 32) {
      const eq_f32 x_2 = eq_load_f32(x + 40 * i0 + r0);
      max_0_acc = eq_max_f32(max_0_acc, x_2);
      const eq_f32 x_3 = eq_load_f32(x + 40 * i0 + r0 + 16);
      max_0_acc_2 = eq_max_f32(max_0_acc_2, x_3);
    }
    for (int64_t r0_2 = 32; r0_2 < 40; r0_2 += 16) {
      const eq_f32 x_4 = eq_load_n_f32(x + 40 * i0 + r0_2, 8);
      max_0_acc = eq_max_f32(max_0_acc, eq_where_f32(eq_first(8), x_4, eq_imm_f32(-INFINITY)));
    }
    const eq_f32 max_0 = eq_imm_f32(eq_hmax_f32(eq_max_f32(max_0_acc, max_0_acc_2)));
    eq_f32 sum_3_acc = eq_imm_f32(0.0f);
    eq_f32 sum_3_acc_2 = eq_imm_f32(0.0f);
    for (int64_t r0_3 = 0; r0_3 < 32; r0_3 += 32) {
      const eq_f32 x_5 = eq_load_f32(x + 40 * i0 + r0_3);
      const eq_f32 sub_1 = eq_sub_f32(x_5, max_0);
      const eq_f32 exp_2 = eq_exp_f32(sub_1);
      eq_store_f32(n9 + 40 * i0 + r0_3, exp_2);
      sum_3_acc = eq_add_f32(sum_3_acc, exp_2);
      const eq_f32 x_6 = eq_load_f32(x + 40 * i0 + r0_3 + 16);
      const eq_f32 sub_1_2 = eq_sub_f32(x_6, max_0);
      const eq_f32 exp_2_2 = eq_exp_f32(sub_1_2);
      eq_store_f32(n9 + 40 * i0 + r0_3 + 16, exp_2_2);
      sum_3_acc_2 = eq_add_f32(sum_3_acc_2, exp_2_2);
    }
    for (int64_t r0_4 = 32; r0_4 < 40; r0_4 += 16) {
      const eq_f32 x_7 = eq_load_n_f32(x + 40 * i0 + r0_4, 8);
      const eq_f32 sub_1_3 = eq_sub_f32(x_7, max_0);
      const eq_f32 exp_2_3 = eq_exp_f32(sub_1_3);
      eq_store_n_f32(n9 + 40 * i0 + r0_4, exp_2_3, 8);
      sum_3_acc = eq_add_f32(sum_3_acc, eq_where_f32(eq_first(8), exp_2_3, eq_imm_f32(0.0f)));
    }
    const eq_f32 sum_3 = eq_imm_f32(eq_hsum_f32(eq_add_f32(sum_3_acc, sum_3_acc_2)));
    const eq_f32 recip_4 = eq_recip_f32(sum_3);
    for (int64_t i1 = 0; i1 < 32; i1 += 16) {
      const eq_f32 n9_2 = eq_load_f32(n9 + 40 * i0 + i1);
      const eq_f32 mul_5 = eq_mul_f32(n9_2, recip_4);
      eq_store_f32(n9 + 40 * i0 + i1, mul_5);
    }
    for (int64_t i1_2 = 32; i1_2 < 40; i1_2 += 16) {
      const eq_f32 n9_3 = eq_load_n_f32(n9 + 40 * i0 + i1_2, 8);
      const eq_f32 mul_5_2 = eq_mul_f32(n9_3, recip_4);
      eq_store_n_f32(n9 + 40 * i0 + i1_2, mul_5_2, 8);
    }
  }
}
void eq_max_sub_exp_mul(void *const *buf, int32_t threads) {
  eq_max_sub_exp_mul_phase0((void *)buf, 0, 0);
}
