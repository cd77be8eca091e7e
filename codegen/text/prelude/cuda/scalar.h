/* Elementwise functions eq_<op>_<T> and conversions eq_cast_<A>_<B> on registers: T is f32 f64, i8 … i64, u8 … u64,
   bool. */

#define EQ_OP1(T, op, C, expr) EQ_FN C eq_##op##_##T(C x) { return (C)(expr); }
#define EQ_OP2(T, op, C, expr) EQ_FN C eq_##op##_##T(C x, C y) { return (C)(expr); }
#define EQ_TEST(T, op, C, expr) EQ_FN bool eq_##op##_##T(C x, C y) { return expr; }

#define EQ_COMPARE(T, C)      \
  EQ_TEST(T, cmplt, C, x < y)  \
  EQ_TEST(T, cmple, C, x <= y) \
  EQ_TEST(T, cmpgt, C, x > y)  \
  EQ_TEST(T, cmpge, C, x >= y) \
  EQ_TEST(T, cmpeq, C, x == y) \
  EQ_TEST(T, cmpne, C, x != y) \
  EQ_FN C eq_where_##T(bool p, C x, C y) { return p ? x : y; }
EQ_COMPARE(f32, float)
EQ_COMPARE(f64, double)
EQ_COMPARE(i8, eq_i8)
EQ_COMPARE(u8, eq_u8)
EQ_COMPARE(i16, eq_i16)
EQ_COMPARE(u16, eq_u16)
EQ_COMPARE(i32, eq_i32)
EQ_COMPARE(u32, eq_u32)
EQ_COMPARE(i64, eq_i64)
EQ_COMPARE(u64, eq_u64)
EQ_COMPARE(bool, bool)

