/* Transcendental functions: eq_<op>_<T> for exp exp2 log log2 sin cos tanh erf sigmoid mod of f32, and for erf pow mod
   of f64. The other functions of f64, and pow of f32, stand in vmath64.h.

   f32: polynomials of our own. A sweep over the arguments found relative errors below 2.2e-7. NaN, infinities,
   zeros and denormals are right.
   The functions of f64 here, mod, and sin or cos of |x| > 2^28 go lane by lane through libm.

   Coefficients are minimax fits of relative error by the exchange algorithm of Remez, in 40 digits, rounded
   to f32. A comment at each polynomial gives the interval and the error of the fit. Range reductions: W. J. Cody, W. Waite,
   "Software Manual for the Elementary Functions", 1980. */

#define EQ_POLY2(x, c0, c1, c2) eq_fma_f32(eq_fma_f32(eq_imm_f32(c2), x, eq_imm_f32(c1)), x, eq_imm_f32(c0))
#define EQ_POLY4(x, c0, c1, c2, c3, c4) \
  eq_fma_f32(eq_fma_f32(EQ_POLY2(x, c2, c3, c4), x, eq_imm_f32(c1)), x, eq_imm_f32(c0))
#define EQ_POLY6(x, c0, c1, c2, c3, c4, c5, c6) \
  eq_fma_f32(eq_fma_f32(EQ_POLY4(x, c2, c3, c4, c5, c6), x, eq_imm_f32(c1)), x, eq_imm_f32(c0))
#define EQ_POLY8(x, c0, c1, c2, c3, c4, c5, c6, c7, c8) \
  eq_fma_f32(eq_fma_f32(EQ_POLY6(x, c2, c3, c4, c5, c6, c7, c8), x, eq_imm_f32(c1)), x, eq_imm_f32(c0))

EQ_FN int eq_any(eq_mask m) {
#if EQ_X86 == 512
  return eq_bits_mask(m) != 0;
#elif EQ_X86 == 256
  int bits;
  __asm__("vmovmskps %1, %0" : "=r"(bits) : "x"(m));
  return bits != 0;
#else
  return eq_hmax_bool(m);
#endif
}

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)), for finite x > 0: gives m - 1 and e. */
EQ_FN eq_f32 eq_log_split(eq_f32 x, eq_f32 *e) {
  eq_mask small = x < 0x1p-126f;
  eq_i32 bits = EQ_BITS(eq_where_f32(small, x * 0x1p23f, x)) - 0x3f3504f3;
  *e = EQ_TO(eq_f32, (bits >> 23) - (small & 23));
  return EQ_FLOAT((bits & 0x7fffff) + 0x3f3504f3) - 1;
}

#if !EQ_TABLES /* else vmath_tables.h has these functions */
/* e^r - 1 = r + r^2 q(r) for -ln(2)/2 <= r <= ln(2); 2.6e-9 of e^r. */
EQ_FN eq_f32 eq_exp_less_1(eq_f32 r) {
  eq_f32 q = eq_fma_f32(EQ_POLY4(r, 1.666671932e-01f, 4.166670889e-02f, 8.325845003e-03f, 1.392582781e-03f,
                                 2.248112141e-04f), r, eq_imm_f32(0.5f));
  return eq_fma_f32(r * r, q, r);
}
#if EQ_FLUSH
/* x as a whole number n of at most 127, beside 127 + 2^23 * 3/2: its lowest bits, shifted, are those of 2^n, or of 0 for
   n = -127. Then e^x needs no second factor: it is 0 where n = -127, and for n = 127 the rest of x may be up to ln(2). */
