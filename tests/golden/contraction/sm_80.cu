/* region dot(x: fp32[5,24], w: fp32[24,16]) -> (n8: fp32[5,16])
     dot_0: fp32[5,16] = contraction[5,16|24](x[i0, r0], w[r0, i1])
     yield dot_0[i0, i1] -> n8
   plan sm80: tile 1x128x32, warp_tile 1x32, stages 1
   x along k, 16 bytes at once
   w along columns, 16 bytes at once */
extern "C" EQ_KERNEL(128, 1) void eq_dot(const eq_f32 *__restrict__ x, const eq_f32 *__restrict__ w, eq_f32 *__restrict__ n8) {
  // 16528 bytes of shared memory:
  //   As: fp32[1, 32] pitch 36 at 0
  //   Bs: fp32[32, 128] at 144
  const int thread = eq_thread();
  const int lane = eq_lane();
  const int warp = eq_warp();
  const int block_y = eq_block_y();
  float acc[1] = {};
  float a[4];
  float b[4];
  // fill the ring
  if (thread < 8) {
    const int r0 = eq_min_i32(thread % 8, 5);
    const int i0 = eq_min_i32(block_y + thread / 8, 4);
    eq_cp_async16(144 * (thread / 8) + 16 * (thread % 8), x + 24 * i0 + 4 * r0, 4 * (thread % 8) < 24 ? 16 : 0);
  }
  EQ_UNROLL
  for (int Bs_piece = 0; Bs_piece < 8; Bs_piece++) {
    const int r0_2 = eq_min_i32(4 * Bs_piece + thread / 32, 23);
    const int i1 = eq_min_i32(thread % 32, 3);
    eq_cp_async16(512 * (4 * Bs_piece + thread / 32) + 16 * (thread % 32) + 144, w + 16 * r0_2 + 4 * i1, 4 * (thread % 32) < 16 && 4 * Bs_piece + thread / 32 < 24 ? 16 : 0);
  }
  eq_cp_async_commit();
  // the products
  eq_cp_async_wait<0>();
  eq_barrier();
  EQ_UNROLL
  for (int step = 0; step < 8; step++) {
    eq_ld_shared_f32x4(a, 16 * step);
    EQ_UNROLL
    for (int b_i = 0; b_i < 4; b_i++) {
      b[b_i] = eq_ld_shared_f32(512 * (4 * step + b_i) + 4 * (lane + 32 * warp) + 144);
    }
    EQ_UNROLL
    for (int t = 0; t < 4; t++) {
      acc[0] = eq_fma_f32(a[t], b[t], acc[0]);
    }
  }
  // epilogue on acc: none
  EQ_UNROLL
  for (int e = 0; e < 1; e++) {
    const float sum = acc[0];
    const int i1_2 = eq_min_i32(lane + 32 * warp, 15);
    eq_st_global_f32_if(lane + 32 * warp < 16, n8 + 16 * block_y + i1_2, sum);
  }
}
