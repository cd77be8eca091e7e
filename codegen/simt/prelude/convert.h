/* Conversions between element types. */

/* Ties to even; NaN becomes the GPU's one NaN. Below 2^-14 an addition of 0.5, whose last place is 2^-24, rounds. */
static inline unsigned eq_half_of(float x) {
  unsigned bits = eq_bits_f32(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return 0x7fff;
  if (size >= 0x47800000) return sign | 0x7c00;
  if (size < 0x38800000) return sign | (eq_bits_f32(eq_from_bits_f32(size) + 0.5f) - eq_bits_f32(0.5f));
  return sign | ((size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13);
}

static inline float eq_of_half(unsigned half) {
  float scaled = eq_from_bits_f32((half & 0x7fff) << 13) * 0x1p112f;
  unsigned special = (half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
  return eq_from_bits_f32(eq_bits_f32(scaled) | special | (half & 0x8000) << 16);
}

static inline unsigned eq_bf16_of(float x) {
  unsigned bits = eq_bits_f32(x);
  return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static inline float eq_of_bf16(unsigned half) { return eq_from_bits_f32(half << 16); }

#define EQ_HALVES(T, of_float, to_float)                                                              \
  static inline float eq_round_##T(float x) { return to_float(of_float(x)); }                         \
  static inline unsigned eq_pack_##T(float low, float high) { return of_float(low) | of_float(high) << 16; } \
  static inline float eq_low_##T(unsigned word) { return to_float(word & 0xffff); }                   \
  static inline float eq_high_##T(unsigned word) { return to_float(word >> 16); }
EQ_HALVES(f16, eq_half_of, eq_of_half)
EQ_HALVES(bf16, eq_bf16_of, eq_of_bf16)

static inline unsigned eq_tf32(float x) {
  unsigned bits = eq_bits_f32(x), exponent = bits & 0x7f800000;
  if (x != x) return 0x7fffe000;
  return (exponent == 0 || exponent == 0x7f800000 ? bits : bits + 0x1000) & ~0x1fffu;
}

/* Truncates, and sets the last bit if the result is inexact (Boldo and Melquiond 2008). */
static inline float eq_odd_f32(double x) {
  float near = (float)x;
  if ((double)near == x || x != x) return near;
  unsigned bits = eq_bits_f32(near);
  if (__builtin_fabs((double)near) > __builtin_fabs(x)) bits -= 1;
  return eq_from_bits_f32(bits | 1);
}

template <class T> struct eq_is_float { static constexpr bool value = false; };
template <> struct eq_is_float<float> { static constexpr bool value = true; };
template <> struct eq_is_float<double> { static constexpr bool value = true; };

template <class To, class From>
static inline To eq_convert(From x) {
  if constexpr (__is_same(To, bool)) return x != 0;
  else if constexpr (eq_is_float<From>::value && !eq_is_float<To>::value) {
    constexpr bool is_signed = (To)-1 < (To)0;
    constexpr int bits = 8 * (int)sizeof(To) - is_signed;
    constexpr To highest = (To)(~0ull >> (64 - bits)), lowest = is_signed ? (To)(-(long long)highest - 1) : (To)0;
    if (x != x) return 0;
    if (x >= (From)(2.0 * (double)(1ull << (bits - 1)))) return highest;
    if (x <= (From)lowest) return lowest;
    return (To)x;
  } else return (To)x;
}

#define EQ_CAST(F, from, T, to) static inline to eq_cast_##F##_##T(from x) { return eq_convert<to>(x); }
#define EQ_CASTS_TO_INTEGERS(F, from)                                                        \
  EQ_CAST(F, from, i8, signed char) EQ_CAST(F, from, u8, unsigned char) EQ_CAST(F, from, i16, short) \
  EQ_CAST(F, from, u16, unsigned short) EQ_CAST(F, from, i32, int) EQ_CAST(F, from, u32, unsigned) \
  EQ_CAST(F, from, i64, long long) EQ_CAST(F, from, u64, unsigned long long) EQ_CAST(F, from, bool, bool)
#define EQ_CASTS(F, from) EQ_CAST(F, from, f32, float) EQ_CAST(F, from, f64, double) EQ_CASTS_TO_INTEGERS(F, from)
EQ_CASTS(f32, float) EQ_CASTS(f64, double) EQ_CASTS(i8, signed char) EQ_CASTS(u8, unsigned char)
EQ_CASTS(i16, short) EQ_CASTS(u16, unsigned short) EQ_CASTS(i32, int) EQ_CASTS(u32, unsigned)
EQ_CASTS(i64, long long) EQ_CASTS(u64, unsigned long long) EQ_CASTS(bool, bool)