#define EQ_EXPONENT_BIAS 12583039.0f
EQ_FN eq_f32 eq_biased_exponent(eq_f32 x, float times) {
  eq_f32 n = eq_fma_f32(x, eq_imm_f32(times), eq_imm_f32(EQ_EXPONENT_BIAS));
  return eq_least_f32(eq_imm_f32(EQ_EXPONENT_BIAS + 127), n);
}
/* 2^n e^r of a biased exponent. */
EQ_FN eq_f32 eq_exp_core(eq_f32 biased, eq_f32 r) {
  eq_f32 power = EQ_FLOAT(EQ_BITS(biased) << 23);
  return eq_fma_f32(power, eq_exp_less_1(r), power);
}
EQ_FN eq_f32 eq_exp_f32(eq_f32 x) { /* from -88 down, 0; NaN passes */
  x = eq_most_f32(eq_imm_f32(-88), x);
  eq_f32 biased = eq_biased_exponent(x, 1.442695041f), n = biased - EQ_EXPONENT_BIAS;
  eq_f32 r = eq_fma_f32(n, eq_imm_f32(-0.693359375f), x); /* 355/512: exact without a fused product too */
  return eq_exp_core(biased, eq_fma_f32(n, eq_imm_f32(2.12194440e-4f), r));
}
EQ_FN eq_f32 eq_exp2_f32(eq_f32 x) {
  x = eq_most_f32(eq_imm_f32(-127), x);
  eq_f32 biased = eq_biased_exponent(x, 1), n = biased - EQ_EXPONENT_BIAS;
  return eq_exp_core(biased, (x - n) * 0.6931471806f);
}
#else
/* x * 2^n for whole n in [-252, 252], right for denormal results. */
EQ_FN eq_f32 eq_scale_f32(eq_f32 x, eq_f32 n) {
  eq_i32 whole = EQ_TO(eq_i32, n), half = whole >> 1;
  return x * EQ_FLOAT((half + 127) << 23) * EQ_FLOAT((whole - half + 127) << 23);
}
/* 2^n e^r */
EQ_FN eq_f32 eq_exp_core(eq_f32 n, eq_f32 r) { return eq_scale_f32(eq_exp_less_1(r) + 1, n); }
EQ_FN eq_f32 eq_exp_f32(eq_f32 x) { /* outside of [-104, 89] the result is 0 or inf in f32; NaN passes */
  x = eq_most_f32(eq_imm_f32(-104), eq_least_f32(eq_imm_f32(89), x));
  eq_f32 n = eq_round_f32(x * 1.442695041f);
  eq_f32 r = eq_fma_f32(n, eq_imm_f32(-0.693359375f), x); /* 355/512: exact without a fused product too */
  return eq_exp_core(n, eq_fma_f32(n, eq_imm_f32(2.12194440e-4f), r));
}
EQ_FN eq_f32 eq_exp2_f32(eq_f32 x) {
  x = eq_most_f32(eq_imm_f32(-151), eq_least_f32(eq_imm_f32(129), x));
  eq_f32 n = eq_round_f32(x);
  return eq_exp_core(n, (x - n) * 0.6931471806f);
}
#endif

/* log(1 + f) - f + f^2/2 = f^3 q(f) on [sqrt(1/2) - 1, sqrt(2) - 1]; 8e-10. */
EQ_FN eq_f32 eq_log_tail(eq_f32 f) {
  eq_f32 q = EQ_POLY8(f, 3.333331347e-01f, -2.500000894e-01f, 2.000211775e-01f, -1.666799337e-01f, 1.421955824e-01f,
                      -1.240560710e-01f, 1.188815236e-01f, -1.167561710e-01f, 6.746637076e-02f);
  return f * f * f * q;
}
EQ_FN eq_f32 eq_log_edges(eq_f32 x, eq_f32 inside) {
  eq_f32 infinity = eq_imm_f32(INFINITY), nan = eq_imm_f32(NAN);
  eq_f32 edge = eq_where_f32(x == 0, -infinity, eq_where_f32(x > 0, infinity, nan));
  return eq_where_f32((x > 0) & (x < infinity), inside, edge);
}
EQ_FN eq_f32 eq_log_f32(eq_f32 x) {
  eq_f32 e, f = eq_log_split(x, &e);
  eq_f32 y = eq_fma_f32(f * f, eq_imm_f32(-0.5f), eq_fma_f32(e, eq_imm_f32(-2.12194440e-4f), eq_log_tail(f)));
  return eq_log_edges(x, eq_fma_f32(e, eq_imm_f32(0.693359375f), f + y));
}
EQ_FN eq_f32 eq_log2_f32(eq_f32 x) { /* log2(e) = 1 + 0.4427…: the 1 costs no rounding */
  eq_f32 e, f = eq_log_split(x, &e);
  eq_f32 y = eq_fma_f32(f * f, eq_imm_f32(-0.5f), eq_log_tail(f)), more = eq_imm_f32(0.4426950409f);
  return eq_log_edges(x, eq_fma_f32(f, more, eq_fma_f32(y, more, y)) + f + e);
}

