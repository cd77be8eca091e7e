/* gemm + bias_add + relu */
/* region dot_cast_add_relu(A: fp16[32,48], B: fp16[48,40], bias: fp16[40]) -> (n14: fp16[32,40])
     dot_0: fp32[32,40] = contraction[32,40|48](A[i0, r0], B[r0, i1])
     cast_1: fp16[32,40] = cast[32,40](dot_0[i0, i1])
     add_2: fp16[32,40] = add[32,40](cast_1[i0, i1], bias[i1])
     relu_3: fp16[32,40] = relu[32,40](add_2[i0, i1])
     yield relu_3[i0, i1] -> n14
   plan sm80: tile 16x32x64, warp_tile 16x16, stages 1
   A along k, 16 bytes at once
   B along columns, 16 bytes at once */
extern "C" EQ_KERNEL(64, 1) void eq_dot_cast_add_relu(const eq_f16 *__restrict__ A, const eq_f16 *__restrict__ B, const eq_f16 *__restrict__ bias, eq_f16 *__restrict__ n14) {
  // 6144 bytes of shared memory:
  //   As: fp16[16, 64] swizzle 3 at 0
  //   Bs: fp16[1, 64, 32] swizzle 2 at 2048
  //   Cs: fp16[1, 16, 32] swizzle 2 at 0
  const int thread = eq_thread();
  const int lane = eq_lane();
  const int warp = eq_warp();
  const int block_x = eq_block_x();
  float acc[8] = {};
  unsigned a[8];
  unsigned b[8];
  unsigned out[4];
  // fill the ring
  const int id_part = thread / 8;
  const int id_part_2 = thread % 8;
  const int id_part_3 = block_x % 2;
  EQ_UNROLL
  for (int As_piece = 0; As_piece < 2; As_piece++) {
    const int r0 = eq_min_i32(id_part_2, 5);
    eq_cp_async16(1024 * As_piece + eq_swizzle<3>(128 * id_part + 16 * id_part_2), A + (48 * (id_part + 16 * id_part_3) + 8 * r0) + (384 * As_piece), 8 * id_part_2 < 48 ? 16 : 0);
  }
  const int id_part_4 = thread / 4;
  const int id_part_5 = thread % 4;
  const int id_part_6 = block_x / 2;
  EQ_UNROLL
  for (int Bs_piece = 0; Bs_piece < 4; Bs_piece++) {
    const int r0_2 = eq_min_i32(16 * Bs_piece + id_part_4, 47);
    const int i1 = eq_min_i32(id_part_5 + 4 * id_part_6, 4);
    eq_cp_async16(1024 * Bs_piece + 2048 + eq_swizzle<2>(64 * id_part_4 + 16 * id_part_5), B + 40 * r0_2 + 8 * i1, 8 * id_part_5 + 32 * id_part_6 < 40 && 16 * Bs_piece + id_part_4 < 48 ? 16 : 0);
  }
  eq_cp_async_commit();
  // the products
  eq_cp_async_wait<0>();
  eq_barrier();
  eq_ldmatrix_x4(a, eq_swizzle<3>(128 * (lane % 16) + 16 * (lane / 16)));
  eq_ldmatrix_x4_trans(b, 2048 + eq_swizzle<2>(64 * (lane % 16) + 2 * (16 * warp + 8 * (lane / 16))));
  EQ_UNROLL
  for (int step = 0; step < 3; step++) {
    eq_ldmatrix_x4(a + -4 * (step % 2) + 4, eq_swizzle<3>(128 * (lane % 16) + 2 * (16 * step + 8 * (lane / 16) + 16)));
    eq_ldmatrix_x4_trans(b + -4 * (step % 2) + 4, 1024 * step + 3072 + eq_swizzle<2>(64 * (lane % 16) + 2 * (16 * warp + 8 * (lane / 16))));
    EQ_UNROLL
    for (int j = 0; j < 2; j++) {
      eq_mma_m16n8k16_f16(acc + 4 * j, a + 4 * (step % 2), b + 2 * j + 4 * (step % 2));
    }
  }
  EQ_UNROLL
  for (int j_2 = 0; j_2 < 2; j_2++) {
    eq_mma_m16n8k16_f16(acc + 4 * j_2, a + 4, b + 2 * j_2 + 4);
  }
  // epilogue on acc: cast, add, relu
  EQ_UNROLL
  for (int e = 0; e < 8; e++) {
    const float sum = acc[e];
    const int i1_2 = eq_min_i32(16 * warp + 32 * (block_x / 2) + 8 * (e / 4) + e % 2 + 2 * (lane % 4), 39);
    const float cast_1 = eq_round_f16(sum);
    const float add_2 = eq_round_f16(eq_add_f32(cast_1, eq_ld_global_f16_if(16 * warp + 32 * (block_x / 2) + 8 * (e / 4) + e % 2 + 2 * (lane % 4) < 40, bias + i1_2)));
    const float relu_3 = eq_relu_f32(add_2);
    acc[e] = relu_3;
  }
  // results, put together over the ring
  eq_barrier();
  EQ_UNROLL
  for (int pair = 0; pair < 4; pair++) {
    eq_st_shared_f16x2(512 * (pair % 2) + eq_swizzle<2>(64 * (lane / 4) + 2 * (16 * warp + 8 * (pair / 2) + 2 * (lane % 4))), acc + 2 * pair);
  }
  eq_barrier();
  eq_ld_shared_16(out, eq_swizzle<2>(64 * (thread / 4) + 16 * (thread % 4)));
  const int i0_2 = thread / 4 + 16 * (block_x % 2);
  const int i1_3 = eq_min_i32(4 * (block_x / 2) + thread % 4, 4);
  eq_st_global_16_if(32 * (block_x / 2) + 8 * (thread % 4) < 40, n14 + 40 * i0_2 + 8 * i1_3, out);
}