/* The compiler never fuses intrinsics: a fused product would have other bits than one that is stored. */
#define EQ_FLOAT(T, C, s, p)                            \
  EQ_OP1(T, neg, C, -x)                                 \
  EQ_OP1(T, abs, C, fabs##s(x))                         \
  EQ_OP1(T, recip, C, 1 / x)                            \
  EQ_OP1(T, sqrt, C, sqrt##s(x))                        \
  EQ_OP1(T, rsqrt, C, rsqrt##s(x))                      \
  EQ_OP1(T, exp, C, exp##s(x))                          \
  EQ_OP1(T, exp2, C, exp2##s(x))                        \
  EQ_OP1(T, log, C, log##s(x))                          \
  EQ_OP1(T, log2, C, log2##s(x))                        \
  EQ_OP1(T, sin, C, sin##s(x))                          \
  EQ_OP1(T, cos, C, cos##s(x))                          \
  EQ_OP1(T, tanh, C, tanh##s(x))                        \
  EQ_OP1(T, erf, C, erf##s(x))                          \
  EQ_OP1(T, relu, C, x <= 0 ? 0 : x)                    \
  EQ_OP1(T, floor, C, floor##s(x))                      \
  EQ_OP1(T, ceil, C, ceil##s(x))                        \
  EQ_OP1(T, round, C, rint##s(x))                       \
  EQ_OP2(T, add, C, __##p##add_rn(x, y))                \
  EQ_OP2(T, sub, C, __##p##sub_rn(x, y))                \
  EQ_OP2(T, mul, C, __##p##mul_rn(x, y))                \
  EQ_OP2(T, fdiv, C, x / y)                             \
  EQ_OP2(T, pow, C, pow##s(x, y))                       \
  EQ_FN C eq_fma_##T(C x, C y, C z) { return fma##s(x, y, z); } \
  EQ_FN C eq_sigmoid_##T(C x) { /* e^-|x| cannot overflow, so tiny results keep their digits */ \
    C e = exp##s(-fabs##s(x));                          \
    return (x < 0 ? e : 1) / (1 + e);                   \
  }
EQ_FLOAT(f32, float, f, f)
EQ_FLOAT(f64, double, , d)
EQ_FN float eq_exp2_approx_f32(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
EQ_FN float eq_tanh_approx_f32(float x) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
EQ_FN float eq_max_f32(float x, float y) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  return r;
}
EQ_FN float eq_min_f32(float x, float y) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  return r;
}
EQ_OP2(f64, max, double, x != x || x > y ? x : y)
EQ_OP2(f64, min, double, x != x || x < y ? x : y)

/* Integers wrap: their arithmetic is that of the unsigned U. A shift reads its count as unsigned: (U)y is not below the
   width where y is negative. */
#define EQ_WRAPPING(T, C, U)                                       \
  EQ_OP1(T, neg, C, (U)0 - (U)x)                                   \
  EQ_OP1(T, not, C, ~x)                                            \
  EQ_OP2(T, add, C, (U)x + (U)y)                                   \
  EQ_OP2(T, sub, C, (U)x - (U)y)                                   \
  EQ_OP2(T, mul, C, (U)x * (U)y)                                   \
  EQ_OP2(T, max, C, x > y ? x : y)                                 \
  EQ_OP2(T, min, C, x < y ? x : y)                                 \
  EQ_OP2(T, and, C, x & y)                                         \
  EQ_OP2(T, or, C, x | y)                                          \
  EQ_OP2(T, xor, C, x ^ y)                                         \
  EQ_OP2(T, shl, C, (U)y < 8 * sizeof(C) ? (U)x << (U)y : (U)0)
#define EQ_INT(T, C, U)                                            \
  EQ_WRAPPING(T, C, U)                                             \
  EQ_OP1(T, abs, C, x < 0 ? (U)0 - (U)x : (U)x)                    \
  EQ_OP1(T, relu, C, x <= 0 ? 0 : x)                               \
  EQ_OP2(T, shr, C, x >> ((U)y < 8 * sizeof(C) ? (U)y : 8 * sizeof(C) - 1)) \
  EQ_FN C eq_idiv_##T(C x, C y) { /* the least integer divided by -1 wraps; on a CPU it would trap */ \
    if (y == 0) return 0;                                          \
    if (y == (C)-1) return (C)((U)0 - (U)x);                       \
    return (C)(x / y - (x % y != 0 && (x < 0) != (y < 0)));        \
  }                                                                \
  EQ_FN C eq_mod_##T(C x, C y) {                                   \
    if (y == 0 || y == (C)-1) return 0;                            \
    C r = (C)(x % y);                                              \
    return (C)(r != 0 && (r < 0) != (y < 0) ? r + y : r);          \
  }
EQ_INT(i8, eq_i8, unsigned)
EQ_INT(i16, eq_i16, unsigned)
EQ_INT(i32, eq_i32, unsigned)
EQ_INT(i64, eq_i64, unsigned long long)
#define EQ_UNSIGNED(T, C, U)                                       \
  EQ_OP1(T, abs, C, x)                                             \
  EQ_OP1(T, relu, C, x)                                            \
  EQ_OP2(T, idiv, C, y == 0 ? 0 : x / y)                           \
  EQ_OP2(T, mod, C, y == 0 ? 0 : x % y)                            \
  EQ_OP2(T, shr, C, y < 8 * sizeof(C) ? x >> y : 0)                \
  EQ_WRAPPING(T, C, U)
EQ_UNSIGNED(u8, eq_u8, unsigned)
EQ_UNSIGNED(u16, eq_u16, unsigned)
EQ_UNSIGNED(u32, eq_u32, unsigned)
EQ_UNSIGNED(u64, eq_u64, unsigned long long)
EQ_OP1(bool, not, bool, !x)
EQ_OP2(bool, and, bool, x & y)
EQ_OP2(bool, or, bool, x | y)
EQ_OP2(bool, xor, bool, x ^ y)
EQ_OP2(bool, max, bool, x | y)
EQ_OP2(bool, min, bool, x & y)

/* To floats nearest even; float to integer truncates, saturates, NaN gives 0; integers wrap; to bool x != 0. */
#define EQ_CAST(A, B, CA, CB, expr) EQ_FN CB eq_cast_##A##_##B(CA x) { return (CB)(expr); }
#define EQ_CAST_PLAIN(A, CA, B, CB) EQ_CAST(A, B, CA, CB, x)
#define EQ_CAST_INTEGER(A, CA)                                                             \
  EQ_CAST_PLAIN(A, CA, i8, eq_i8) EQ_CAST_PLAIN(A, CA, u8, eq_u8)                          \
  EQ_CAST_PLAIN(A, CA, i16, eq_i16) EQ_CAST_PLAIN(A, CA, u16, eq_u16)                      \
  EQ_CAST_PLAIN(A, CA, i32, eq_i32) EQ_CAST_PLAIN(A, CA, u32, eq_u32)                      \
  EQ_CAST_PLAIN(A, CA, i64, eq_i64) EQ_CAST_PLAIN(A, CA, u64, eq_u64)                      \
  EQ_CAST_PLAIN(A, CA, f32, float) EQ_CAST_PLAIN(A, CA, f64, double)                       \
  EQ_CAST(A, bool, CA, bool, x != 0)
EQ_CAST_INTEGER(i8, eq_i8)
EQ_CAST_INTEGER(u8, eq_u8)
EQ_CAST_INTEGER(i16, eq_i16)
EQ_CAST_INTEGER(u16, eq_u16)
EQ_CAST_INTEGER(i32, eq_i32)
EQ_CAST_INTEGER(u32, eq_u32)
EQ_CAST_INTEGER(i64, eq_i64)
EQ_CAST_INTEGER(u64, eq_u64)
EQ_CAST_INTEGER(bool, bool)
EQ_CAST_PLAIN(f32, float, f64, double)
EQ_CAST_PLAIN(f64, double, f32, float)
EQ_FN int eq_held(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
#define EQ_CAST_FLOAT(A, CA, whole, wide, unsigned_, wide_unsigned) \
  EQ_CAST(A, i8, CA, eq_i8, eq_held(whole(x), -128, 127))           \
  EQ_CAST(A, u8, CA, eq_u8, eq_held(whole(x), 0, 255))              \
  EQ_CAST(A, i16, CA, eq_i16, eq_held(whole(x), -32768, 32767))     \
  EQ_CAST(A, u16, CA, eq_u16, eq_held(whole(x), 0, 65535))          \
  EQ_CAST(A, i32, CA, eq_i32, whole(x))                             \
  EQ_CAST(A, u32, CA, eq_u32, x != x ? 0 : unsigned_(x))            \
  EQ_CAST(A, i64, CA, eq_i64, x != x ? 0 : wide(x))                 \
  EQ_CAST(A, u64, CA, eq_u64, x != x ? 0 : wide_unsigned(x))        \
  EQ_CAST(A, bool, CA, bool, x != 0)
EQ_FN int eq_whole_f64(double x) { return x != x ? 0 : __double2int_rz(x); }
EQ_CAST_FLOAT(f32, float, __float2int_rz, __float2ll_rz, __float2uint_rz, __float2ull_rz)
EQ_CAST_FLOAT(f64, double, eq_whole_f64, __double2ll_rz, __double2uint_rz, __double2ull_rz)
