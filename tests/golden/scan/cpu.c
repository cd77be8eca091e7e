/* region cumsum(x: fp32[3,40]) -> (n1: fp32[3,40])
     sum_0: fp32[3,40] = scan sum axis=1[3,40](x[i0, i1])
     yield sum_0[i0, i1] -> n1
   plan avx512: nest i0 i1, tile [3, 40], bind {}, 16 elements a step along i1, tails along i1 */
_Static_assert(EQ_VL == 16, "eq_cumsum is written for 16 lanes");
static void eq_cumsum_phase0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const float *restrict x = buf[0];
  float *restrict n1 = buf[1];
  const int64_t t = task;
  for (int64_t i0 = 0; i0 < 3; i0++) {
    eq_f32 sum_0_run = eq_imm_f32(-0.0f);
    for (int64_t i1 = 0; i1 < 32; i1 += 16) {
      const eq_f32 x_2 = eq_load_f32(x + 40 * i0 + i1);
      const eq_f32 sum_0_own = eq_prefixadd_f32(x_2);
      const eq_f32 sum_0 = eq_add_f32(sum_0_run, sum_0_own);
      sum_0_run = eq_add_f32(sum_0_run, eq_last_f32(sum_0_own));
      eq_store_f32(n1 + 40 * i0 + i1, sum_0);
    }
    for (int64_t i1_2 = 32; i1_2 < 40; i1_2 += 16) {
      const eq_f32 x_3 = eq_load_n_f32(x + 40 * i0 + i1_2, 8);
      const eq_f32 sum_0_own_2 = eq_prefixadd_f32(eq_where_f32(eq_first(8), x_3, eq_imm_f32(-0.0f)));
      const eq_f32 sum_0_2 = eq_add_f32(sum_0_run, sum_0_own_2);
      sum_0_run = eq_add_f32(sum_0_run, eq_last_f32(sum_0_own_2));
      eq_store_n_f32(n1 + 40 * i0 + i1_2, sum_0_2, 8);
    }
  }
}
void eq_cumsum(void *const *buf, int32_t threads) {
  eq_cumsum_phase0((void *)buf, 0, 0);
}
