/* Single elements, neighbours and raw bytes, to and from global and shared memory. */

EQ_FN void eq_ld_global_4(unsigned *to, const void *from) { to[0] = *(const unsigned *)from; }
EQ_FN void eq_ld_global_8(unsigned *to, const void *from) {
  uint2 v = *(const uint2 *)from;
  to[0] = v.x, to[1] = v.y;
}
EQ_FN void eq_ld_global_16(unsigned *to, const void *from) {
  uint4 v = *(const uint4 *)from;
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
EQ_FN void eq_st_global_4(void *to, const unsigned *from) { *(unsigned *)to = from[0]; }
EQ_FN void eq_st_global_8(void *to, const unsigned *from) { *(uint2 *)to = make_uint2(from[0], from[1]); }
EQ_FN void eq_st_global_16(void *to, const unsigned *from) {
  *(uint4 *)to = make_uint4(from[0], from[1], from[2], from[3]);
}
#define EQ_RAW(n)                                                                                          \
  EQ_FN void eq_ld_global_##n##_if(bool wanted, unsigned *to, const void *from) {                          \
    EQ_UNROLL for (int i = 0; i < n / 4; i++) to[i] = 0;                                                   \
    if (wanted) eq_ld_global_##n(to, from);                                                                \
  }                                                                                                        \
  EQ_FN void eq_st_global_##n##_if(bool wanted, void *to, const unsigned *from) {                          \
    if (wanted) eq_st_global_##n(to, from);                                                                \
  }                                                                                                        \
  EQ_FN void eq_ld_shared_##n(unsigned *to, unsigned offset) { eq_ld_global_##n(to, eq_shared + offset); } \
  EQ_FN void eq_st_shared_##n(unsigned offset, const unsigned *from) { eq_st_global_##n(eq_shared + offset, from); }
EQ_RAW(4)
EQ_RAW(8)
EQ_RAW(16)

/* One element: from a cell of memory to a register of type R, and back. */
#define EQ_ELEMENT(T, R, read, written)                                                                          \
  EQ_FN R eq_read_##T(eq_##T cell) { return read; }                                                              \
  EQ_FN eq_##T eq_written_##T(R x) { return written; }                                                           \
  EQ_FN R eq_ld_global_##T(const eq_##T *from) { return eq_read_##T(*from); }                                    \
  EQ_FN R eq_ld_global_##T##_if(bool wanted, const eq_##T *from) { return wanted ? eq_read_##T(*from) : (R)0; }  \
  EQ_FN void eq_st_global_##T(eq_##T *to, R x) { *to = eq_written_##T(x); }                                      \
  EQ_FN void eq_st_global_##T##_if(bool wanted, eq_##T *to, R x) { if (wanted) *to = eq_written_##T(x); }        \
  EQ_FN R eq_ld_shared_##T(unsigned offset) { return eq_read_##T(*(const eq_##T *)(eq_shared + offset)); }       \
  EQ_FN void eq_st_shared_##T(unsigned offset, R x) { *(eq_##T *)(eq_shared + offset) = eq_written_##T(x); }
EQ_ELEMENT(f16, float, eq_widen_f16(cell.bits), {(unsigned short)eq_pack_f16(x, 0)})
EQ_ELEMENT(bf16, float, eq_widen_bf16(cell.bits), {(unsigned short)eq_pack_bf16(x, 0)})
EQ_ELEMENT(f32, float, cell, x)
EQ_ELEMENT(f64, double, cell, x)
EQ_ELEMENT(i8, eq_i8, cell, x)
EQ_ELEMENT(u8, eq_u8, cell, x)
EQ_ELEMENT(i16, eq_i16, cell, x)
EQ_ELEMENT(u16, eq_u16, cell, x)
EQ_ELEMENT(i32, eq_i32, cell, x)
EQ_ELEMENT(u32, eq_u32, cell, x)
EQ_ELEMENT(i64, eq_i64, cell, x)
EQ_ELEMENT(u64, eq_u64, cell, x)
EQ_ELEMENT(bool, bool, cell.is != 0, {(unsigned char)x})

/* Neighbours: the elements in words that are moved at once. */
EQ_FN void eq_unpack_f32(float *to, const unsigned *w, int n) { EQ_UNROLL for (int i = 0; i < n; i++) to[i] = __uint_as_float(w[i]); }
EQ_FN void eq_gather_f32(unsigned *w, const float *from, int n) { EQ_UNROLL for (int i = 0; i < n; i++) w[i] = __float_as_uint(from[i]); }
#define EQ_WHOLE(T, R)                                                             \
  EQ_FN void eq_unpack_##T(R *to, const unsigned *w, int n) {                      \
    EQ_UNROLL for (int i = 0; i < n; i++) to[i] = (R)w[i];                         \
  }                                                                                \
  EQ_FN void eq_gather_##T(unsigned *w, const R *from, int n) {                    \
    EQ_UNROLL for (int i = 0; i < n; i++) w[i] = (unsigned)from[i];                \
  }
EQ_WHOLE(i32, eq_i32)
EQ_WHOLE(u32, eq_u32)
#define EQ_HALVES(T)                                                               \
  EQ_FN void eq_unpack_##T(float *to, const unsigned *w, int n) {                  \
    EQ_UNROLL for (int i = 0; i < n; i += 2) to[i] = eq_low_##T(w[i / 2]), to[i + 1] = eq_high_##T(w[i / 2]); \
  }                                                                                \
  EQ_FN void eq_gather_##T(unsigned *w, const float *from, int n) {                \
    EQ_UNROLL for (int i = 0; i < n; i += 2) w[i / 2] = eq_pack_##T(from[i], from[i + 1]); \
  }
