/* Loads and stores of every storage type D: f16 bf16 f32 f64, i8 … i64, u8 … u64, bool (one byte, 0 or 1).

     eq_load_D(p)              EQ_VL elements          eq_store_D(p, v)
     eq_load_n_D(p, n)         the first n, rest 0     eq_store_n_D(p, v, n)     0 <= n <= EQ_VL
     eq_splat_D(p)             one element, all lanes
     eq_strided_D(p, s, n)     p[0], p[s], … n of them eq_store_strided_D(p, s, v, n)
     eq_gather_D(p, i, m)      p[i] where m, else 0    eq_load_m_D(p, m)         p[lane] where m, else 0
     eq_back_m_D(p, m)         p[-lane] where m, else 0

   A lane that is switched off does not touch memory. Pointers need no alignment. Strides and indices count
   elements. The moves are written once for a width (8, 16, 32, 64 bits); the types decode what was moved. */

/* Whether a number of lanes is a constant, and this one. */
#define EQ_IS(n, number) (__builtin_constant_p(n) && (n) == (number))

#define EQ_LOOSE(V) V __attribute__((aligned(1), may_alias))
typedef EQ_LOOSE(eq_i8) eq_loose_8;
typedef EQ_LOOSE(eq_i16) eq_loose_16;
typedef EQ_LOOSE(eq_i32) eq_loose_32;
typedef EQ_LOOSE(eq_i64h) eq_loose_64h;
typedef int8_t __attribute__((may_alias)) eq_cell_8;
typedef int16_t __attribute__((may_alias)) eq_cell_16;
typedef int32_t __attribute__((may_alias)) eq_cell_32;
typedef int64_t __attribute__((may_alias)) eq_cell_64;
typedef float __attribute__((may_alias)) eq_cell_f32;
typedef double __attribute__((may_alias)) eq_cell_f64;

EQ_FN eq_i8 eq_move_load_8(const void *p) { return *(const eq_loose_8 *)p; }
EQ_FN eq_i16 eq_move_load_16(const void *p) { return *(const eq_loose_16 *)p; }
EQ_FN eq_i32 eq_move_load_32(const void *p) { return *(const eq_loose_32 *)p; }
EQ_FN eq_i64 eq_move_load_64(const void *p) {
  return (eq_i64){((const eq_loose_64h *)p)[0], ((const eq_loose_64h *)p)[1]};
}
EQ_FN void eq_move_store_8(void *p, eq_i8 v) { *(eq_loose_8 *)p = v; }
EQ_FN void eq_move_store_16(void *p, eq_i16 v) { *(eq_loose_16 *)p = v; }
EQ_FN void eq_move_store_32(void *p, eq_i32 v) { *(eq_loose_32 *)p = v; }
EQ_FN void eq_move_store_64(void *p, eq_i64 v) { ((eq_loose_64h *)p)[0] = v.lo, ((eq_loose_64h *)p)[1] = v.hi; }

EQ_FN eq_i8 eq_move_splat_8(const void *p) { return eq_imm_i8(*(const eq_cell_8 *)p); }
EQ_FN eq_i16 eq_move_splat_16(const void *p) { return eq_imm_i16(*(const eq_cell_16 *)p); }
EQ_FN eq_i32 eq_move_splat_32(const void *p) { return eq_imm_i32(*(const eq_cell_32 *)p); }
EQ_FN eq_i64 eq_move_splat_64(const void *p) { return eq_imm_i64(*(const eq_cell_64 *)p); }

