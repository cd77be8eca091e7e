/* conv + silu */
/* region sum_cast_mul(X: fp16[1,8,12,10], W: fp16[16,8,3,3]) -> (n14: fp16[1,16,12,10])
     mul_0: fp16[16,12,10,8,3,3] = mul[16,12,10,8,3,3](X[0, i3, i1 + i4 - 1, i2 + i5 - 1] if 1<=i1 + i4<13 and 1<=i2 + i5<11 else 0, W[i0, i3, i4, i5])
     sum_1: fp32[16,12,10] = reduce sum[16,12,10|8,3,3](mul_0[i0, i1, i2, r0, r1, r2])
     cast_2: fp16[16,12,10] = cast[16,12,10](sum_1[i0, i1, i2])
     sigmoid_3: fp16[16,12,10] = sigmoid[16,12,10](cast_2[i0, i1, i2])
     mul_4: fp16[16,12,10] = mul[16,12,10](cast_2[i0, i1, i2], sigmoid_3[i0, i1, i2])
     yield mul_4[i1, i2, i3] -> n14
   plan sm80: nest rows, team near, keep reg, tile [16, 8] */
extern "C" EQ_KERNEL(128, 1) void eq_sum_cast_mul(const eq_f16 *__restrict__ X, const eq_f16 *__restrict__ W, eq_f16 *__restrict__ n14) {
  const int thread = eq_thread();
  const int block_x = eq_block_x();
  const int team = thread / 8;
  const int member = thread % 8;
  const int row = 16 * block_x + team;
  float sum_1_own = 0.0f;
  EQ_UNROLL
  for (int k_2 = 0; k_2 < 9; k_2++) {
    const int e = member + 8 * k_2;
    const float X_2 = eq_ld_global_f16_if(1 <= (e / 3) % 3 + (row / 10) % 12 && (e / 3) % 3 + (row / 10) % 12 < 13 && 1 <= e % 3 + row % 10 && e % 3 + row % 10 < 11, X + 120 * (e / 9) + 10 * ((e / 3) % 3 + (row / 10) % 12 - 1) + e % 3 + row % 10 - 1);
    const float W_2 = eq_ld_global_f16(W + 72 * (row / 120) + e);
    const float mul_0 = eq_round_f16(eq_mul_f32(eq_where_f32((1 <= (e / 3) % 3 + (row / 10) % 12 && (e / 3) % 3 + (row / 10) % 12 < 13 && 1 <= e % 3 + row % 10 && e % 3 + row % 10 < 11), X_2, 0.0f), W_2));
    sum_1_own = eq_add_f32(sum_1_own, mul_0);
  }
  sum_1_own = eq_add_f32(sum_1_own, eq_shfl_xor_f32(sum_1_own, 4));
  sum_1_own = eq_add_f32(sum_1_own, eq_shfl_xor_f32(sum_1_own, 2));
  sum_1_own = eq_add_f32(sum_1_own, eq_shfl_xor_f32(sum_1_own, 1));
  const float cast_2 = eq_round_f16(sum_1_own);
  const float sigmoid_3 = eq_round_f16(eq_sigmoid_f32(cast_2));
  const float mul_4 = eq_round_f16(eq_mul_f32(cast_2, sigmoid_3));
  eq_st_global_f16_if(member < 1, n14 + row, mul_4);
}