/* tanh a: a + a z q(z), z = a^2, for a <= 0.625 (4e-9), above it 1 - 2 / (e^2a + 1). */
EQ_FN eq_f32 eq_tanh_f32(eq_f32 x) {
  eq_i32 sign = EQ_BITS(x) & EQ_SIGN_BIT;
  eq_f32 a = eq_abs_f32(x), z = a * a;
  eq_f32 q = EQ_POLY4(z, -3.333328366e-01f, 1.333149225e-01f, -5.374357477e-02f, 2.065072395e-02f, -5.717103370e-03f);
  eq_f32 near = eq_fma_f32(a * z, q, a), far = 1 - 2 / (eq_exp_f32(a + a) + 1);
  return EQ_FLOAT(EQ_BITS(eq_where_f32(a < 0.625f, near, far)) | sign);
}
/* erf a: a + a q(z), z = a^2, for a < 0.93 (6e-10); to 4, 1 - exp(p(a)) with p = log erfc (5e-11); above, 1. */
EQ_FN eq_f32 eq_erf_f32(eq_f32 x) {
  eq_i32 sign = EQ_BITS(x) & EQ_SIGN_BIT;
  eq_f32 a = eq_abs_f32(x), z = a * a, t = eq_least_f32(eq_imm_f32(4), a);
  eq_f32 q = EQ_POLY6(z, 1.283791661e-01f, -3.761263192e-01f, 1.128367260e-01f, -2.685810439e-02f, 5.197797902e-03f,
                      -8.105968009e-04f, 8.215424168e-05f);
  eq_f32 p = EQ_POLY6(t, -1.129514933e+00f, -6.333469152e-01f, -1.082800627e-01f, 2.511941083e-02f,
                      -4.171056207e-03f, 4.344612244e-04f, -2.109493107e-05f);
  eq_f32 near = eq_fma_f32(a, q, a), far = 1 - eq_exp_f32(eq_fma_f32(t, p, eq_imm_f32(1.746821363e-04f)));
  return EQ_FLOAT(EQ_BITS(eq_where_f32(a < 0.93f, near, far)) | sign);
}
#endif

EQ_FN eq_f32 eq_sigmoid_f32(eq_f32 x) { /* e^-|x| cannot overflow, so tiny results keep their digits */
  eq_f32 e = eq_exp_f32(EQ_FLOAT(EQ_BITS(x) | EQ_SIGN_BIT));
  return eq_where_f32(x < 0, e, eq_imm_f32(1)) / (1 + e);
}

/* x = j pi/2 + r in f64, pi/2 in two parts: the first has 25 bits, so that its product by j < 2^28 is exact
   (K. C. Ng, fdlibm, e_rem_pio2f.c). */
EQ_FN eq_f64h eq_quadrant_half(eq_f64h x, eq_f64h *j) {
  *j = eq_round_f64h(x * 6.36619772367581382433e-01);
  return (x - *j * 1.57079631090164184570e+00) - *j * 1.58932547735281966916e-08;
}
/* sin(x + turn pi/2): sin r = r + r z q(z) (5e-12), cos r = 1 - z/2 + z^2 q(z) (1e-10), |r| <= pi/4. */
EQ_FN eq_f32 eq_sine_turned(eq_f32 x, int turn) {
  eq_f64 wide = eq_cast_f32_f64(x), j;
  eq_f64h lo = eq_quadrant_half(wide.lo, &j.lo), hi = eq_quadrant_half(wide.hi, &j.hi);
  eq_f32 r = eq_join_f32(EQ_TO(eq_f32h, lo), EQ_TO(eq_f32h, hi)), z = r * r;
  eq_i32 quadrant = eq_join_i32(EQ_TO(eq_i32h, j.lo), EQ_TO(eq_i32h, j.hi)) + turn;
  eq_f32 s = EQ_POLY2(z, 8.333329111e-03f, -1.983925613e-04f, 2.717565167e-06f);
  eq_f32 c = EQ_POLY2(z, 4.166664556e-02f, -1.388730714e-03f, 2.443124686e-05f);
  eq_f32 sine = eq_fma_f32(r * z, eq_fma_f32(s, z, eq_imm_f32(-1.666666716e-01f)), r);
  eq_f32 cosine = eq_fma_f32(z * z, c, eq_fma_f32(z, eq_imm_f32(-0.5f), eq_imm_f32(1)));
  eq_f32 v = eq_where_f32((quadrant & 1) != 0, cosine, sine);
  return EQ_FLOAT(EQ_BITS(v) ^ ((quadrant & 2) << 30));
}
#define EQ_LARGE_ANGLE(x) (EQ_BITS(eq_abs_f32(x)) > 0x4d800000) /* 2^28, and inf and NaN */

