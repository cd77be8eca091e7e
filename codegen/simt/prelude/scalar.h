/* Elementwise functions. Compiled without contraction and with integers that wrap. */

template <class T>
static inline T eq_maximum(T x, T y) { return x > y || x != x ? x : y; }
template <class T>
static inline T eq_minimum(T x, T y) { return x < y || x != x ? x : y; }
template <class T>
static inline T eq_floor_div(T x, T y) {
  if (y == 0) return 0;
  if ((T)-1 < (T)0 && y == (T)-1) return (T)(0 - x);
  T quotient = (T)(x / y);
  return (T)(quotient - (x % y != 0 && (x < 0) != (y < 0)));
}

/* Whether a shift of a T by y leaves one of its bits. */
template <class T>
static inline bool eq_is_below_width(T y) { return y >= 0 && (unsigned long long)y < 8 * sizeof(T); }

#define EQ_UNARY(fn, T, C, value) static inline C eq_##fn##_##T(C x) { return (C)(value); }
#define EQ_BINARY(fn, T, C, value) static inline C eq_##fn##_##T(C x, C y) { return (C)(value); }
#define EQ_COMPARISON(fn, T, C, sign) static inline bool eq_##fn##_##T(C x, C y) { return x sign y; }

#define EQ_ANY(T, C)                                                                  \
  EQ_COMPARISON(cmplt, T, C, <) EQ_COMPARISON(cmple, T, C, <=) EQ_COMPARISON(cmpgt, T, C, >) \
  EQ_COMPARISON(cmpge, T, C, >=) EQ_COMPARISON(cmpeq, T, C, ==) EQ_COMPARISON(cmpne, T, C, !=) \
  static inline C eq_where_##T(bool p, C x, C y) { return p ? x : y; }

#define EQ_NUMBER(T, C)                                                               \
  EQ_ANY(T, C)                                                                        \
  EQ_UNARY(neg, T, C, -x)                                                             \
  EQ_UNARY(relu, T, C, x <= 0 ? 0 : x)                                                \
  EQ_BINARY(add, T, C, x + y) EQ_BINARY(sub, T, C, x - y) EQ_BINARY(mul, T, C, x * y) \
  EQ_BINARY(max, T, C, eq_maximum(x, y)) EQ_BINARY(min, T, C, eq_minimum(x, y))

#define EQ_INTEGER(T, C)                                                              \
  EQ_NUMBER(T, C)                                                                     \
  EQ_UNARY(abs, T, C, x < 0 ? -x : x) EQ_UNARY(not, T, C, ~x)                         \
  EQ_BINARY(idiv, T, C, eq_floor_div(x, y))                                           \
  EQ_BINARY(mod, T, C, y == 0 ? 0 : x - y * eq_floor_div(x, y))                       \
  EQ_BINARY(and, T, C, x & y) EQ_BINARY(or, T, C, x | y) EQ_BINARY(xor, T, C, x ^ y)  \
  EQ_BINARY(shl, T, C, eq_is_below_width(y) ? (unsigned long long)x << y : 0)         \
  EQ_BINARY(shr, T, C, eq_is_below_width(y) ? x >> y : x < 0 ? -1 : 0)

#define EQ_FLOAT(T, C, f)                                                             \
  EQ_NUMBER(T, C)                                                                     \
  EQ_UNARY(abs, T, C, __builtin_fabs##f(x)) EQ_UNARY(recip, T, C, 1 / x)              \
  EQ_UNARY(sqrt, T, C, __builtin_sqrt##f(x)) EQ_UNARY(rsqrt, T, C, 1 / __builtin_sqrt##f(x)) \
  EQ_UNARY(exp, T, C, __builtin_exp##f(x)) EQ_UNARY(exp2, T, C, __builtin_exp2##f(x)) \
  EQ_UNARY(log, T, C, __builtin_log##f(x)) EQ_UNARY(log2, T, C, __builtin_log2##f(x)) \
  EQ_UNARY(sin, T, C, __builtin_sin##f(x)) EQ_UNARY(cos, T, C, __builtin_cos##f(x))   \
  EQ_UNARY(tanh, T, C, __builtin_tanh##f(x)) EQ_UNARY(erf, T, C, __builtin_erf##f(x)) \
  EQ_UNARY(floor, T, C, __builtin_floor##f(x)) EQ_UNARY(ceil, T, C, __builtin_ceil##f(x)) \
  EQ_UNARY(round, T, C, __builtin_rint##f(x))                                         \
  EQ_BINARY(fdiv, T, C, x / y) EQ_BINARY(pow, T, C, __builtin_pow##f(x, y))           \
  static inline C eq_sigmoid_##T(C x) {                                               \
    C e = __builtin_exp##f(-__builtin_fabs##f(x));                                    \
    return (x < 0 ? e : 1) / (1 + e);                                                 \
  }                                                                                   \
  static inline C eq_mod_##T(C x, C y) {                                              \
    C r = __builtin_fmod##f(x, y);                                                    \
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;                                  \
  }                                                                                   \
  static inline C eq_fma_##T(C x, C y, C z) { return __builtin_fma##f(x, y, z); }

EQ_FLOAT(f32, float, f)
EQ_FLOAT(f64, double, )

/* The approximations are off by their whole bounds, so that what stands these stands the hardware's. */
static inline float eq_flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0, x) : x; }
static inline float eq_exp2_approx_f32(float x) {
  float y = eq_flushed(__builtin_exp2f(eq_flushed(x)));
  return y < 0x1p126f && y > 0 && x != __builtin_floorf(x) ? y * (1 - 0x1p-23f) : y;
}
static inline float eq_tanh_approx_f32(float x) {
  return __builtin_isfinite(x) ? __builtin_tanhf(x) * (1 - 0x1p-11f) : __builtin_tanhf(x);
}
EQ_INTEGER(i8, signed char)
EQ_INTEGER(u8, unsigned char)
EQ_INTEGER(i16, short)
EQ_INTEGER(u16, unsigned short)
EQ_INTEGER(i32, int)
EQ_INTEGER(u32, unsigned)
EQ_INTEGER(i64, long long)
EQ_INTEGER(u64, unsigned long long)
EQ_ANY(bool, bool)
EQ_UNARY(not, bool, bool, !x)
EQ_BINARY(and, bool, bool, x && y)
EQ_BINARY(or, bool, bool, x || y)
EQ_BINARY(xor, bool, bool, x != y)
EQ_BINARY(max, bool, bool, x || y)
EQ_BINARY(min, bool, bool, x && y)
