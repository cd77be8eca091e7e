/* region cumsum(x: fp32[3,40]) -> (n1: fp32[3,40])
     sum_0: fp32[3,40] = scan sum axis=1[3,40](x[i0, i1])
     yield sum_0[i0, i1] -> n1
   plan sm80: nest rows, team near, keep none, tile [4, 32], tails along p, e */
extern "C" EQ_KERNEL(128, 1) void eq_cumsum(const eq_f32 *__restrict__ x, eq_f32 *__restrict__ n1) {
  const int lane = eq_lane();
  const int warp = eq_warp();
  float sum_0_run = -0.0f;
  EQ_NO_UNROLL
  for (int k = 0; k < 2; k++) {
    const int e = lane + 32 * k;
    const float x_2 = eq_ld_global_f32_if(warp < 3 && e < 40, x + 40 * warp + e);
    float sum_0_own = eq_where_f32((e < 40), x_2, -0.0f);
    const float sum_0_up = eq_shfl_up_f32(sum_0_own, 1);
    sum_0_own = eq_where_f32((1 <= lane), eq_add_f32(sum_0_up, sum_0_own), sum_0_own);
    const float sum_0_up_2 = eq_shfl_up_f32(sum_0_own, 2);
    sum_0_own = eq_where_f32((2 <= lane), eq_add_f32(sum_0_up_2, sum_0_own), sum_0_own);
    const float sum_0_up_3 = eq_shfl_up_f32(sum_0_own, 4);
    sum_0_own = eq_where_f32((4 <= lane), eq_add_f32(sum_0_up_3, sum_0_own), sum_0_own);
    const float sum_0_up_4 = eq_shfl_up_f32(sum_0_own, 8);
    sum_0_own = eq_where_f32((8 <= lane), eq_add_f32(sum_0_up_4, sum_0_own), sum_0_own);
    const float sum_0_up_5 = eq_shfl_up_f32(sum_0_own, 16);
    sum_0_own = eq_where_f32((16 <= lane), eq_add_f32(sum_0_up_5, sum_0_own), sum_0_own);
    const float sum_0_at = eq_add_f32(sum_0_run, sum_0_own);
    sum_0_run = eq_shfl_lane_f32(sum_0_at, 31);
    eq_st_global_f32_if(warp < 3 && e < 40, n1 + 40 * warp + e, sum_0_at);
  }
}