EQ_HALVES(f16)
EQ_HALVES(bf16)
#define EQ_NARROW(T, R, per, bits)                                                 \
  EQ_FN void eq_unpack_##T(R *to, const unsigned *w, int n) {                      \
    EQ_UNROLL for (int i = 0; i < n; i++) to[i] = (R)(w[i / per] >> bits * (i % per)); \
  }                                                                                \
  EQ_FN void eq_gather_##T(unsigned *w, const R *from, int n) {                    \
    EQ_UNROLL for (int i = 0; i < n / per; i++) w[i] = 0;                          \
    EQ_UNROLL for (int i = 0; i < n; i++) w[i / per] |= ((unsigned)from[i] & ((1u << bits) - 1)) << bits * (i % per); \
  }
EQ_NARROW(i8, eq_i8, 4, 8)
EQ_NARROW(u8, eq_u8, 4, 8)
EQ_NARROW(i16, eq_i16, 2, 16)
EQ_NARROW(u16, eq_u16, 2, 16)
EQ_FN void eq_unpack_bool(bool *to, const unsigned *w, int n) {
  EQ_UNROLL for (int i = 0; i < n; i++) to[i] = (w[i / 4] >> 8 * (i % 4) & 255) != 0;
}
EQ_FN void eq_gather_bool(unsigned *w, const bool *from, int n) {
  EQ_UNROLL for (int i = 0; i < n / 4; i++) w[i] = 0;
  EQ_UNROLL for (int i = 0; i < n; i++) w[i / 4] |= (unsigned)from[i] << 8 * (i % 4);
}
#define EQ_DOUBLE(T, R, joined, bits)                                              \
  EQ_FN void eq_unpack_##T(R *to, const unsigned *w, int n) {                      \
    EQ_UNROLL for (int i = 0; i < n; i++) {                                        \
      long long both = (long long)((unsigned long long)w[2 * i + 1] << 32 | w[2 * i]); \
      to[i] = joined;                                                              \
    }                                                                              \
  }                                                                                \
  EQ_FN void eq_gather_##T(unsigned *w, const R *from, int n) {                    \
    EQ_UNROLL for (int i = 0; i < n; i++) {                                        \
      unsigned long long both = (unsigned long long)(bits);                        \
      w[2 * i] = (unsigned)both, w[2 * i + 1] = (unsigned)(both >> 32);            \
    }                                                                              \
  }
EQ_DOUBLE(f64, double, __longlong_as_double(both), __double_as_longlong(from[i]))
EQ_DOUBLE(i64, eq_i64, both, from[i])
EQ_DOUBLE(u64, eq_u64, (eq_u64)both, from[i])

#define EQ_NEIGHBOURS(T, R, n, bytes)                                              \
  EQ_FN void eq_ld_global_##T##x##n(R *to, const eq_##T *from) {                   \
    unsigned w[bytes / 4];                                                         \
    eq_ld_global_##bytes(w, from), eq_unpack_##T(to, w, n);                        \
  }                                                                                \
  EQ_FN void eq_ld_global_##T##x##n##_if(bool wanted, R *to, const eq_##T *from) { \
    unsigned w[bytes / 4];                                                         \
    eq_ld_global_##bytes##_if(wanted, w, from), eq_unpack_##T(to, w, n);           \
  }                                                                                \
  EQ_FN void eq_st_global_##T##x##n(eq_##T *to, const R *from) {                   \
    unsigned w[bytes / 4];                                                         \
    eq_gather_##T(w, from, n), eq_st_global_##bytes(to, w);                        \
  }                                                                                \
  EQ_FN void eq_st_global_##T##x##n##_if(bool wanted, eq_##T *to, const R *from) { \
    if (wanted) eq_st_global_##T##x##n(to, from);                                  \
  }                                                                                \
  EQ_FN void eq_ld_shared_##T##x##n(R *to, unsigned offset) {                      \
    unsigned w[bytes / 4];                                                         \
    eq_ld_shared_##bytes(w, offset), eq_unpack_##T(to, w, n);                      \
  }                                                                                \
  EQ_FN void eq_st_shared_##T##x##n(unsigned offset, const R *from) {              \
    unsigned w[bytes / 4];                                                         \
    eq_gather_##T(w, from, n), eq_st_shared_##bytes(offset, w);                    \
  }
#define EQ_OF_1(T, R) EQ_NEIGHBOURS(T, R, 4, 4) EQ_NEIGHBOURS(T, R, 8, 8) EQ_NEIGHBOURS(T, R, 16, 16)
#define EQ_OF_2(T, R) EQ_NEIGHBOURS(T, R, 2, 4) EQ_NEIGHBOURS(T, R, 4, 8) EQ_NEIGHBOURS(T, R, 8, 16)
#define EQ_OF_4(T, R) EQ_NEIGHBOURS(T, R, 2, 8) EQ_NEIGHBOURS(T, R, 4, 16)
EQ_OF_1(i8, eq_i8) EQ_OF_1(u8, eq_u8) EQ_OF_1(bool, bool)
EQ_OF_2(f16, float) EQ_OF_2(bf16, float) EQ_OF_2(i16, eq_i16) EQ_OF_2(u16, eq_u16)
EQ_OF_4(f32, float) EQ_OF_4(i32, eq_i32) EQ_OF_4(u32, eq_u32)
EQ_NEIGHBOURS(f64, double, 2, 16) EQ_NEIGHBOURS(i64, eq_i64, 2, 16) EQ_NEIGHBOURS(u64, eq_u64, 2, 16)
