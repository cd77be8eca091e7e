/* Synchronisation, asynchronous copies and operations of a whole warp. */

static inline void eq_barrier(EQ_HERE) { eq_simt->barrier(line); }
static inline void eq_sync_warp(EQ_HERE) { eq_simt->sync_warp(line); }
static inline int eq_barrier_or(bool x, EQ_HERE) { return eq_simt->barrier_or(x, line); }
static inline void eq_fence(EQ_HERE) { eq_simt->fence(line); }
static inline int eq_ticket(eq_counter *counter, int count, EQ_HERE) {
  return (int)eq_simt->ticket(counter, (unsigned)count, line);
}
static inline void eq_await(eq_counter *counter, int count, EQ_HERE) {
  eq_simt->await_ticket(counter, (unsigned)count, line);
}

#define EQ_COPY(n)                                                                                    \
  static inline void eq_cp_async##n(unsigned to, const void *from, unsigned valid_bytes, EQ_HERE) {   \
    eq_simt->copy_async(to, from, n, valid_bytes, line);                                              \
  }
EQ_COPY(4)
EQ_COPY(8)
EQ_COPY(16)

static inline void eq_cp_async_commit(EQ_HERE) { eq_simt->commit(line); }
template <int pending>
static inline void eq_cp_async_wait(EQ_HERE) { eq_simt->wait(pending, line); }

#define EQ_LOAD_MATRIX(n)                                                                             \
  EQ_INLINE void eq_ldmatrix_x##n(unsigned *to, unsigned offset, EQ_HERE) {                           \
    EQ_REGISTERS(to, n);                                                                              \
    eq_simt->load_matrix(to, offset, n, 0, line);                                                     \
  }                                                                                                   \
  EQ_INLINE void eq_ldmatrix_x##n##_trans(unsigned *to, unsigned offset, EQ_HERE) {                   \
    EQ_REGISTERS(to, n);                                                                              \
    eq_simt->load_matrix(to, offset, n, 1, line);                                                     \
  }
EQ_LOAD_MATRIX(1)
EQ_LOAD_MATRIX(2)
EQ_LOAD_MATRIX(4)

#define EQ_MULTIPLY(name, format)                                                                     \
  EQ_INLINE void eq_mma_##name(float *d, const unsigned *a, const unsigned *b, EQ_HERE) {             \
    EQ_REGISTERS(d, 4);                                                                               \
    EQ_REGISTERS(a, 4);                                                                               \
    EQ_REGISTERS(b, 2);                                                                               \
    eq_simt->multiply(format, d, a, b, line);                                                         \
  }
EQ_MULTIPLY(m16n8k16_f16, EQ_MMA_F16)
EQ_MULTIPLY(m16n8k16_bf16, EQ_MMA_BF16)
EQ_MULTIPLY(m16n8k8_tf32, EQ_MMA_TF32)

#define EQ_SHUFFLE(way, mode, T, C, Bits)                                                             \
  static inline C eq_shfl_##way##_##T(C x, unsigned operand, EQ_HERE) {                               \
    return eq_same_bits<C>((Bits)eq_simt->shuffle(mode, eq_same_bits<Bits>(x), operand, line));       \
  }
#define EQ_SHUFFLES(T, C, Bits)                                                                       \
  EQ_SHUFFLE(xor, EQ_SHUFFLE_XOR, T, C, Bits)                                                         \
  EQ_SHUFFLE(down, EQ_SHUFFLE_DOWN, T, C, Bits)                                                       \
  EQ_SHUFFLE(up, EQ_SHUFFLE_UP, T, C, Bits)                                                           \
  EQ_SHUFFLE(lane, EQ_SHUFFLE_LANE, T, C, Bits)
EQ_SHUFFLES(f32, float, uint32_t)
EQ_SHUFFLES(f64, double, uint64_t)
EQ_SHUFFLES(i32, int, uint32_t)
EQ_SHUFFLES(u32, unsigned, uint32_t)
EQ_SHUFFLES(i64, long long, uint64_t)
EQ_SHUFFLES(u64, unsigned long long, uint64_t)
static inline int eq_any_lane(bool x, EQ_HERE) {
  int any = x;
  for (unsigned mask = 1; mask < 32; mask *= 2) any |= eq_shfl_xor_i32(any, mask, line);
  return any;
}
