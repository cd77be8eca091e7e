/* eq_cast_A_B between register types f32 f64, i8 … i64, u8 … u64, bool.

   float to integer truncates, saturates, and takes NaN to 0; integer to integer wraps; anything to bool is
   `!= 0`; bool gives 0 or 1; the rest rounds to nearest even. */

#define EQ_CAST(A, B, expr) \
  EQ_FN eq_##B eq_cast_##A##_##B(eq_##A a) { return expr; }

/* Integers that i32 holds, as i32 and back. */
#define EQ_AS_I32(A, wide, narrow)                           \
  EQ_FN eq_i32 eq_as_i32_##A(eq_##A a) { return wide; }      \
  EQ_FN eq_##A eq_wrapped_##A(eq_i32 a) { return narrow; }
EQ_AS_I32(i8, eq_wide_i8(a), eq_low_bytes(a))
EQ_AS_I32(u8, eq_wide_u8(a), (eq_u8)eq_low_bytes(a))
EQ_AS_I32(i16, eq_wide_i16(a), eq_low_halves(a))
EQ_AS_I32(u16, eq_wide_u16(a), (eq_u16)eq_low_halves(a))
EQ_AS_I32(i32, a, a)
EQ_AS_I32(u32, (eq_i32)a, (eq_u32)a)

