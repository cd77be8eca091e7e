/* region sum(x: fp32[5,24], w: fp32[24,16]) -> (n8: fp32[5,16])
     mul_0: fp32[5,16,24] = mul[5,16,24](x[i0, i2], w[i2, i1])
     sum_1: fp32[5,16] = reduce sum[5,16|24](mul_0[i0, i1, r0])
     yield sum_1[i0, i1] -> n8
   plan sm80: nest rows, team far, keep reg, tile [32, 8], tails along p */
extern "C" EQ_KERNEL(256, 1) void eq_sum(const eq_f32 *__restrict__ x, const eq_f32 *__restrict__ w, eq_f32 *__restrict__ n8) {
  // 1024 bytes of shared memory:
  //   sum_1_parts_2: fp32[8, 32] at 0
  const int thread = eq_thread();
  const int block_x = eq_block_x();
  const int team = thread % 32;
  const int member = thread / 32;
  const int row = 32 * block_x + team;
  float sum_1_own = 0.0f;
  EQ_UNROLL
  for (int k_2 = 0; k_2 < 3; k_2++) {
    const int e = member + 8 * k_2;
    const float x_2 = eq_ld_global_f32_if(row < 80, x + 24 * (row / 16) + e);
    const float w_2 = eq_ld_global_f32_if(row < 80, w + 16 * e + row % 16);
    const float mul_0 = eq_mul_f32(x_2, w_2);
    sum_1_own = eq_add_f32(sum_1_own, mul_0);
  }
  eq_st_shared_f32(128 * member + 4 * team, sum_1_own);
  eq_barrier();
  float sum_1_total = 0.0f;
  EQ_UNROLL
  for (int part = 0; part < 8; part++) {
    sum_1_total = eq_add_f32(sum_1_total, eq_ld_shared_f32(128 * part + 4 * team));
  }
  eq_st_global_f32_if(row < 80 && member < 1, n8 + row, sum_1_total);
}