/* Moves lane by lane, for machines without an instruction for the whole register. */
#define EQ_MOVE_LANES(W)                                                                       \
  EQ_FN eq_i##W eq_lanes_strided_##W(const void *p, ptrdiff_t stride, int n) {                 \
    int##W##_t lane[EQ_VL] = {0};                                                              \
    for (int i = 0; i < n; i++) lane[i] = ((const eq_cell_##W *)p)[i * stride];                \
    return eq_move_load_##W(lane);                                                             \
  }                                                                                            \
  EQ_FN void eq_move_store_strided_##W(void *p, ptrdiff_t stride, eq_i##W v, int n) {          \
    int##W##_t lane[EQ_VL];                                                                    \
    eq_move_store_##W(lane, v);                                                                \
    for (int i = 0; i < n; i++) ((eq_cell_##W *)p)[i * stride] = lane[i];                      \
  }                                                                                            \
  EQ_FN eq_i##W eq_lanes_gather_##W(const void *p, eq_i64 index, eq_mask m) {                  \
    int##W##_t lane[EQ_VL] = {0};                                                              \
    int64_t at[EQ_VL];                                                                         \
    int32_t on[EQ_VL];                                                                         \
    eq_move_store_64(at, index), eq_move_store_32(on, m);                                      \
    for (int i = 0; i < EQ_VL; i++)                                                            \
      if (on[i]) lane[i] = ((const eq_cell_##W *)p)[at[i]];                                    \
    return eq_move_load_##W(lane);                                                             \
  }
EQ_MOVE_LANES(8)
EQ_MOVE_LANES(16)
EQ_MOVE_LANES(32)
EQ_MOVE_LANES(64)

/* Whole registers, lane by lane. The lanes are floats, since gcc goes through memory for integers. */
#define EQ_AT(i) at[(i) * stride]
#define EQ_AT_UPPER(i) at[(EQ_VL / 2 + (i)) * stride]
EQ_FN eq_i8 eq_move_strided_8(const void *p, ptrdiff_t stride, int n) { return eq_lanes_strided_8(p, stride, n); }
EQ_FN eq_i16 eq_move_strided_16(const void *p, ptrdiff_t stride, int n) { return eq_lanes_strided_16(p, stride, n); }
EQ_FN eq_i32 eq_move_strided_32(const void *p, ptrdiff_t stride, int n) {
  const eq_cell_f32 *at = p;
  if (!EQ_IS(n, EQ_VL)) return eq_lanes_strided_32(p, stride, n);
  return EQ_BITS(((eq_f32){EQ_LANES(EQ_AT)}));
}
EQ_FN eq_i64 eq_move_strided_64(const void *p, ptrdiff_t stride, int n) {
  const eq_cell_f64 *at = p;
  if (!EQ_IS(n, EQ_VL)) return eq_lanes_strided_64(p, stride, n);
  return (eq_i64){(eq_i64h)(eq_f64h){EQ_HALF_LANES(EQ_AT)}, (eq_i64h)(eq_f64h){EQ_HALF_LANES(EQ_AT_UPPER)}};
}

#define EQ_TAIL_LANES(W)                                                                               \
  EQ_FN eq_i##W eq_move_load_n_##W(const void *p, int n) { return eq_move_strided_##W(p, 1, n); }      \
  EQ_FN void eq_move_store_n_##W(void *p, eq_i##W v, int n) { eq_move_store_strided_##W(p, 1, v, n); }
#define EQ_GATHER_LANES(W)                                                                             \
  EQ_FN eq_i##W eq_move_gather_##W(const void *p, eq_i64 index, eq_mask m) {                           \
    return eq_lanes_gather_##W(p, index, m);                                                           \
  }
#define EQ_MASK_LANES(W)                                                                               \
  EQ_FN eq_i##W eq_move_load_m_##W(const void *p, eq_mask m) {                                         \
    return eq_lanes_gather_##W(p, eq_iota_i64(0, 1), m);                                               \
  }
EQ_GATHER_LANES(8)
EQ_GATHER_LANES(16)

#if EQ_X86 == 512
EQ_FN uint32_t eq_bits_first(int n) { return (1u << n) - 1; }
EQ_FN uint32_t eq_bits_mask(eq_mask m) {
  uint32_t k;
  __asm__("vpmovd2m %1, %%k1\n\tkmovw %%k1, %0" : "=r"(k) : "v"(m) : "k1");
  return k;
}
#endif

/* Sanitizers do not see the accesses of inline assembly. With EQ_PLAIN_MEMORY all moves are plain C. */
#if defined(EQ_PLAIN_MEMORY)
#define EQ_X86_MOVES 0
#else
#define EQ_X86_MOVES EQ_X86
#endif

/* Masked moves are volatile asm on a bare pointer. A memory operand would claim an access of the full register,
   whose lanes may lie outside of the object. */
#if EQ_X86_MOVES == 512
#define EQ_TAIL_MASKED(W, V, insn)                                                                            \
  EQ_FN V eq_masked_load_##W(const void *p, uint32_t bits) {                                                  \
    V r;                                                                                                      \
    __asm__ volatile(insn " (%1), %0%{%2%}%{z%}" : "=v"(r) : "r"(p), "Yk"((uint16_t)bits) : "memory");        \
    return r;                                                                                                 \
  }                                                                                                           \
  EQ_FN void eq_masked_store_##W(void *p, V v, uint32_t bits) {                                               \
    __asm__ volatile(insn " %1, (%0)%{%2%}" : : "r"(p), "v"(v), "Yk"((uint16_t)bits) : "memory");             \
  }
