/* region add_relu(x: fp32[13,40], bias: fp32[13]) -> (n6: fp32[40,13])
     add_0: fp32[40,13] = add[40,13](x[i1, i0], bias[i1])
     relu_1: fp32[40,13] = relu[40,13](add_0[i0, i1])
     yield relu_1[i0, i1] -> n6
   plan avx512: nest i1 i0, tile [13, 40], bind {}, 16 elements a step along i1, tails along i1 */
_Static_assert(EQ_VL == 16, "eq_add_relu is written for 16 lanes");
static void eq_add_relu_phase0(void *ctx, int32_t task, int32_t thread) {
  void *const *buf = ctx;
  const float *restrict x = buf[0];
  const float *restrict bias = buf[1];
  float *restrict n6 = buf[2];
  const int64_t t = task;
  for (int64_t i1 = 0; i1 < 13; i1 += 16) {
    const eq_f32 bias_2 = eq_load_n_f32(bias + i1, 13);
    for (int64_t i0 = 0; i0 < 40; i0++) {
      const eq_f32 x_2 = eq_strided_f32(x + 40 * i1 + i0, 40, 13);
      const eq_f32 add_0 = eq_add_f32(x_2, bias_2);
      const eq_f32 relu_1 = eq_relu_f32(add_0);
      eq_store_n_f32(n6 + i1 + 13 * i0, relu_1, 13);
    }
  }
}
void eq_add_relu(void *const *buf, int32_t threads) {
  eq_add_relu_phase0((void *)buf, 0, 0);
}
