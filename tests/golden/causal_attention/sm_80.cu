/* attn */
/* region mul_where_stream_fdiv_cast(Q: fp16[1,2,12,16], K: fp16[1,2,12,16], n5: const bool[12,12], V: fp16[1,2,12,16]) -> (n37: fp16[1,2,12,16])
     dot_0: fp32[2,12,12] = contraction[2,12,12|16](Q[0, i0, i1, r0], K[0, i0, i2, r0])
     mul_1: fp32[2,12,12] = mul[2,12,12](dot_0[i0, i1, i2], 0.25)
     where_2: fp32[2,12,12] = where[2,12,12](n5[i1, i2], mul_1[i0, i1, i2], -inf)
     stream_3: fp32[2,12,16] = stream exp[2,12,16|12](where_2[i0, i1, r0], V[0, i0, r0, i2])
     stream_4: fp32[2,12] = stream exp[2,12|12](where_2[i0, i1, r0], 1.0)
     fdiv_5: fp32[2,12,16] = fdiv[2,12,16](stream_3[i0, i1, i2], stream_4[i0, i1])
     cast_6: fp16[2,12,16] = cast[2,12,16](fdiv_5[i0, i1, i2])
     yield cast_6[i1, i2, i3] -> n37
   2 streams of 12 x 12 scores of depth 16, 1 products
   plan sm80: tile 16x16x16, warp_tile 16x16, stages 1, mma, C_store staged, queries registers, fragments ahead */