/* A masked store is never forwarded to a load, so a lone element is stored without a mask. */
#define EQ_TAIL(W)                                                                                            \
  EQ_FN eq_i##W eq_move_load_n_##W(const void *p, int n) { return eq_masked_load_##W(p, eq_bits_first(n)); }  \
  EQ_FN void eq_move_store_n_##W(void *p, eq_i##W v, int n) {                                                 \
    if (EQ_IS(n, 1)) *(eq_cell_##W *)p = v[0];                                                                \
    else eq_masked_store_##W(p, v, eq_bits_first(n));                                                         \
  }                                                                                                           \
  EQ_FN eq_i##W eq_move_load_m_##W(const void *p, eq_mask m) { return eq_masked_load_##W(p, eq_bits_mask(m)); }
EQ_TAIL_MASKED(8, eq_i8, "vmovdqu8")
EQ_TAIL_MASKED(16, eq_i16, "vmovdqu16")
EQ_TAIL_MASKED(32, eq_i32, "vmovdqu32")
EQ_TAIL_MASKED(64, eq_i64h, "vmovdqu64")
EQ_TAIL(8)
EQ_TAIL(16)
EQ_TAIL(32)
EQ_FN eq_i64 eq_move_load_bits_64(const void *p, uint32_t bits) {
  return (eq_i64){eq_masked_load_64(p, bits & 255), eq_masked_load_64((const char *)p + 64, bits >> 8)};
}
EQ_FN eq_i64 eq_move_load_n_64(const void *p, int n) {
  if (EQ_IS(n, 8)) return (eq_i64){*(const eq_loose_64h *)p, {0}};
  return eq_move_load_bits_64(p, eq_bits_first(n));
}
EQ_FN eq_i64 eq_move_load_m_64(const void *p, eq_mask m) { return eq_move_load_bits_64(p, eq_bits_mask(m)); }
EQ_FN void eq_move_store_n_64(void *p, eq_i64 v, int n) {
  uint32_t bits = eq_bits_first(n);
  if (EQ_IS(n, 1)) *(eq_cell_64 *)p = v.lo[0];
  else if (EQ_IS(n, 8)) *(eq_loose_64h *)p = v.lo;
  else eq_masked_store_64(p, v.lo, bits & 255), eq_masked_store_64((char *)p + 64, v.hi, bits >> 8);
}
#define EQ_GATHER_MASKED(W, V, insn)                                                                          \
  EQ_FN V eq_masked_gather_##W(const void *p, eq_i64h index, uint32_t bits) {                                 \
    V r = {0};                                                                                                \
    uint16_t k = (uint16_t)bits;                                                                              \
    __asm__ volatile(insn " (%2,%3,%c4), %0%{%1%}"                                                            \
                     : "+&v"(r), "+&Yk"(k) : "r"(p), "v"(index), "i"(W / 8) : "memory");                      \
    return r;                                                                                                 \
  }
EQ_GATHER_MASKED(32, eq_i32h, "vpgatherqd")
EQ_GATHER_MASKED(64, eq_i64h, "vpgatherqq")
EQ_FN eq_i32 eq_move_gather_32(const void *p, eq_i64 index, eq_mask m) {
  uint32_t bits = eq_bits_mask(m);
  return eq_join_i32(eq_masked_gather_32(p, index.lo, bits & 255), eq_masked_gather_32(p, index.hi, bits >> 8));
}
EQ_FN eq_i64 eq_move_gather_64(const void *p, eq_i64 index, eq_mask m) {
  uint32_t bits = eq_bits_mask(m);
  return (eq_i64){eq_masked_gather_64(p, index.lo, bits & 255), eq_masked_gather_64(p, index.hi, bits >> 8)};
}

#elif EQ_X86_MOVES == 256
#define EQ_MASKED_LOAD(W, V, insn)                                                                            \
  EQ_FN V eq_masked_load_##W(const void *p, V m) {                                                            \
    V r;                                                                                                      \
    __asm__ volatile(insn " (%1), %2, %0" : "=x"(r) : "r"(p), "x"(m) : "memory");                             \
    return r;                                                                                                 \
  }