/* Casts between integers that fill at most one machine vector. */
#define EQ_CAST_WRAPS(A)                              \
  EQ_CAST(A, i8, eq_wrapped_i8(eq_as_i32_##A(a)))     \
  EQ_CAST(A, u8, eq_wrapped_u8(eq_as_i32_##A(a)))     \
  EQ_CAST(A, i16, EQ_TO(eq_i16, a))                   \
  EQ_CAST(A, u16, EQ_TO(eq_u16, a))                   \
  EQ_CAST(A, i32, eq_as_i32_##A(a))                   \
  EQ_CAST(A, u32, (eq_u32)eq_as_i32_##A(a))           \
  EQ_CAST(A, bool, EQ_TO(eq_i32, a != 0))
/* Casts of integers that i32 holds. */
#define EQ_CAST_INT(A)                                \
  EQ_CAST_WRAPS(A)                                    \
  EQ_CAST(A, f32, EQ_TO(eq_f32, eq_as_i32_##A(a)))    \
  EQ_CAST(A, i64, eq_widen(eq_as_i32_##A(a)))         \
  EQ_CAST(A, u64, eq_as_u64(eq_cast_##A##_i64(a)))    \
  EQ_CAST(A, f64, eq_i32_to_f64(eq_as_i32_##A(a)))

EQ_FN eq_f64 eq_i32_to_f64(eq_i32 v) {
  return (eq_f64){eq_f64h_of_i32h(eq_lo_i32(v)), eq_f64h_of_i32h(eq_hi_i32(v))};
}
EQ_CAST_INT(i8)
EQ_CAST_INT(u8)
EQ_CAST_INT(i16)
EQ_CAST_INT(u16)
EQ_CAST_INT(i32)

EQ_FN eq_f64 eq_u32_to_f64(eq_u32 v) { /* i32 holds v - 2^31, and f64 holds both sides exactly */
  eq_f64 r = eq_i32_to_f64((eq_i32)(v ^ 0x80000000u));
  return (eq_f64){r.lo + 0x1p31, r.hi + 0x1p31};
}
EQ_CAST_WRAPS(u32)
EQ_CAST(u32, f32, EQ_TO(eq_f32, a))
EQ_CAST(u32, f64, eq_u32_to_f64(a))
EQ_CAST(u32, u64, eq_widen_u32(a))
EQ_CAST(u32, i64, eq_as_i64(eq_widen_u32(a)))

#define EQ_CAST_BOOL(B) EQ_CAST(bool, B, eq_cast_i32_##B(a & 1))
EQ_CAST_BOOL(i8)
EQ_CAST_BOOL(u8)
EQ_CAST_BOOL(i16)
EQ_CAST_BOOL(u16)
EQ_CAST_BOOL(i32)
EQ_CAST_BOOL(u32)
EQ_CAST_BOOL(i64)
EQ_CAST_BOOL(u64)
EQ_CAST_BOOL(f32)
EQ_CAST_BOOL(f64)
EQ_CAST(bool, bool, a)

#define EQ_CAST_I64(B) EQ_CAST(i64, B, eq_cast_i32_##B(eq_narrow(a.lo, a.hi)))
EQ_CAST_I64(i8)
EQ_CAST_I64(u8)
EQ_CAST_I64(i16)
EQ_CAST_I64(u16)
EQ_CAST_I64(i32)
EQ_CAST_I64(u32)
EQ_CAST(i64, i64, a)
EQ_CAST(i64, u64, eq_as_u64(a))
EQ_CAST(i64, bool, eq_narrow(a.lo != 0, a.hi != 0))
EQ_CAST(i64, f32, eq_join_f32(EQ_TO(eq_f32h, a.lo), EQ_TO(eq_f32h, a.hi)))
EQ_CAST(i64, f64, ((eq_f64){EQ_TO(eq_f64h, a.lo), EQ_TO(eq_f64h, a.hi)}))

#define EQ_CAST_U64(B) EQ_CAST(u64, B, eq_cast_i64_##B(eq_as_i64(a)))
EQ_CAST_U64(i8)
EQ_CAST_U64(u8)
EQ_CAST_U64(i16)
EQ_CAST_U64(u16)
EQ_CAST_U64(i32)
EQ_CAST_U64(u32)
EQ_CAST_U64(i64)
EQ_CAST_U64(bool)
EQ_CAST(u64, u64, a)
EQ_CAST(u64, f32, eq_join_f32(EQ_TO(eq_f32h, a.lo), EQ_TO(eq_f32h, a.hi)))
EQ_CAST(u64, f64, ((eq_f64){EQ_TO(eq_f64h, a.lo), EQ_TO(eq_f64h, a.hi)}))

EQ_CAST(f32, f32, a)
EQ_CAST(f64, f64, a)
EQ_CAST(f32, f64, ((eq_f64){eq_wide_f32h(eq_lo_f32(a)), eq_wide_f32h(eq_hi_f32(a))}))
EQ_CAST(f64, f32, eq_join_f32(EQ_TO(eq_f32h, a.lo), EQ_TO(eq_f32h, a.hi)))
EQ_CAST(f32, bool, a != 0)
EQ_CAST(f64, bool, eq_narrow(a.lo != 0, a.hi != 0))

/* Clamps x to [lo, hi] and makes NaN 0, so that the conversion truncates without overflow. */
EQ_FN eq_f32 eq_held_f32(eq_f32 x, float lo, float hi) {
  x = EQ_FLOAT(EQ_BITS(x) & (x == x));
  x = eq_where_f32(x < lo, eq_imm_f32(lo), x);
  return eq_where_f32(x > hi, eq_imm_f32(hi), x);
}
EQ_FN eq_f64h eq_held_f64h(eq_f64h x, double lo, double hi) {
  x = (eq_f64h)((eq_i64h)x & (x == x));
  x = EQ_PICK(eq_i64h, eq_f64h, x < lo, eq_imm_f64h(lo), x);
  return EQ_PICK(eq_i64h, eq_f64h, x > hi, eq_imm_f64h(hi), x);
}
EQ_FN eq_i32 eq_trunc_f64(eq_f64 x, double lo, double hi) {
  return eq_join_i32(EQ_TO(eq_i32h, eq_held_f64h(x.lo, lo, hi)), EQ_TO(eq_i32h, eq_held_f64h(x.hi, lo, hi)));
}
#define EQ_CAST_FLOAT(B, lo, hi)                                    \
  EQ_CAST(f32, B, eq_wrapped_##B(EQ_TO(eq_i32, eq_held_f32(a, lo, hi)))) \
  EQ_CAST(f64, B, eq_wrapped_##B(eq_trunc_f64(a, lo, hi)))
EQ_CAST_FLOAT(i8, -128, 127)
EQ_CAST_FLOAT(u8, 0, 255)
EQ_CAST_FLOAT(i16, -32768, 32767)
EQ_CAST_FLOAT(u16, 0, 65535)
EQ_CAST(f64, i32, eq_trunc_f64(a, -2147483648.0, 2147483647.0))
/* The greatest integer is no float: clamp to the greatest float below it, then choose. */
EQ_CAST(f32, i32,
        eq_where_i32(a >= 0x1p31f, eq_imm_i32(INT32_MAX), EQ_TO(eq_i32, eq_held_f32(a, -0x1p31f, 0x1.fffffep30f))))
EQ_FN eq_i64h eq_trunc_f64h(eq_f64h x) {
  eq_i64h whole = EQ_TO(eq_i64h, eq_held_f64h(x, -0x1p63, 0x1.fffffffffffffp62));
  return EQ_PICK(eq_i64h, eq_i64h, x >= 0x1p63, eq_imm_i64h(INT64_MAX), whole);
}
EQ_CAST(f64, i64, ((eq_i64){eq_trunc_f64h(a.lo), eq_trunc_f64h(a.hi)}))
EQ_CAST(f32, i64, eq_cast_f64_i64(eq_cast_f32_f64(a)))
EQ_FN eq_i64h eq_whole_u32(eq_f64h x) { return EQ_TO(eq_i64h, eq_held_f64h(x, 0, 4294967295.0)); }
EQ_CAST(f64, u32, (eq_u32)eq_narrow(eq_whole_u32(a.lo), eq_whole_u32(a.hi)))
EQ_CAST(f32, u32, eq_cast_f64_u32(eq_cast_f32_f64(a)))
EQ_FN eq_u64h eq_whole_u64(eq_f64h x) {
  eq_u64h whole = EQ_TO(eq_u64h, eq_held_f64h(x, 0, 0x1.fffffffffffffp63));
  return EQ_PICK(eq_i64h, eq_u64h, x >= 0x1p64, eq_imm_u64h(UINT64_MAX), whole);
}
EQ_CAST(f64, u64, ((eq_u64){eq_whole_u64(a.lo), eq_whole_u64(a.hi)}))
EQ_CAST(f32, u64, eq_cast_f64_u64(eq_cast_f32_f64(a)))

/* f64 to f32, rounded to odd: a second rounding, to a 16-bit type, then gives the bits of a single rounding
   (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums", 2008). */
EQ_FN eq_f32 eq_odd_f32(eq_f64 a) {
  eq_f32 near = eq_cast_f64_f32(a);
  eq_f64 back = eq_cast_f32_f64(near);
  eq_i32 bits = EQ_BITS(near);
  eq_i32 above = eq_narrow(back.lo > a.lo, back.hi > a.hi), below = eq_narrow(back.lo < a.lo, back.hi < a.hi);
  eq_i32 shrink = eq_where_i32(bits < 0, below, above); /* lanes whose magnitude shrinks by one ulp, toward a */
  eq_i32 moved = bits + eq_where_i32(shrink, eq_imm_i32(-1), eq_imm_i32(1));
  return EQ_FLOAT(eq_where_i32((above | below) & ((bits & 1) == 0), moved, bits));
}
EQ_FN eq_f32 eq_cast_f64_f16(eq_f64 a) { return eq_round_f16(eq_odd_f32(a)); }

/* The bits of a float as an unsigned number, and back. fp16 and bf16, which registers hold as f32, have 16 bits; those of
   a NaN are its sign and its upper digits. */
EQ_FN eq_u32 eq_bits_f32(eq_f32 a) { return (eq_u32)a; }
EQ_FN eq_f32 eq_from_bits_f32(eq_u32 bits) { return EQ_FLOAT(bits); }
EQ_FN eq_u64 eq_bits_f64(eq_f64 a) { return (eq_u64){(eq_u64h)a.lo, (eq_u64h)a.hi}; }
EQ_FN eq_f64 eq_from_bits_f64(eq_u64 bits) { return (eq_f64){(eq_f64h)bits.lo, (eq_f64h)bits.hi}; }
EQ_FN eq_u16 eq_bits_bf16(eq_f32 a) { return (eq_u16)eq_encode_bf16(a); }
EQ_FN eq_f32 eq_from_bits_bf16(eq_u16 bits) { return eq_decode_bf16((eq_i16)bits); }
EQ_FN eq_u16 eq_bits_f16(eq_f32 a) {
  eq_i32 b = EQ_BITS(a), nan = ((b >> 16) & 0x8000) | 0x7c00 | ((b >> 13) & 0x3ff);
  return (eq_u16)eq_low_halves(eq_where_i32(a != a, nan, eq_wide_i16(eq_encode_f16(a))));
}
EQ_FN eq_f32 eq_from_bits_f16(eq_u16 bits) {
  eq_i32 b = eq_wide_u16(bits), nan = ((b & 0x8000) << 16) | 0x7f800000 | ((b & 0x3ff) << 13);
  return EQ_FLOAT(eq_where_i32((b & 0x7fff) > 0x7c00, nan, EQ_BITS(eq_decode_f16((eq_i16)bits))));
}