extern "C" EQ_KERNEL(32, 1) void eq_mul_where_stream_fdiv_cast(const eq_f16 *__restrict__ Q, const eq_f16 *__restrict__ K, const eq_bool *__restrict__ n5, const eq_f16 *__restrict__ V, eq_f16 *__restrict__ n37) {
  // 1536 bytes of shared memory:
  //   Qs: fp16[16, 16] swizzle 1 at 0
  //   Ks: fp16[16, 16] swizzle 1 at 512
  //   Vs: fp16[1, 16, 16] swizzle 1 at 1024
  //   Cs: fp16[1, 16, 16] swizzle 1 at 0
  const int thread = eq_thread();
  const int lane = eq_lane();
  const int block_y = eq_block_y();
  float s[8] = {};
  unsigned a[4];
  unsigned b[4];
  float stream_3[8] = {};
  unsigned a_2[4];
  unsigned b_2[4];
  float top[2];
  float base[2];
  float shrink[2];
  float stream_4[2] = {};
  unsigned out[4];
  EQ_UNROLL
  for (int e = 0; e < 2; e++) {
    top[e] = -eq_inf_f32();
  }
  // the queries
  const int id_part = thread / 2;
  const int id_part_2 = thread % 2;
  const int i2 = eq_min_i32(id_part, 11);
  eq_cp_async16(eq_swizzle<1>(32 * id_part + 16 * id_part_2), Q + 192 * block_y + 16 * i2 + 8 * id_part_2, id_part < 12 ? 16 : 0);
  eq_cp_async_commit();
  // fill the ring
  const int r0 = eq_min_i32(id_part, 11);
  eq_cp_async16(512 + eq_swizzle<1>(32 * id_part + 16 * id_part_2), K + 192 * block_y + 16 * r0 + 8 * id_part_2, id_part < 12 ? 16 : 0);
  const int r0_2 = eq_min_i32(id_part, 11);
  eq_cp_async16(1024 + eq_swizzle<1>(32 * id_part + 16 * id_part_2), V + 192 * block_y + 16 * r0_2 + 8 * id_part_2, id_part < 12 ? 16 : 0);
  eq_cp_async_commit();
  eq_cp_async_wait<1>();
  eq_barrier();
  eq_ldmatrix_x4(a, eq_swizzle<1>(32 * (lane % 16) + 16 * (lane / 16)));
  // the products
  eq_cp_async_wait<0>();
  eq_barrier();
  // scores, and the maximum of each row
  EQ_UNROLL
  for (int e_2 = 0; e_2 < 8; e_2++) {
    s[e_2] = 0.0f;
  }
  eq_ldmatrix_x4(b, 256 * (lane / 16) + 512 + eq_swizzle<1>(32 * (lane % 8) + 16 * ((lane / 8) % 2)));
  EQ_UNROLL
  for (int j = 0; j < 2; j++) {
    eq_mma_m16n8k16_f16(s + 4 * j, a, b + 2 * j);
  }
  EQ_UNROLL
  for (int e_3 = 0; e_3 < 2; e_3++) {
    base[e_3] = top[e_3];
  }
  EQ_UNROLL
  for (int e_4 = 0; e_4 < 8; e_4++) {
    const float sum = s[e_4];
    const int i2_2 = eq_min_i32(lane / 4 + 8 * ((e_4 / 2) % 2), 11);
    const int r0_3 = eq_min_i32(8 * (e_4 / 4) + e_4 % 2 + 2 * (lane % 4), 11);
    const float where_2 = eq_where_f32(eq_ld_global_bool_if(lane / 4 + 8 * ((e_4 / 2) % 2) < 12 && 8 * (e_4 / 4) + e_4 % 2 + 2 * (lane % 4) < 12, n5 + 12 * i2_2 + r0_3), sum, -eq_inf_f32());
    const float score = eq_where_f32((8 * (e_4 / 4) + e_4 % 2 + 2 * (lane % 4) < 12), where_2, -eq_inf_f32());
    s[e_4] = score;
    base[(e_4 / 2) % 2] = eq_max_f32(base[(e_4 / 2) % 2], score);
  }
  EQ_UNROLL
  for (int e_5 = 0; e_5 < 2; e_5++) {
    base[e_5] = eq_max_f32(base[e_5], eq_shfl_xor_f32(base[e_5], 1));
    base[e_5] = eq_max_f32(base[e_5], eq_shfl_xor_f32(base[e_5], 2));
    const float top_2 = base[e_5];
    const float base_2 = eq_where_f32(eq_cmpeq_f32(top_2, -eq_inf_f32()), 0.0f, top_2);
    shrink[e_5] = eq_exp2_approx_f32(eq_mul_f32(eq_sub_f32(top[e_5], base_2), 0.36067376022224085f));
    top[e_5] = top_2;
    base[e_5] = eq_mul_f32(base_2, -0.36067376022224085f);
    stream_4[e_5] = eq_mul_f32(stream_4[e_5], shrink[e_5]);
  }
  const int risen = eq_any_lane(eq_or_bool(eq_cmpne_f32(shrink[0], 1.0f), eq_cmpne_f32(shrink[1], 1.0f)));
  if (1 <= risen) {
    EQ_UNROLL
    for (int e_6 = 0; e_6 < 8; e_6++) {
      stream_3[e_6] = eq_mul_f32(stream_3[e_6], shrink[(e_6 / 2) % 2]);
    }
  }
  // weights
  const int far = eq_any_lane(eq_not_bool(eq_cmplt_f32(eq_max_f32(eq_abs_f32(base[0]), eq_abs_f32(base[1])), 4096.0f)));
  if (far < 1) {
    EQ_UNROLL
    for (int e_7 = 0; e_7 < 8; e_7++) {
      const float p = eq_exp2_approx_f32(eq_fma_f32(s[e_7], 0.36067376022224085f, base[(e_7 / 2) % 2]));
      s[e_7] = p;
      stream_4[(e_7 / 2) % 2] = eq_add_f32(stream_4[(e_7 / 2) % 2], p);
    }
  } else {
    EQ_UNROLL
    for (int e_8 = 0; e_8 < 8; e_8++) {
      const float p_2 = eq_exp2_approx_f32(eq_mul_f32(eq_sub_f32(s[e_8], eq_where_f32(eq_cmpeq_f32(top[(e_8 / 2) % 2], -eq_inf_f32()), 0.0f, top[(e_8 / 2) % 2])), 0.36067376022224085f));
      s[e_8] = p_2;
      stream_4[(e_8 / 2) % 2] = eq_add_f32(stream_4[(e_8 / 2) % 2], p_2);
    }
  }
  EQ_UNROLL
  for (int e_9 = 0; e_9 < 4; e_9++) {
    a_2[e_9] = eq_pack_f16(s[2 * e_9], s[2 * e_9 + 1]);
  }
  eq_ldmatrix_x4_trans(b_2, 1024 + eq_swizzle<1>(32 * (lane % 16) + 16 * (lane / 16)));
  EQ_UNROLL
  for (int j_2 = 0; j_2 < 2; j_2++) {
    eq_mma_m16n8k16_f16(stream_3 + 4 * j_2, a_2, b_2 + 2 * j_2);
  }
  EQ_UNROLL
  for (int e_10 = 0; e_10 < 2; e_10++) {
    top[e_10] = eq_mul_f32(top[e_10], 0.25f);
    stream_4[e_10] = eq_add_f32(stream_4[e_10], eq_shfl_xor_f32(stream_4[e_10], 1));
    stream_4[e_10] = eq_add_f32(stream_4[e_10], eq_shfl_xor_f32(stream_4[e_10], 2));
  }
  EQ_UNROLL
  for (int e_11 = 0; e_11 < 2; e_11++) {
    base[e_11] = eq_sub_f32(top[e_11], top[e_11]);
    stream_4[e_11] = eq_add_f32(stream_4[e_11], base[e_11]);
  }
  EQ_UNROLL
  for (int e_12 = 0; e_12 < 8; e_12++) {
    stream_3[e_12] = eq_add_f32(stream_3[e_12], base[(e_12 / 2) % 2]);
  }
  // epilogue on stream_3: fdiv, cast
  EQ_UNROLL
  for (int e_13 = 0; e_13 < 8; e_13++) {
    const float sum_2 = stream_3[e_13];
    const float sum_3 = stream_4[(e_13 / 2) % 2];
    const float fdiv_5 = eq_fdiv_f32(sum_2, sum_3);
    const float cast_6 = eq_round_f16(fdiv_5);
    stream_3[e_13] = cast_6;
  }
  // results, put together over the ring
  EQ_UNROLL
  for (int pair = 0; pair < 4; pair++) {
    eq_st_shared_f16x2(256 * (pair % 2) + eq_swizzle<1>(32 * (lane / 4) + 2 * (8 * (pair / 2) + 2 * (lane % 4))), stream_3 + 2 * pair);
  }
  eq_barrier();
  eq_ld_shared_16(out, eq_swizzle<1>(32 * (thread / 2) + 16 * (thread % 2)));
  const int i2_4 = eq_min_i32(thread / 2, 11);
  const int i3_2 = thread % 2;
  eq_st_global_16_if(thread / 2 < 12, n37 + 192 * block_y + 16 * i2_4 + 8 * i3_2, out);
}