EQ_MASKED_LOAD(32, eq_i32, "vpmaskmovd")
EQ_MASKED_LOAD(64, eq_i64h, "vpmaskmovq")
EQ_FN eq_i32 eq_move_load_n_32(const void *p, int n) { return eq_masked_load_32(p, eq_first(n)); }
EQ_FN eq_i32 eq_move_load_m_32(const void *p, eq_mask m) { return eq_masked_load_32(p, m); }
EQ_FN eq_i64 eq_move_load_m_64(const void *p, eq_mask m) {
  eq_i64 wide = eq_widen(m);
  return (eq_i64){eq_masked_load_64(p, wide.lo), eq_masked_load_64((const char *)p + 32, wide.hi)};
}
EQ_FN eq_i64 eq_move_load_n_64(const void *p, int n) { return eq_move_load_m_64(p, eq_first(n)); }
EQ_MASK_LANES(8)
EQ_MASK_LANES(16)

/* Short moves in pieces of 16, 8, 4, 2 and 1 bytes: there are no masked ones of narrow lanes, and a masked store of
   wide lanes takes a core of AMD twelve cycles. */
typedef EQ_VECTOR(int64_t, 2) eq_two_i64;
typedef EQ_LOOSE(eq_two_i64) eq_loose_two_i64;
typedef EQ_LOOSE(uint64_t) eq_loose_u64;
typedef EQ_LOOSE(uint32_t) eq_loose_u32;
typedef EQ_LOOSE(uint16_t) eq_loose_u16;
EQ_FN uint64_t eq_load_bytes(const void *p, int size) { /* size < 8 */
  const char *at = p;
  uint64_t bits = 0;
  if (size & 4) bits = *(const eq_loose_u32 *)at;
  if (size & 2) bits |= (uint64_t)*(const eq_loose_u16 *)(at + (size & 4)) << 8 * (size & 4);
  if (size & 1) bits |= (uint64_t)(uint8_t)at[size & 6] << 8 * (size & 6);
  return bits;
}
EQ_FN void eq_store_bytes(void *p, eq_two_i64 first, eq_two_i64 second, int size) { /* size < 32 */
  char *at = p;
  if (size & 16) *(eq_loose_two_i64 *)at = first, first = second, at += 16;
  if (size & 8) *(eq_loose_u64 *)at = (uint64_t)first[0], first[0] = first[1], at += 8;
  uint64_t bits = (uint64_t)first[0];
  if (size & 4) *(eq_loose_u32 *)at = (uint32_t)bits, bits >>= 32, at += 4;
  if (size & 2) *(eq_loose_u16 *)at = (uint16_t)bits, bits >>= 16, at += 2;
  if (size & 1) *at = (char)bits;
}
EQ_FN eq_i8 eq_move_load_n_8(const void *p, int n) {
  return n == EQ_VL ? eq_move_load_8(p) : (eq_i8)eq_load_bytes(p, n);
}
EQ_FN eq_i16 eq_move_load_n_16(const void *p, int n) {
  if (n == EQ_VL) return eq_move_load_16(p);
  int64_t rest = (int64_t)eq_load_bytes((const char *)p + (2 * n & 8), 2 * n & 7);
  return n & 4 ? (eq_i16)(eq_two_i64){(int64_t)*(const eq_loose_u64 *)p, rest} : (eq_i16)(eq_two_i64){rest};
}
EQ_FN void eq_move_store_n_8(void *p, eq_i8 v, int n) {
  if (n == EQ_VL) eq_move_store_8(p, v);
  else eq_store_bytes(p, (eq_two_i64){(int64_t)v}, (eq_two_i64){0}, n);
}
EQ_FN void eq_move_store_n_16(void *p, eq_i16 v, int n) {
  if (n == EQ_VL) eq_move_store_16(p, v);
  else eq_store_bytes(p, (eq_two_i64)v, (eq_two_i64){0}, 2 * n);
}
EQ_FN void eq_store_part(void *p, eq_i64h v, int size) {
  if (size == sizeof v) *(eq_loose_64h *)p = v;
  else eq_store_bytes(p, (eq_two_i64){v[0], v[1]}, (eq_two_i64){v[2], v[3]}, size);
}
EQ_FN void eq_move_store_n_32(void *p, eq_i32 v, int n) { eq_store_part(p, (eq_i64h)v, 4 * n); }
EQ_FN void eq_move_store_n_64(void *p, eq_i64 v, int n) {
  int upper = n > EQ_VL / 2 ? n - EQ_VL / 2 : 0;
  eq_store_part(p, v.lo, 8 * (n - upper)), eq_store_part((char *)p + 32, v.hi, 8 * upper);
}
EQ_GATHER_LANES(32)
EQ_GATHER_LANES(64)

