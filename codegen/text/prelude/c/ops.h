/* Elementwise functions eq_<op>_<T> for register types T; comparisons give an eq_mask.

     f32 f64   neg abs recip sqrt rsqrt relu floor ceil round(half to even) pin · add sub mul fdiv max min · fma
     integers  neg abs relu not · add sub mul idiv mod pow max min and or xor shl shr · fma
     bool      not · and or xor max min add mul
     all       cmplt cmple cmpgt cmpge cmpeq cmpne (and `where` of base.h)

   max, min and relu propagate NaN. Integers wrap; idiv and mod round to minus infinity and give 0 for a zero
   divisor. shl and shr read the second operand as an unsigned number: from the width on, every bit of the first operand
   is shifted out. shr of a signed operand shifts in copies of its sign. A 64-bit function is written for half registers (types f64h, i64h) and lifted to both halves. */

#define EQ_OP1(T, op, expr) EQ_FN eq_##T eq_##op##_##T(eq_##T a) { return expr; }
#define EQ_OP2(T, op, expr) EQ_FN eq_##T eq_##op##_##T(eq_##T a, eq_##T b) { return expr; }
#define EQ_OP3(T, op, expr) EQ_FN eq_##T eq_##op##_##T(eq_##T a, eq_##T b, eq_##T c) { return expr; }
#define EQ_LIFT1(T, op) EQ_OP1(T, op, ((eq_##T){eq_##op##_##T##h(a.lo), eq_##op##_##T##h(a.hi)}))
#define EQ_LIFT2(T, op) EQ_OP2(T, op, ((eq_##T){eq_##op##_##T##h(a.lo, b.lo), eq_##op##_##T##h(a.hi, b.hi)}))
#define EQ_LIFT3(T, op) \
  EQ_OP3(T, op, ((eq_##T){eq_##op##_##T##h(a.lo, b.lo, c.lo), eq_##op##_##T##h(a.hi, b.hi, c.hi)}))

/* One instruction of the machine, on whole registers. */
#define EQ_ASM1(T, op, insn) \
  EQ_FN eq_##T eq_##op##_##T(eq_##T a) { eq_##T r; __asm__(insn " %1, %0" : "=v"(r) : EQ_SOURCE(a)); return r; }
#define EQ_ASM2(T, op, insn)                                      \
  EQ_FN eq_##T eq_##op##_##T(eq_##T a, eq_##T b) {                \
    eq_##T r;                                                     \
    __asm__(insn " %2, %1, %0" : "=v"(r) : "v"(a), EQ_SOURCE(b)); \
    return r;                                                     \
  }

/* Lane l is lane at[l] of v, 0 <= at[l] < EQ_VL. */
EQ_FN eq_i32 eq_permute_i32(eq_i32 at, eq_i32 v) {
  eq_i32 r;
#if EQ_X86
  __asm__("vpermd %1, %2, %0" : "=v"(r) : EQ_SOURCE(v), "v"(at));
#else
  for (int l = 0; l < EQ_VL; l++) r[l] = v[at[l] % EQ_VL];
#endif
  return r;
}
EQ_FN eq_u32 eq_permute_u32(eq_i32 at, eq_u32 v) { return (eq_u32)eq_permute_i32(at, (eq_i32)v); }
EQ_FN eq_f32 eq_permute_f32(eq_i32 at, eq_f32 v) { return EQ_FLOAT(eq_permute_i32(at, EQ_BITS(v))); }
EQ_FN eq_bool eq_permute_bool(eq_i32 at, eq_bool v) { return eq_permute_i32(at, v); }
EQ_FN eq_i8 eq_permute_i8(eq_i32 at, eq_i8 v) { return eq_low_bytes(eq_permute_i32(at, eq_wide_i8(v))); }
EQ_FN eq_u8 eq_permute_u8(eq_i32 at, eq_u8 v) { return (eq_u8)eq_low_bytes(eq_permute_i32(at, eq_wide_u8(v))); }
EQ_FN eq_i16 eq_permute_i16(eq_i32 at, eq_i16 v) { return eq_low_halves(eq_permute_i32(at, eq_wide_i16(v))); }
EQ_FN eq_u16 eq_permute_u16(eq_i32 at, eq_u16 v) { return (eq_u16)eq_low_halves(eq_permute_i32(at, eq_wide_u16(v))); }

/* A half register: lane l is lane at[l] of v, whose lanes lie in two half registers. */
EQ_FN eq_i64h eq_permute_i64h(eq_i32h at, eq_i64 v) {
  eq_i64h place = eq_wide_i32h(at);
#if EQ_X86 == 512
  __asm__("vpermi2q %2, %1, %0" : "+v"(place) : "v"(v.lo), EQ_SOURCE(v.hi));
  return place;
#elif EQ_X86 == 256 /* 64 bits are two neighbours of 32 bits */
  eq_i32 pair = (eq_i32)(place << 1 | (place << 1 | 1) << 32);
  eq_i64h lo = (eq_i64h)eq_permute_i32(pair, (eq_i32)v.lo), hi = (eq_i64h)eq_permute_i32(pair, (eq_i32)v.hi);
  return EQ_PICK(eq_i64h, eq_i64h, place < EQ_VL / 2, lo, hi);
#else
  for (int l = 0; l < EQ_VL / 2; l++) {
    int from = at[l] % EQ_VL;
    place[l] = from < EQ_VL / 2 ? v.lo[from] : v.hi[from - EQ_VL / 2];
  }
  return place;
#endif
}
EQ_FN eq_i64 eq_permute_i64(eq_i32 at, eq_i64 v) {
  return (eq_i64){eq_permute_i64h(eq_lo_i32(at), v), eq_permute_i64h(eq_hi_i32(at), v)};
}
EQ_FN eq_u64 eq_permute_u64(eq_i32 at, eq_u64 v) { return eq_as_u64(eq_permute_i64(at, eq_as_i64(v))); }
EQ_FN eq_f64 eq_permute_f64(eq_i32 at, eq_f64 v) {
  eq_i64 r = eq_permute_i64(at, (eq_i64){(eq_i64h)v.lo, (eq_i64h)v.hi});
  return (eq_f64){(eq_f64h)r.lo, (eq_f64h)r.hi};
}

/* `pin` is its operand, in a register: where registers are scarce, gcc reads memory again for each use. */
#if EQ_X86
#define EQ_PIN(T) EQ_FN eq_##T eq_pin_##T(eq_##T a) { __asm__("" : "+v"(a)); return a; }
#else
#define EQ_PIN(T) EQ_OP1(T, pin, a)
#endif
EQ_PIN(f32)
EQ_PIN(f64h)
EQ_LIFT1(f64, pin)

/* `least` and `most` are the machine's minimum and maximum: b where a or b is NaN. */
#if EQ_X86
#define EQ_MACHINE_FLOAT(T, I, ps, big, sqrt_) \
  EQ_ASM1(T, sqrt, "vsqrt" ps)                 \
  EQ_ASM2(T, least, "vmin" ps)                 \
  EQ_ASM2(T, most, "vmax" ps)                  \
  EQ_ASM1(T, floor, EQ_ROUND_INSN(ps, 9))      \
  EQ_ASM1(T, ceil, EQ_ROUND_INSN(ps, 10))      \
  EQ_ASM1(T, round, EQ_ROUND_INSN(ps, 8))
#if EQ_X86 == 512
#define EQ_ROUND_INSN(ps, mode) "vrndscale" ps " $" #mode ","
#else
#define EQ_ROUND_INSN(ps, mode) "vround" ps " $" #mode ","
#endif
#else
/* Adding 2^23 (2^52 for f64) with the sign of x and subtracting it again rounds to nearest even. Numbers above it are
   whole. */
#define EQ_MACHINE_FLOAT(T, I, ps, big, sqrt_)                                              \
  EQ_FN eq_##T eq_sqrt_##T(eq_##T a) {                                                      \
    for (size_t i = 0; i < sizeof a / sizeof a[0]; i++) a[i] = sqrt_(a[i]);                 \
    return a;                                                                               \
  }                                                                                         \
  EQ_OP2(T, least, EQ_PICK(eq_##I, eq_##T, a < b, a, b))                                    \
  EQ_OP2(T, most, EQ_PICK(eq_##I, eq_##T, a > b, a, b))                                     \
  EQ_FN eq_##T eq_round_##T(eq_##T a) {                                                     \
    eq_##I sign = (eq_##I)a & (eq_##I)eq_imm_##T(-0.0);                                     \
    eq_##T shift = (eq_##T)((eq_##I)eq_imm_##T(big) | sign), r = (a + shift) - shift;       \
    eq_##T size = (eq_##T)((eq_##I)a ^ sign);                                               \
    return EQ_PICK(eq_##I, eq_##T, size < big, (eq_##T)((eq_##I)r | sign), a);              \
  }                                                                                         \
  EQ_FN eq_##T eq_floor_##T(eq_##T a) {                                                     \
    eq_##T r = eq_round_##T(a), one = (eq_##T)((r > a) & (eq_##I)eq_imm_##T(1));            \
    return (eq_##T)((eq_##I)(r - one) | ((eq_##I)r & (eq_##I)eq_imm_##T(-0.0)));            \
  }                                                                                         \
  EQ_FN eq_##T eq_ceil_##T(eq_##T a) {                                                      \
    eq_##T r = eq_round_##T(a), one = (eq_##T)((r < a) & (eq_##I)eq_imm_##T(1));            \
    return (eq_##T)((eq_##I)(r + one) | ((eq_##I)r & (eq_##I)eq_imm_##T(-0.0)));            \
  }
#endif
EQ_MACHINE_FLOAT(f32, i32, "ps", 0x1p23f, sqrtf)
EQ_MACHINE_FLOAT(f64h, i64h, "pd", 0x1p52, sqrt)

/* fma is a*b + c, in one rounding where the machine fuses. */
#if EQ_X86 && __has_builtin(__builtin_elementwise_fma)
EQ_OP3(f32, fma, __builtin_elementwise_fma(a, b, c))
EQ_OP3(f64h, fma, __builtin_elementwise_fma(a, b, c))
#elif EQ_X86 == 512
EQ_OP3(f32, fma, (eq_f32)__builtin_ia32_vfmaddps512_mask(a, b, c, 0xffff, 4))
EQ_OP3(f64h, fma, (eq_f64h)__builtin_ia32_vfmaddpd512_mask(a, b, c, 0xff, 4))
#elif EQ_X86 == 256
EQ_OP3(f32, fma, (eq_f32)__builtin_ia32_vfmaddps256(a, b, c))
EQ_OP3(f64h, fma, (eq_f64h)__builtin_ia32_vfmaddpd256(a, b, c))
#elif defined(__FP_FAST_FMAF) && defined(__FP_FAST_FMA)
#define EQ_FUSE_LANES(T, fma_)                                                                    \
  EQ_FN eq_##T eq_fma_##T(eq_##T a, eq_##T b, eq_##T c) {                                         \
    for (size_t i = 0; i < sizeof a / sizeof a[0]; i++) c[i] = fma_(a[i], b[i], c[i]);            \
    return c;                                                                                     \
  }
EQ_FUSE_LANES(f32, __builtin_fmaf)
EQ_FUSE_LANES(f64h, __builtin_fma)
#else
EQ_OP3(f32, fma, a *b + c)
EQ_OP3(f64h, fma, a *b + c)
#endif

#define EQ_FLOAT_OPS(T, I)                                                                \
  EQ_OP1(T, neg, (eq_##T)((eq_##I)a ^ (eq_##I)eq_imm_##T(-0.0)))                          \
  EQ_OP1(T, abs, (eq_##T)((eq_##I)a & ~(eq_##I)eq_imm_##T(-0.0)))                         \
  EQ_OP1(T, recip, 1 / a)                                                                 \
  EQ_OP1(T, rsqrt, 1 / eq_sqrt_##T(a))                                                    \
  EQ_OP1(T, relu, eq_most_##T((eq_##T){0}, a) + 0) /* + 0 makes -0 a 0 */                 \
  EQ_OP2(T, add, a + b)                                                                   \
  EQ_OP2(T, sub, a - b)                                                                   \
  EQ_OP2(T, mul, a *b)                                                                    \
  EQ_OP2(T, fdiv, a / b)                                                                  \
  EQ_OP2(T, max, EQ_PICK(eq_##I, eq_##T, a != a, a, eq_most_##T(a, b)))                   \
  EQ_OP2(T, min, EQ_PICK(eq_##I, eq_##T, a != a, a, eq_least_##T(a, b)))
EQ_FLOAT_OPS(f32, i32)
EQ_FLOAT_OPS(f64h, i64h)

/* x within [low, high], as a byte: low <= 0 <= high, and NaN is 0. */
#define EQ_HOLD(B, x)                                                                \
  EQ_FN eq_##B eq_hold_##B##_f32(eq_f32 a, eq_f32 low, eq_f32 high) {                \
    return eq_wrapped_##B(EQ_TO(eq_i32, eq_least_f32(eq_most_f32(x, low), high)));   \
  }
EQ_HOLD(u8, a) /* low is 0, which eq_most takes beside NaN */
EQ_HOLD(i8, EQ_FLOAT(EQ_BITS(a) & (a == a)))

/* The nearest integer, half to even, of a number within the range of i32. */
#if EQ_X86
EQ_FN eq_i32 eq_nearest_f32(eq_f32 a) { eq_i32 r; __asm__("vcvtps2dq %1, %0" : "=v"(r) : EQ_SOURCE(a)); return r; }
#else
EQ_FN eq_i32 eq_nearest_f32(eq_f32 a) { return EQ_TO(eq_i32, eq_round_f32(a)); }
#endif
/* The nearest integer within [low, high] plus `zero`, as a byte; NaN is 0. For u8, low + zero is 0; for i8, zero is. */
#define EQ_NEAREST(B, x)                                                                              \
  EQ_FN eq_##B eq_nearest_##B##_i32(eq_f32 a, eq_f32 low, eq_f32 high, eq_i32 zero) {                 \
    return eq_wrapped_##B(eq_nearest_f32(eq_least_f32(eq_most_f32(x, low), high)) + zero);            \
  }
EQ_NEAREST(u8, a)
EQ_NEAREST(i8, EQ_FLOAT(EQ_BITS(a) & (a == a)))

#define EQ_UNSIGNED_OPS(T) EQ_OP1(T, abs, a) EQ_OP1(T, relu, a)
EQ_UNSIGNED_OPS(u8)
EQ_UNSIGNED_OPS(u16)
EQ_UNSIGNED_OPS(u32)
EQ_UNSIGNED_OPS(u64h)
#define EQ_SIGNED_OPS(T)                      \
  EQ_OP1(T, abs, EQ_PICK(eq_##T, eq_##T, a < 0, -a, a)) \
  EQ_OP1(T, relu, a & (eq_##T)(a > 0))
EQ_SIGNED_OPS(i8)
EQ_SIGNED_OPS(i16)
EQ_SIGNED_OPS(i32)
EQ_SIGNED_OPS(i64h)
#define EQ_INT_OPS(T)                                       \
  EQ_OP1(T, neg, -a)                                        \
  EQ_OP1(T, not, ~a)                                        \
  EQ_OP2(T, add, a + b)                                     \
  EQ_OP2(T, sub, a - b)                                     \
  EQ_OP2(T, mul, a *b)                                      \
  EQ_OP2(T, and, a &b)                                      \
  EQ_OP2(T, or, a | b)                                      \
  EQ_OP2(T, xor, a ^ b)                                     \
  EQ_OP2(T, max, EQ_PICK(eq_##T, eq_##T, a > b, a, b))      \
  EQ_OP2(T, min, EQ_PICK(eq_##T, eq_##T, a < b, a, b))      \
  EQ_OP3(T, fma, a *b + c)
EQ_INT_OPS(i8)
EQ_INT_OPS(u8)
EQ_INT_OPS(i16)
EQ_INT_OPS(u16)
EQ_INT_OPS(i32)
EQ_INT_OPS(u32)
EQ_INT_OPS(i64h)
EQ_INT_OPS(u64h)

/* The machine shifts by less than the width. */
#define EQ_SHIFTS(S, U, width)                                                                            \
  EQ_OP2(U, shl, (a << (b & (width - 1))) & (eq_##U)(b < width))                                          \
  EQ_OP2(U, shr, (a >> (b & (width - 1))) & (eq_##U)(b < width))                                          \
  EQ_OP2(S, shl, (eq_##S)eq_shl_##U((eq_##U)a, (eq_##U)b))                                                \
  EQ_OP2(S, shr, a >> EQ_PICK(eq_##S, eq_##S, (eq_##U)b < width, b, eq_imm_##S(width - 1)))
EQ_SHIFTS(i32, u32, 32)
EQ_SHIFTS(i64h, u64h, 64)
#define EQ_SHORT_SHIFT(T, op) EQ_OP2(T, op, eq_wrapped_##T(eq_##op##_i32(eq_as_i32_##T(a), eq_as_i32_##T(b))))
#define EQ_SHORT_SHIFTS(T) EQ_SHORT_SHIFT(T, shl) EQ_SHORT_SHIFT(T, shr)
EQ_SHORT_SHIFTS(i8)
EQ_SHORT_SHIFTS(u8)
EQ_SHORT_SHIFTS(i16)
EQ_SHORT_SHIFTS(u16)
/* Bytes shifted by one number, in pairs: no machine shifts bytes. */
typedef EQ_VECTOR(uint16_t, EQ_VL / 2) eq_u8_pairs;
EQ_FN eq_u8 eq_shr_by_u8(eq_u8 a, int count) {
  int by = count < 8 ? count : 8;
  return (eq_u8)((eq_u8_pairs)a >> by) & eq_imm_u8(0xff >> by);
}

#define EQ_LIFT_BOTH(T)                                                                            \
  EQ_LIFT1(T, neg) EQ_LIFT1(T, abs) EQ_LIFT1(T, relu) EQ_LIFT2(T, add) EQ_LIFT2(T, sub)            \
  EQ_LIFT2(T, mul) EQ_LIFT2(T, max) EQ_LIFT2(T, min) EQ_LIFT3(T, fma)
EQ_LIFT_BOTH(f64)
EQ_LIFT_BOTH(i64)
EQ_LIFT_BOTH(u64)
EQ_LIFT1(f64, recip) EQ_LIFT1(f64, sqrt) EQ_LIFT1(f64, rsqrt) EQ_LIFT1(f64, floor) EQ_LIFT1(f64, ceil)
EQ_LIFT1(f64, round) EQ_LIFT2(f64, fdiv)
#define EQ_LIFT_BITS(T) \
  EQ_LIFT1(T, not) EQ_LIFT2(T, and) EQ_LIFT2(T, or) EQ_LIFT2(T, xor) EQ_LIFT2(T, shl) EQ_LIFT2(T, shr)
EQ_LIFT_BITS(i64)
EQ_LIFT_BITS(u64)

/* A lane that is true is -1: min of bool is `and`, max is `or`. */
EQ_OP1(bool, not, ~a)
EQ_OP2(bool, and, a &b) EQ_OP2(bool, mul, a &b) EQ_OP2(bool, min, a &b)
EQ_OP2(bool, or, a | b) EQ_OP2(bool, add, a | b) EQ_OP2(bool, max, a | b)
EQ_OP2(bool, xor, a ^ b)

#define EQ_CMP(T, op, expr) EQ_FN eq_mask eq_##op##_##T(eq_##T a, eq_##T b) { return expr; }
#define EQ_CMP_ONE(T)                         \
  EQ_CMP(T, cmplt, EQ_TO(eq_i32, a < b))      \
  EQ_CMP(T, cmple, EQ_TO(eq_i32, a <= b))     \
  EQ_CMP(T, cmpgt, EQ_TO(eq_i32, a > b))      \
  EQ_CMP(T, cmpge, EQ_TO(eq_i32, a >= b))     \
  EQ_CMP(T, cmpeq, EQ_TO(eq_i32, a == b))     \
  EQ_CMP(T, cmpne, EQ_TO(eq_i32, a != b))
#define EQ_CMP_TWO(T)                                           \
  EQ_CMP(T, cmplt, eq_narrow(a.lo < b.lo, a.hi < b.hi))         \
  EQ_CMP(T, cmple, eq_narrow(a.lo <= b.lo, a.hi <= b.hi))       \
  EQ_CMP(T, cmpgt, eq_narrow(a.lo > b.lo, a.hi > b.hi))         \
  EQ_CMP(T, cmpge, eq_narrow(a.lo >= b.lo, a.hi >= b.hi))       \
  EQ_CMP(T, cmpeq, eq_narrow(a.lo == b.lo, a.hi == b.hi))       \
  EQ_CMP(T, cmpne, eq_narrow(a.lo != b.lo, a.hi != b.hi))
EQ_CMP_ONE(f32)
EQ_CMP_ONE(i8)
EQ_CMP_ONE(u8)
EQ_CMP_ONE(i16)
EQ_CMP_ONE(u16)
EQ_CMP_ONE(i32)
EQ_CMP_ONE(u32)
EQ_CMP_TWO(f64)
EQ_CMP_TWO(i64)
EQ_CMP_TWO(u64)
EQ_CMP(bool, cmplt, ~a & b)
EQ_CMP(bool, cmple, ~a | b)
EQ_CMP(bool, cmpgt, a & ~b)
EQ_CMP(bool, cmpge, a | ~b)
EQ_CMP(bool, cmpeq, ~(a ^ b))
EQ_CMP(bool, cmpne, a ^ b)

/* Integer division in floating point. If |a|, |b| < 2^k, the relative distance between a quotient that is not whole
   and the nearest whole number is at least 2^-k. So a division of more than k + 1 bits has the right floor. */
EQ_FN eq_i32h eq_floordiv_half(eq_i32h a, eq_i32h b) {
  eq_f64h q = eq_floor_f64h(EQ_TO(eq_f64h, a) / EQ_TO(eq_f64h, b));
  q -= (eq_f64h)((q >= 0x1p31) & (eq_i64h)eq_imm_f64h(0x1p32)); /* INT32_MIN / -1 wraps */
  return EQ_TO(eq_i32h, q);
}
EQ_FN eq_i32 eq_idiv_i32(eq_i32 a, eq_i32 b) {
  eq_i32 zero = b == 0, d = b - zero; /* 1 in place of 0 */
  eq_i32h lo = eq_floordiv_half(eq_lo_i32(a), eq_lo_i32(d)), hi = eq_floordiv_half(eq_hi_i32(a), eq_hi_i32(d));
  return ~zero & eq_join_i32(lo, hi);
}
EQ_FN eq_i32h eq_floordiv_unsigned(eq_f64h a, eq_f64h b) { return EQ_TO(eq_i32h, eq_floor_f64h(a / b) - 0x1p31); }
EQ_FN eq_u32 eq_idiv_u32(eq_u32 a, eq_u32 b) {
  eq_u32 zero = (eq_u32)(b == 0);
  eq_f64 x = eq_u32_to_f64(a), y = eq_u32_to_f64(b - zero);
  eq_i32 q = eq_join_i32(eq_floordiv_unsigned(x.lo, y.lo), eq_floordiv_unsigned(x.hi, y.hi));
  return ~zero & ((eq_u32)q ^ 0x80000000u);
}
EQ_FN eq_i32 eq_idiv_short(eq_i32 a, eq_i32 b) {
  eq_i32 zero = b == 0;
  return ~zero & EQ_TO(eq_i32, eq_floor_f32(EQ_TO(eq_f32, a) / EQ_TO(eq_f32, b - zero)));
}
#define EQ_SHORT_DIV(T) EQ_OP2(T, idiv, eq_wrapped_##T(eq_idiv_short(eq_as_i32_##T(a), eq_as_i32_##T(b))))
EQ_SHORT_DIV(i8)
EQ_SHORT_DIV(u8)
EQ_SHORT_DIV(i16)
EQ_SHORT_DIV(u16)
EQ_CALL eq_i64 eq_idiv_i64(eq_i64 a, eq_i64 b) {
  int64_t x[EQ_VL], y[EQ_VL];
  eq_store_i64(x, a), eq_store_i64(y, b);
  for (int i = 0; i < EQ_VL; i++)
    x[i] = y[i] == 0    ? 0
           : y[i] == -1 ? (int64_t)(0 - (uint64_t)x[i])
                        : x[i] / y[i] - (x[i] % y[i] != 0 && (x[i] < 0) != (y[i] < 0));
  return eq_load_i64(x);
}
EQ_CALL eq_u64 eq_idiv_u64(eq_u64 a, eq_u64 b) {
  uint64_t x[EQ_VL], y[EQ_VL];
  eq_store_u64(x, a), eq_store_u64(y, b);
  for (int i = 0; i < EQ_VL; i++) x[i] = y[i] == 0 ? 0 : x[i] / y[i];
  return eq_load_u64(x);
}
#define EQ_INT_MOD(T) EQ_OP2(T, mod, (a - b * eq_idiv_##T(a, b)) & (eq_##T)(b != 0))
EQ_INT_MOD(i8)
EQ_INT_MOD(u8)
EQ_INT_MOD(i16)
EQ_INT_MOD(u16)
EQ_INT_MOD(i32)
EQ_INT_MOD(u32)
#define EQ_LONG_MOD(T)                                                                             \
  EQ_FN eq_##T eq_mod_##T(eq_##T a, eq_##T b) {                                                    \
    eq_##T q = eq_idiv_##T(a, b);                                                                  \
    return (eq_##T){(a.lo - b.lo * q.lo) & (eq_##T##h)(b.lo != 0), (a.hi - b.hi * q.hi) & (eq_##T##h)(b.hi != 0)}; \
  }
EQ_LONG_MOD(i64)
EQ_LONG_MOD(u64)

/* a^b by squaring, wrapping. A negative exponent gives the whole part of the true value, and 0 for a = 0. */
EQ_FN uint64_t eq_power_u64(uint64_t a, uint64_t b) {
  uint64_t r = 1;
  for (; b; b >>= 1, a *= a)
    if (b & 1) r *= a;
  return r;
}
EQ_FN int64_t eq_power_i64(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? 1 - 2 * (b & 1) : 0;
  return (int64_t)eq_power_u64((uint64_t)a, (uint64_t)b);
}
#define EQ_LONG_POW(T, C)                                                      \
  EQ_CALL eq_##T eq_pow_##T(eq_##T a, eq_##T b) {                            \
    C x[EQ_VL], y[EQ_VL];                                             \
    eq_store_##T(x, a), eq_store_##T(y, b);                                  \
    for (int i = 0; i < EQ_VL; i++) x[i] = eq_power_##T(x[i], y[i]);         \
    return eq_load_##T(x);                                                   \
  }
EQ_LONG_POW(i64, int64_t)
EQ_LONG_POW(u64, uint64_t)
#define EQ_SHORT_POW(T) EQ_OP2(T, pow, eq_cast_i64_##T(eq_pow_i64(eq_cast_##T##_i64(a), eq_cast_##T##_i64(b))))
EQ_SHORT_POW(i8)
EQ_SHORT_POW(u8)
EQ_SHORT_POW(i16)
EQ_SHORT_POW(u16)
EQ_SHORT_POW(u32)
EQ_SHORT_POW(i32)
