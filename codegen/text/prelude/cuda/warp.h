/* Operations of several threads: barriers, fences, asynchronous copies, shuffles, tensor cores (PTX ISA, sm_80). */

EQ_FN void eq_barrier() { __syncthreads(); }
EQ_FN void eq_sync_warp() { __syncwarp(); }
EQ_FN int eq_any_lane(bool x) { return __any_sync(0xffffffffu, x) != 0; }
EQ_FN int eq_barrier_or(bool x) { return __syncthreads_or(x) != 0; }

/* Causality order (PTX ISA, memory consistency model): a fence before an atomic releases, a fence after an atomic
   acquires, and barriers extend both to the whole block. */
EQ_FN void eq_fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
EQ_FN int eq_ticket(eq_counter *counter, int count) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before) : "l"(__cvta_generic_to_global(counter)), "r"(count - 1) : "memory");
  return (int)before;
}
EQ_FN void eq_await(eq_counter *counter, int count) {
  unsigned tickets;
  do {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                 : "=r"(tickets) : "l"(__cvta_generic_to_global(counter)) : "memory");
  } while (tickets == 0);
  asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;"
               ::"l"(__cvta_generic_to_global(counter)), "r"(count - 1) : "memory");
}

EQ_FN unsigned eq_shared_address(unsigned offset) { return (unsigned)__cvta_generic_to_shared(eq_shared) + offset; }

/* A copy of sixteen bytes bypasses L1 (.cg); smaller copies cannot. */
EQ_FN void eq_cp_async16(unsigned to, const void *from, unsigned valid_bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               ::"r"(eq_shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(valid_bytes) : "memory");
}
EQ_FN void eq_cp_async8(unsigned to, const void *from, unsigned valid_bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
               ::"r"(eq_shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(valid_bytes) : "memory");
}
EQ_FN void eq_cp_async4(unsigned to, const void *from, unsigned valid_bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               ::"r"(eq_shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(valid_bytes) : "memory");
}
EQ_FN void eq_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> EQ_FN void eq_cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory"); }

#define EQ_SHUFFLES(T, C)                                                                          \
  EQ_FN C eq_shfl_xor_##T(C x, unsigned mask) { return __shfl_xor_sync(EQ_WARP, x, (int)mask); }   \
  EQ_FN C eq_shfl_down_##T(C x, unsigned by) { return __shfl_down_sync(EQ_WARP, x, by); }          \
  EQ_FN C eq_shfl_up_##T(C x, unsigned by) { return __shfl_up_sync(EQ_WARP, x, by); }              \
  EQ_FN C eq_shfl_lane_##T(C x, unsigned lane) { return __shfl_sync(EQ_WARP, x, (int)lane); }
EQ_SHUFFLES(f32, float)
EQ_SHUFFLES(f64, double)
EQ_SHUFFLES(i32, eq_i32)
EQ_SHUFFLES(u32, eq_u32)
EQ_SHUFFLES(i64, eq_i64)
EQ_SHUFFLES(u64, eq_u64)

#define EQ_LDMATRIX(name, trans)                                                                                   \
  EQ_FN void eq_ldmatrix_x1##name(unsigned *to, unsigned offset) {                                                 \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];"                                   \
                 : "=r"(to[0]) : "r"(eq_shared_address(offset)) : "memory");                                       \
  }                                                                                                                \
  EQ_FN void eq_ldmatrix_x2##name(unsigned *to, unsigned offset) {                                                 \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];"                               \
                 : "=r"(to[0]), "=r"(to[1]) : "r"(eq_shared_address(offset)) : "memory");                          \
  }                                                                                                                \
  EQ_FN void eq_ldmatrix_x4##name(unsigned *to, unsigned offset) {                                                 \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"                       \
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(eq_shared_address(offset)) : "memory"); \
  }
EQ_LDMATRIX(, "")
EQ_LDMATRIX(_trans, ".trans")

#define EQ_MMA(name, shape, types)                                                                            \
  EQ_FN void eq_mma_##name(float *d, const unsigned *a, const unsigned *b) {                                  \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." types ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "  \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                         \
  }
EQ_MMA(m16n8k16_f16, "m16n8k16", "f16.f16")
EQ_MMA(m16n8k16_bf16, "m16n8k16", "bf16.bf16")
EQ_MMA(m16n8k8_tf32, "m16n8k8", "tf32.tf32")