#else
EQ_TAIL_LANES(8)
EQ_TAIL_LANES(16)
EQ_TAIL_LANES(32)
EQ_TAIL_LANES(64)
EQ_GATHER_LANES(32)
EQ_GATHER_LANES(64)
EQ_MASK_LANES(8)
EQ_MASK_LANES(16)
EQ_MASK_LANES(32)
EQ_MASK_LANES(64)
#endif

/* The storage forms of fp16 and bf16, whose lanes in registers are f32. */
EQ_FN eq_f32 eq_decode_bf16(eq_i16 h) { return EQ_FLOAT(eq_wide_u16((eq_u16)h) << 16); }
EQ_FN eq_i16 eq_encode_bf16(eq_f32 x) { return eq_low_halves(EQ_BITS(x) >> 16); } /* of a value that is rounded */
EQ_FN eq_i32 eq_nearest_bf16(eq_f32 x) { /* rounds the upper half to nearest even; a NaN becomes quiet */
  eq_i32 b = EQ_BITS(x), even = b + 0x7fff + ((b >> 16) & 1);
  return eq_where_i32(x != x, b | 0x400000, even);
}
EQ_FN eq_f32 eq_round_bf16(eq_f32 x) { return EQ_FLOAT(eq_nearest_bf16(x) & (int32_t)0xffff0000); }
/* The storage form of the nearest bf16. The machine's instruction takes denormals for 0. Where the mode flushes these,
   the test finds none. */
EQ_FN eq_u16 eq_bits_of_nearest_bf16(eq_f32 x) {
#if EQ_X86 == 512 && defined(__AVX512BF16__)
  uint16_t denormal;
  __asm__("vfpclassps $32, %1, %0" : "=Yk"(denormal) : "v"(x));
  if (__builtin_expect(!denormal, 1)) {
    eq_u16 r;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(r) : "v"(x));
    return r;
  }
#endif
  return (eq_u16)eq_low_halves(eq_nearest_bf16(x) >> 16);
}

#if EQ_X86
EQ_FN eq_f32 eq_decode_f16(eq_i16 h) {
  eq_f32 r;
  __asm__("vcvtph2ps %1, %0" : "=v"(r) : EQ_SOURCE(h));
  return r;
}
EQ_FN eq_i16 eq_encode_f16(eq_f32 x) {
  eq_i16 r;
  __asm__("vcvtps2ph $0, %1, %0" : "=v"(r) : "v"(x));
  return r;
}
#else
/* After F. Giesen, "half to float done quick" and float_to_half_fast3_rtne (public domain), without relying
   on float denormals, which may be flushed. */
EQ_FN eq_f32 eq_decode_f16(eq_i16 h) {
  eq_i32 bits = eq_wide_u16((eq_u16)h), sign = (bits & 0x8000) << 16, rest = bits & 0x7fff;
  eq_i32 normal = (rest << 13) + (112 << 23) + ((rest >= 0x7c00) & (112 << 23));
  eq_f32 denormal = EQ_TO(eq_f32, rest) * 0x1p-24f;
  return EQ_FLOAT(eq_where_i32(rest < 0x400, EQ_BITS(denormal), normal) | sign);
}
EQ_FN eq_i16 eq_encode_f16(eq_f32 x) {
  eq_i32 bits = EQ_BITS(x), rest = bits & 0x7fffffff, sign = (bits >> 16) & 0x8000;
  eq_i32 normal = (rest - (112 << 23) + 0xfff + ((rest >> 13) & 1)) >> 13;
  eq_i32 denormal = EQ_BITS(EQ_FLOAT(rest) + 0.5f) - (126 << 23); /* the addition shifts the digits and rounds them */
  eq_i32 large = eq_where_i32(rest > 0x7f800000, eq_imm_i32(0x7e00), eq_imm_i32(0x7c00));
  eq_i32 finite = eq_where_i32(rest < 0x38800000, denormal, normal);
  return eq_low_halves(eq_where_i32(rest >= 0x47800000, large, finite) | sign);
}
#endif
EQ_FN eq_f32 eq_round_f16(eq_f32 x) { return eq_decode_f16(eq_encode_f16(x)); }
EQ_FN eq_u16 eq_bits_of_nearest_f16(eq_f32 x) { return (eq_u16)eq_encode_f16(x); }

