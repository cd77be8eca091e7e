/* region stream_fdiv(scores: fp32[6,20], values: fp32[20,8]) -> (n17: fp32[6,8])
     stream_0: fp32[6,8] = stream exp[6,8|20](scores[i0, r0], values[r0, i1])
     stream_1: fp32[6] = stream exp[6|20](scores[i0, r0], 1.0)
     fdiv_2: fp32[6,8] = fdiv[6,8](stream_0[i0, i1], stream_1[i0])
     yield fdiv_2[i0, i1] -> n17
   1 streams of 6 x 20 scores from memory, 1 products
   plan sm80: tile 4x32x32, warp_tile 1x32, stages 1, fma, C_store elements, thread_tile 1x1 */
extern "C" EQ_KERNEL(128, 1) void eq_stream_fdiv(const eq_f32 *__restrict__ scores, const eq_f32 *__restrict__ values, eq_f32 *__restrict__ n17) {
  // 4672 bytes of shared memory:
  //   Vs: fp32[32, 32] at 0
  //   Ps: fp32[4, 32] pitch 36 per warp at 4096
  const int thread = eq_thread();
  const int lane = eq_lane();
  const int warp = eq_warp();
  const int block_x = eq_block_x();
  float s[1] = {};
  float stream_0[1] = {};
  float a[4];
  float b[4];
  float top[1];
  float base[1];
  float shrink[1];
  float stream_1[1] = {};
  EQ_UNROLL
  for (int e = 0; e < 1; e++) {
    top[0] = -eq_inf_f32();
  }
  // fill the ring
  const int id_part = thread / 8;
  const int id_part_2 = thread % 8;
  EQ_UNROLL
  for (int Vs_piece = 0; Vs_piece < 2; Vs_piece++) {
    const int r0 = eq_min_i32(16 * Vs_piece + id_part, 19);
    const int i1 = eq_min_i32(id_part_2, 1);
    eq_cp_async16(128 * (16 * Vs_piece + id_part) + 16 * id_part_2, values + 8 * r0 + 4 * i1, 4 * id_part_2 < 8 && 16 * Vs_piece + id_part < 20 ? 16 : 0);
  }
  eq_cp_async_commit();
  // the products
  eq_cp_async_wait<0>();
  eq_barrier();
  // scores, and the maximum of each row
  EQ_UNROLL
  for (int e_2 = 0; e_2 < 1; e_2++) {
    base[0] = top[0];
  }
  EQ_UNROLL
  for (int e_3 = 0; e_3 < 1; e_3++) {
    const int i0 = eq_min_i32(warp + 4 * block_x, 5);
    const int r0_2 = eq_min_i32(lane, 19);
    const float score = eq_where_f32((lane < 20), eq_ld_global_f32_if(warp + 4 * block_x < 6 && lane < 20, scores + 20 * i0 + r0_2), -eq_inf_f32());
    s[0] = score;
    base[0] = eq_max_f32(base[0], score);
  }
  EQ_UNROLL
  for (int e_4 = 0; e_4 < 1; e_4++) {
    base[0] = eq_max_f32(base[0], eq_shfl_xor_f32(base[0], 1));
    base[0] = eq_max_f32(base[0], eq_shfl_xor_f32(base[0], 2));
    base[0] = eq_max_f32(base[0], eq_shfl_xor_f32(base[0], 4));
    base[0] = eq_max_f32(base[0], eq_shfl_xor_f32(base[0], 8));
    base[0] = eq_max_f32(base[0], eq_shfl_xor_f32(base[0], 16));
    const float top_2 = base[0];
    const float base_2 = eq_where_f32(eq_cmpeq_f32(top_2, -eq_inf_f32()), 0.0f, top_2);
    shrink[0] = eq_exp_f32(eq_sub_f32(top[0], base_2));
    top[0] = top_2;
    base[0] = base_2;
    stream_1[0] = eq_mul_f32(stream_1[0], shrink[0]);
  }
  const int risen = eq_any_lane(eq_cmpne_f32(shrink[0], 1.0f));
  if (1 <= risen) {
    EQ_UNROLL
    for (int e_5 = 0; e_5 < 1; e_5++) {
      stream_0[0] = eq_mul_f32(stream_0[0], shrink[0]);
    }
  }
  // weights
  EQ_UNROLL
  for (int e_6 = 0; e_6 < 1; e_6++) {
    const float p = eq_exp_f32(eq_sub_f32(s[0], base[0]));
    s[0] = p;
    stream_1[0] = eq_add_f32(stream_1[0], p);
  }
  EQ_UNROLL
  for (int e_7 = 0; e_7 < 1; e_7++) {
    eq_st_shared_f32(144 * warp + 4 * lane + 4096, s[0]);
  }
  eq_sync_warp();
  EQ_UNROLL
  for (int step = 0; step < 8; step++) {
    eq_ld_shared_f32x4(a, 144 * warp + 16 * step + 4096);
    EQ_UNROLL
    for (int b_i = 0; b_i < 4; b_i++) {
      b[b_i] = eq_ld_shared_f32(128 * (4 * step + b_i) + 4 * lane);
    }
    EQ_UNROLL
    for (int t = 0; t < 4; t++) {
      stream_0[0] = eq_fma_f32(a[t], b[t], stream_0[0]);
    }
  }
  EQ_UNROLL
  for (int e_8 = 0; e_8 < 1; e_8++) {
    stream_1[0] = eq_add_f32(stream_1[0], eq_shfl_xor_f32(stream_1[0], 1));
    stream_1[0] = eq_add_f32(stream_1[0], eq_shfl_xor_f32(stream_1[0], 2));
    stream_1[0] = eq_add_f32(stream_1[0], eq_shfl_xor_f32(stream_1[0], 4));
    stream_1[0] = eq_add_f32(stream_1[0], eq_shfl_xor_f32(stream_1[0], 8));
    stream_1[0] = eq_add_f32(stream_1[0], eq_shfl_xor_f32(stream_1[0], 16));
  }
  EQ_UNROLL
  for (int e_9 = 0; e_9 < 1; e_9++) {
    base[0] = eq_sub_f32(top[0], top[0]);
    stream_1[0] = eq_add_f32(stream_1[0], base[0]);
  }
  EQ_UNROLL
  for (int e_10 = 0; e_10 < 1; e_10++) {
    stream_0[0] = eq_add_f32(stream_0[0], base[0]);
  }
  // epilogue on stream_0: fdiv
  EQ_UNROLL
  for (int e_11 = 0; e_11 < 1; e_11++) {
    const float sum = stream_0[0];
    const float sum_2 = stream_1[0];
    const int i0_2 = eq_min_i32(warp + 4 * block_x, 5);
    const int i1_2 = eq_min_i32(lane, 7);
    const float fdiv_2 = eq_fdiv_f32(sum, sum_2);
    eq_st_global_f32_if(warp + 4 * block_x < 6 && lane < 8, n17 + 8 * i0_2 + i1_2, fdiv_2);
  }
}
