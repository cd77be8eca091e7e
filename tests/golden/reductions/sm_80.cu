/* region max_sub_exp_mul(x: fp32[2,40]) -> (n9: fp32[2,40])
     max_0: fp32[2] = reduce max[2|40](x[i0, r0])
     sub_1: fp32[2,40] = sub[2,40](x[i0, i1], max_0[i0])
     exp_2: fp32[2,40] = exp[2,40](sub_1[i0, i1])
     sum_3: fp32[2] = reduce sum[2|40](exp_2[i0, r0])
     recip_4: fp32[2] = recip[2](sum_3[i0])
     mul_5: fp32[2,40] = mul[2,40](exp_2[i0, i1], recip_4[i0])
     yield mul_5[i0, i1] -> n9
   plan sm80: nest rows, team near, keep reg, tile [16, 8], tails along p */
extern "C" EQ_KERNEL(128, 1) void eq_max_sub_exp_mul(const eq_f32 *__restrict__ x, eq_f32 *__restrict__ n9) {
  const int thread = eq_thread();
  float x_2_2[5];
  float exp_2_2[5];
  const int team = thread / 8;
  const int member = thread % 8;
  float max_0_own = -eq_inf_f32();
  EQ_UNROLL
  for (int k_2 = 0; k_2 < 5; k_2++) {
    const int e = member + 8 * k_2;
    const float x_2 = eq_ld_global_f32_if(team < 2, x + 40 * team + e);
    max_0_own = eq_max_f32(max_0_own, x_2);
    x_2_2[k_2] = x_2;
  }
  max_0_own = eq_max_f32(max_0_own, eq_shfl_xor_f32(max_0_own, 4));
  max_0_own = eq_max_f32(max_0_own, eq_shfl_xor_f32(max_0_own, 2));
  max_0_own = eq_max_f32(max_0_own, eq_shfl_xor_f32(max_0_own, 1));
  float sum_3_own = 0.0f;
  EQ_UNROLL
  for (int k_2 = 0; k_2 < 5; k_2++) {
    const int e = member + 8 * k_2;
    const float sub_1 = eq_sub_f32(x_2_2[k_2], max_0_own);
    const float exp_2 = eq_exp_f32(sub_1);
    sum_3_own = eq_add_f32(sum_3_own, exp_2);
    exp_2_2[k_2] = exp_2;
  }
  sum_3_own = eq_add_f32(sum_3_own, eq_shfl_xor_f32(sum_3_own, 4));
  sum_3_own = eq_add_f32(sum_3_own, eq_shfl_xor_f32(sum_3_own, 2));
  sum_3_own = eq_add_f32(sum_3_own, eq_shfl_xor_f32(sum_3_own, 1));
  const float recip_4 = eq_recip_f32(sum_3_own);
  EQ_UNROLL
  for (int k_2 = 0; k_2 < 5; k_2++) {
    const int e = member + 8 * k_2;
    const float mul_5 = eq_mul_f32(exp_2_2[k_2], recip_4);
    eq_st_global_f32_if(team < 2, n9 + 40 * team + e, mul_5);
  }
}