/* Registers from the last element to the first. */
#define EQ_LANE_BACK(i) EQ_VL - 1 - (i)
#define EQ_HALF_LANE_BACK(i) EQ_VL / 2 - 1 - (i)
#define EQ_TURN(W) \
  EQ_FN eq_i##W eq_turned_##W(eq_i##W v) { return EQ_SHUFFLE(eq_i##W, v, v, EQ_LANES(EQ_LANE_BACK)); }
EQ_TURN(8)
EQ_TURN(16)
EQ_TURN(32)
EQ_FN eq_i64 eq_turned_64(eq_i64 v) {
  return (eq_i64){EQ_SHUFFLE(eq_i64h, v.hi, v.hi, EQ_HALF_LANES(EQ_HALF_LANE_BACK)),
                  EQ_SHUFFLE(eq_i64h, v.lo, v.lo, EQ_HALF_LANES(EQ_HALF_LANE_BACK))};
}
#define EQ_MOVE_BACK(W)                                                                               \
  EQ_FN eq_i##W eq_move_back_##W(const void *p) {                                                     \
    return eq_turned_##W(eq_move_load_##W((const char *)p - W / 8 * (EQ_VL - 1)));                    \
  }                                                                                                   \
  EQ_FN eq_i##W eq_move_back_m_##W(const void *p, eq_mask m) {                                        \
    return eq_turned_##W(eq_move_load_m_##W((const char *)p - W / 8 * (EQ_VL - 1), eq_turned_32(m))); \
  }
EQ_MOVE_BACK(8)
EQ_MOVE_BACK(16)
EQ_MOVE_BACK(32)
EQ_MOVE_BACK(64)
#define EQ_IS_BACK(s, n) (EQ_IS(s, -1) && EQ_IS(n, EQ_VL))

/* Strided loads; every second element (a convolution of stride 2 reads them) takes two loads and a shuffle if the
   machine has masked moves. */
#define EQ_MOVE_STRIDED(W)                                              \
  EQ_FN eq_i##W eq_move_apart_##W(const void *p, ptrdiff_t s, int n) {  \
    if (EQ_IS_BACK(s, n)) return eq_move_back_##W(p);                   \
    return eq_move_strided_##W(p, s, n);                                \
  }
#define EQ_MOVE_TWO_APART(W)                                                                            \
  EQ_FN eq_i##W eq_move_apart_##W(const void *p, ptrdiff_t s, int n) {                                  \
    if (EQ_IS_BACK(s, n)) return eq_move_back_##W(p);                                                   \
    if (!EQ_IS(s, 2)) return eq_move_strided_##W(p, s, n);                                              \
    int span = 2 * n - 1, low = span < 0 ? 0 : span < EQ_VL ? span : EQ_VL;                             \
    const char *further = (const char *)p + W / 8 * EQ_VL;                                              \
    eq_i##W a = eq_move_load_n_##W(p, low), b = eq_move_load_n_##W(further, span > EQ_VL ? span - EQ_VL : 0); \
    return EQ_SHUFFLE(eq_i##W, a, b, EQ_LANES(EQ_LANE_TWICE));                                          \
  }
EQ_MOVE_STRIDED(16)
EQ_MOVE_STRIDED(64)
#if EQ_X86
EQ_MOVE_TWO_APART(32)
#else
EQ_MOVE_STRIDED(32)
#endif
#if EQ_X86_MOVES == 512
typedef int8_t eq_two_i8 __attribute__((vector_size(2 * EQ_VL)));
EQ_FN eq_i8 eq_move_apart_8(const void *p, ptrdiff_t s, int n) {
  if (EQ_IS_BACK(s, n)) return eq_move_back_8(p);
  if (!EQ_IS(s, 2)) return eq_move_strided_8(p, s, n);
  uint32_t span = (uint32_t)((1ull << 2 * n) - 1) >> 1; /* no byte behind the last one is touched */
  eq_two_i8 both;
  eq_i8 first;
  __asm__ volatile("vmovdqu8 (%1), %0%{%2%}%{z%}" : "=v"(both) : "r"(p), "Yk"(span) : "memory");
  __asm__("vpmovwb %1, %0" : "=v"(first) : "v"(both));
  return first;
}
#else
EQ_MOVE_STRIDED(8)
#endif