#define EQ_LIBM1(T, C, name, f)                                  \
  EQ_CALL eq_##T name(eq_##T a) {                                \
    C x[EQ_VL];                                                  \
    eq_store_##T(x, a);                                          \
    for (int i = 0; i < EQ_VL; i++) x[i] = f(x[i]);              \
    return eq_load_##T(x);                                       \
  }
#define EQ_LIBM2(T, C, name, f)                                  \
  EQ_CALL eq_##T name(eq_##T a, eq_##T b) {                      \
    C x[EQ_VL], y[EQ_VL];                                        \
    eq_store_##T(x, a), eq_store_##T(y, b);                      \
    for (int i = 0; i < EQ_VL; i++) x[i] = f(x[i], y[i]);        \
    return eq_load_##T(x);                                       \
  }
EQ_LIBM1(f32, float, eq_sin_lanes, sinf)
EQ_LIBM1(f32, float, eq_cos_lanes, cosf)
EQ_FN eq_f32 eq_sin_f32(eq_f32 x) {
  if (__builtin_expect(eq_any(EQ_LARGE_ANGLE(x)), 0)) return eq_sin_lanes(x);
  return eq_where_f32(x == 0, x, eq_sine_turned(x, 0)); /* the reduction loses the sign of zero */
}
EQ_FN eq_f32 eq_cos_f32(eq_f32 x) {
  if (__builtin_expect(eq_any(EQ_LARGE_ANGLE(x)), 0)) return eq_cos_lanes(x);
  return eq_sine_turned(x, 1);
}

/* The remainder with the divisor's sign, as Python's and NumPy's; NaN for a zero divisor. */
EQ_FN double eq_floor_mod(double a, double b) {
  double r = fmod(a, b);
  return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r;
}
EQ_FN float eq_floor_modf(float a, float b) {
  float r = fmodf(a, b);
  return r == 0 ? copysignf(0, b) : (r < 0) != (b < 0) ? r + b : r;
}
EQ_LIBM2(f32, float, eq_mod_f32, eq_floor_modf)
EQ_LIBM2(f64, double, eq_pow_f64, pow)
EQ_LIBM2(f64, double, eq_mod_f64, eq_floor_mod)
EQ_LIBM1(f64, double, eq_erf_f64, erf)

/* The same functions as calls: a kernel that inlines very many of them takes the compiler minutes. */
#define EQ_FAR1(T, op) EQ_CALL eq_##T eq_far_##op##_##T(eq_##T a) { return eq_##op##_##T(a); }
#define EQ_FAR2(T, op) EQ_CALL eq_##T eq_far_##op##_##T(eq_##T a, eq_##T b) { return eq_##op##_##T(a, b); }
EQ_FAR1(f32, exp) EQ_FAR1(f32, exp2) EQ_FAR1(f32, log) EQ_FAR1(f32, log2) EQ_FAR1(f32, sin) EQ_FAR1(f32, cos)
EQ_FAR1(f32, tanh) EQ_FAR1(f32, erf) EQ_FAR1(f32, sigmoid) EQ_FAR2(i32, idiv) EQ_FAR2(i32, mod)
EQ_FAR2(u32, idiv) EQ_FAR2(u32, mod)
