/* region add_relu(x: fp32[13,40], bias: fp32[13]) -> (n6: fp32[40,13])
     add_0: fp32[40,13] = add[40,13](x[i1, i0], bias[i1])
     relu_1: fp32[40,13] = relu[40,13](add_0[i0, i1])
     yield relu_1[i0, i1] -> n6
   plan sm80: nest points, loops i1 i0, tile [128, 1], tails along p */
extern "C" EQ_KERNEL(128, 1) void eq_add_relu(const eq_f32 *__restrict__ x, const eq_f32 *__restrict__ bias, eq_f32 *__restrict__ n6) {
  const int thread = eq_thread();
  const int block_x = eq_block_x();
  const int p = thread + 128 * block_x;
  const float x_2 = eq_ld_global_f32_if(p < 520, x + p);
  const float bias_2 = eq_ld_global_f32_if(p < 520, bias + p / 40);
  const float add_0 = eq_add_f32(x_2, bias_2);
  const float relu_1 = eq_relu_f32(add_0);
  eq_st_global_f32_if(p < 520, n6 + 13 * (p % 40) + p / 40, relu_1);
}