#define EQ_SAME(v) (v)
#define EQ_DECODE_F32(v) ((eq_f32)(v))
#define EQ_ENCODE_F32(v) ((eq_i32)(v))
#define EQ_DECODE_U8(v) ((eq_u8)(v))
#define EQ_ENCODE_U8(v) ((eq_i8)(v))
#define EQ_DECODE_U16(v) ((eq_u16)(v))
#define EQ_ENCODE_U16(v) ((eq_i16)(v))
#define EQ_DECODE_U32(v) ((eq_u32)(v))
#define EQ_ENCODE_U32(v) ((eq_i32)(v))
EQ_FN eq_f64 eq_decode_f64(eq_i64 v) { return (eq_f64){(eq_f64h)v.lo, (eq_f64h)v.hi}; }
EQ_FN eq_i64 eq_encode_f64(eq_f64 v) { return (eq_i64){(eq_i64h)v.lo, (eq_i64h)v.hi}; }
EQ_FN eq_mask eq_decode_bool(eq_i8 v) { return EQ_TO(eq_i32, v != 0); }
EQ_FN eq_i8 eq_encode_bool(eq_mask m) { return eq_low_bytes(m) & 1; }

#define EQ_STORAGE(D, V, W, decode, encode)                                                                  \
  EQ_FN V eq_load_##D(const void *p) { return decode(eq_move_load_##W(p)); }                                 \
  EQ_FN V eq_load_n_##D(const void *p, int n) { return decode(eq_move_load_n_##W(p, n)); }                   \
  EQ_FN V eq_load_m_##D(const void *p, eq_mask m) { return decode(eq_move_load_m_##W(p, m)); }               \
  EQ_FN V eq_splat_##D(const void *p) { return decode(eq_move_splat_##W(p)); }                               \
  EQ_FN V eq_strided_##D(const void *p, ptrdiff_t s, int n) { return decode(eq_move_apart_##W(p, s, n)); }   \
  EQ_FN V eq_back_m_##D(const void *p, eq_mask m) { return decode(eq_move_back_m_##W(p, m)); }               \
  EQ_FN V eq_gather_##D(const void *p, eq_i64 i, eq_mask m) { return decode(eq_move_gather_##W(p, i, m)); }  \
  EQ_FN void eq_store_##D(void *p, V v) { eq_move_store_##W(p, encode(v)); }                                 \
  EQ_FN void eq_store_n_##D(void *p, V v, int n) { eq_move_store_n_##W(p, encode(v), n); }                   \
  EQ_FN void eq_store_strided_##D(void *p, ptrdiff_t s, V v, int n) {                                        \
    eq_move_store_strided_##W(p, s, encode(v), n);                                                           \
  }
EQ_STORAGE(f16, eq_f32, 16, eq_decode_f16, eq_encode_f16)
EQ_STORAGE(bf16, eq_f32, 16, eq_decode_bf16, eq_encode_bf16)
EQ_STORAGE(f32, eq_f32, 32, EQ_DECODE_F32, EQ_ENCODE_F32)
EQ_STORAGE(f64, eq_f64, 64, eq_decode_f64, eq_encode_f64)
EQ_STORAGE(i8, eq_i8, 8, EQ_SAME, EQ_SAME)
EQ_STORAGE(u8, eq_u8, 8, EQ_DECODE_U8, EQ_ENCODE_U8)
EQ_STORAGE(i16, eq_i16, 16, EQ_SAME, EQ_SAME)
EQ_STORAGE(u16, eq_u16, 16, EQ_DECODE_U16, EQ_ENCODE_U16)
EQ_STORAGE(i32, eq_i32, 32, EQ_SAME, EQ_SAME)
EQ_STORAGE(u32, eq_u32, 32, EQ_DECODE_U32, EQ_ENCODE_U32)
EQ_STORAGE(i64, eq_i64, 64, EQ_SAME, EQ_SAME)
EQ_STORAGE(u64, eq_u64, 64, eq_as_u64, eq_as_i64)
EQ_STORAGE(bool, eq_mask, 8, eq_decode_bool, eq_encode_bool)
