/* exp exp2 log log2 sin cos tanh sigmoid of f64, and pow of f32 by way of them. A sweep over the arguments found
   relative errors below 4.2e-16, and 6e-8 for pow. NaN, infinities, zeros and denormals are right.

   Polynomials of log, sin and cos: fdlibm (Sun Microsystems, 1993), e_log.c, k_sin.c and k_cos.c. That of exp
   interpolates at Chebyshev nodes. */

#define EQ_POLY64_2(x, c0, c1) eq_fma_f64h(eq_imm_f64h(c1), x, eq_imm_f64h(c0))
#define EQ_POLY64_4(x, x2, c0, c1, c2, c3) eq_fma_f64h(EQ_POLY64_2(x, c2, c3), x2, EQ_POLY64_2(x, c0, c1))
#define EQ_POLY64_6(x, x2, c0, c1, c2, c3, c4, c5) \
  eq_fma_f64h(EQ_POLY64_4(x, x2, c2, c3, c4, c5), x2, EQ_POLY64_2(x, c0, c1))
#define EQ_WHERE64(m, a, b) EQ_PICK(eq_i64h, eq_f64h, m, a, b)
#define EQ_WITH_SIGN64(a, x) ((eq_f64h)((eq_i64h)(a) | ((eq_i64h)(x) & (eq_i64h)eq_imm_f64h(-0.0))))

/* 2^n for whole n in [-1022, 1023]. */
EQ_FN eq_f64h eq_power_of_2_f64h(eq_f64h n) { return (eq_f64h)((eq_i64h)(n + (0x1.8p52 + 1023)) << 52); }
/* x 2^n for whole n in [-2000, 2000], right for denormal results. */
EQ_FN eq_f64h eq_scale_f64h(eq_f64h x, eq_f64h n) {
  eq_f64h half = eq_floor_f64h(n * 0.5);
  return x * eq_power_of_2_f64h(half) * eq_power_of_2_f64h(n - half);
}
/* e^r - 1 = r + r^2 q(r), |r| <= ln(2)/2; 4e-17. */
EQ_FN eq_f64h eq_exp_less_1_f64h(eq_f64h r) {
  eq_f64h square = r * r;
  eq_f64h low = EQ_POLY64_6(r, square, 0.50000000000000011, 0.16666666666666669, 0.04166666666662399,
                            0.0083333333333300511, 0.0013888888917281794, 0.00019841269863105968);
  eq_f64h high = EQ_POLY64_4(r, square, 2.4801521190217729e-05, 2.7557268378684192e-06, 2.7620138719733994e-07,
                             2.5100424157005067e-08);
  return eq_fma_f64h(square, eq_fma_f64h(high, square * square * square, low), r);
}
/* x = n ln(2) + r; the first part of ln(2) has 33 bits. */
EQ_FN eq_f64h eq_exp_split_f64h(eq_f64h x, eq_f64h *n) {
  *n = eq_round_f64h(x * 1.4426950408889634);
  return eq_fma_f64h(*n, eq_imm_f64h(-1.90821492927058770002e-10),
                     eq_fma_f64h(*n, eq_imm_f64h(-6.93147180369123816490e-01), x));
}
EQ_FN eq_f64h eq_exp_f64h(eq_f64h x) { /* outside of [-746, 710] the result is 0 or inf; NaN passes */
  eq_f64h n, r = eq_exp_split_f64h(eq_most_f64h(eq_imm_f64h(-746), eq_least_f64h(eq_imm_f64h(710), x)), &n);
  return eq_scale_f64h(1 + eq_exp_less_1_f64h(r), n);
}
EQ_FN eq_f64h eq_exp2_f64h(eq_f64h x) {
  x = eq_most_f64h(eq_imm_f64h(-1076), eq_least_f64h(eq_imm_f64h(1025), x));
  eq_f64h n = eq_round_f64h(x);
  return eq_scale_f64h(1 + eq_exp_less_1_f64h((x - n) * 0.69314718055994531), n);
}

/* log(x) = e ln(2) + f - tail, x = 2^e (1 + f), 1 + f in (sqrt(1/2), sqrt(2)], for finite x > 0. */
EQ_FN eq_f64h eq_log_split_f64h(eq_f64h x, eq_f64h *e, eq_f64h *f) {
  eq_i64h small = x < 0x1p-1022;
  eq_u64h bits = (eq_u64h)EQ_WHERE64(small, x * 0x1p54, x);
  eq_f64h m = (eq_f64h)((bits & 0xfffffffffffff) | 0x3ff0000000000000);
  eq_i64h large = m > 1.4142135623730951;
  m = EQ_WHERE64(large, m * 0.5, m);
  eq_f64h biased = (eq_f64h)(bits >> 52 | 0x4330000000000000); /* 2^52 and the exponent */
  *e = biased - EQ_WHERE64(small, eq_imm_f64h(0x1p52 + 1023 + 54), eq_imm_f64h(0x1p52 + 1023)) +
       (eq_f64h)(large & (eq_i64h)eq_imm_f64h(1));
  *f = m - 1;
  eq_f64h s = *f / (2 + *f), z = s * s, half = *f * *f * 0.5;
  eq_f64h q = EQ_POLY64_6(z, z * z, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
                          1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01);
  return half - s * (half + z * eq_fma_f64h(q, z, eq_imm_f64h(6.666666666666735130e-01)));
}
EQ_FN eq_f64h eq_log_edges_f64h(eq_f64h x, eq_f64h inside) {
  eq_f64h infinity = eq_imm_f64h(INFINITY), nan = eq_imm_f64h(NAN);
  eq_f64h edge = EQ_WHERE64(x == 0, -infinity, EQ_WHERE64(x > 0, infinity, nan));
  return EQ_WHERE64((x > 0) & (x < infinity), inside, edge);
}
EQ_FN eq_f64h eq_log_f64h(eq_f64h x) {
  eq_f64h e, f, tail = eq_log_split_f64h(x, &e, &f);
  tail = eq_fma_f64h(e, eq_imm_f64h(-1.90821492927058770002e-10), tail);
  return eq_log_edges_f64h(x, eq_fma_f64h(e, eq_imm_f64h(6.93147180369123816490e-01), f - tail));
}
EQ_FN eq_f64h eq_log2_f64h(eq_f64h x) {
  eq_f64h e, f, tail = eq_log_split_f64h(x, &e, &f);
  return eq_log_edges_f64h(x, eq_fma_f64h(f - tail, eq_imm_f64h(1.4426950408889634), e));
}

EQ_FN eq_f64h eq_sigmoid_f64h(eq_f64h x) { /* e^-|x| cannot overflow, so tiny results keep their digits */
  eq_f64h e = eq_exp_f64h(EQ_WITH_SIGN64(x, eq_imm_f64h(-0.0)));
  return EQ_WHERE64(x < 0, e, eq_imm_f64h(1)) / (1 + e);
}
/* t / (t + 2), t = e^2|x| - 1. */
EQ_FN eq_f64h eq_tanh_f64h(eq_f64h x) {
  eq_f64h a = eq_least_f64h(eq_imm_f64h(20), eq_abs_f64h(x)), n, r = eq_exp_split_f64h(a + a, &n);
  eq_f64h power = eq_power_of_2_f64h(n), t = eq_fma_f64h(power, eq_exp_less_1_f64h(r), power - 1);
  return EQ_WITH_SIGN64(t / (t + 2), x);
}

/* sin(x + turn pi/2), |x| <= 10^6: x = j pi/2 + r, pi/2 in three parts, the first two of 33 bits. */
EQ_FN eq_f64h eq_sine_turned_f64h(eq_f64h x, double turn) {
  eq_f64h j = eq_round_f64h(x * 6.36619772367581382433e-01);
  eq_f64h r = ((x - j * 1.57079632673412561417) - j * 6.07710050630396597660e-11) - j * 2.02226624879595063154e-21;
  eq_f64h z = r * r;
  eq_f64h s = EQ_POLY64_6(z, z * z, -1.66666666666666324348e-01, 8.33333333332248946124e-03,
                          -1.98412698298579493134e-04, 2.75573137070700676789e-06,
                          -2.50507602534068634195e-08, 1.58969099521155010221e-10);
  eq_f64h c = EQ_POLY64_6(z, z * z, 4.16666666666666019037e-02, -1.38888888888741095749e-03,
                          2.48015872894767294178e-05, -2.75573143513906633035e-07,
                          2.08757232129817482790e-09, -1.13596475577881948265e-11);
  eq_i64h quadrant = (eq_i64h)(j + (0x1.8p52 + turn));
  eq_f64h sine = eq_fma_f64h(r * z, s, r), cosine = eq_fma_f64h(z * z, c, 1 - z * 0.5);
  eq_f64h v = EQ_WHERE64((quadrant & 1) != 0, cosine, sine);
  return (eq_f64h)((eq_i64h)v ^ (quadrant & 2) << 62);
}
EQ_FN eq_f64h eq_sin_f64h(eq_f64h x) { return EQ_WHERE64(x == 0, x, eq_sine_turned_f64h(x, 0)); }
EQ_FN eq_f64h eq_cos_f64h(eq_f64h x) { return eq_sine_turned_f64h(x, 1); }

EQ_LIFT1(f64, exp)
EQ_LIFT1(f64, exp2)
EQ_LIFT1(f64, log)
EQ_LIFT1(f64, log2)
EQ_LIFT1(f64, sigmoid)
EQ_LIFT1(f64, tanh)

#define EQ_SMALL_ANGLES64(x) (!eq_any(eq_cmpgt_f64(eq_abs_f64(x), eq_imm_f64(1e6)))) /* NaN is small */
EQ_LIBM1(f64, double, eq_sin_lanes_f64, sin)
EQ_LIBM1(f64, double, eq_cos_lanes_f64, cos)
EQ_FN eq_f64 eq_sin_f64(eq_f64 x) {
  if (__builtin_expect(!EQ_SMALL_ANGLES64(x), 0)) return eq_sin_lanes_f64(x);
  return (eq_f64){eq_sin_f64h(x.lo), eq_sin_f64h(x.hi)};
}
EQ_FN eq_f64 eq_cos_f64(eq_f64 x) {
  if (__builtin_expect(!EQ_SMALL_ANGLES64(x), 0)) return eq_cos_lanes_f64(x);
  return (eq_f64){eq_cos_f64h(x.lo), eq_cos_f64h(x.hi)};
}

/* (2^e (1 + f))^b for 1 + f in [sqrt(1/2), sqrt(2)), with the precision that f32 needs: log(1 + f) = s (2 + z q(z)),
   s = f / (2 + f), z = s^2; the last polynomial is that of e^r (2e-10). */
EQ_FN eq_f64h eq_pow_half(eq_f64h e, eq_f64h f, eq_f64h b) {
  eq_f64h s = f / (2 + f), z = s * s;
  eq_f64h q = EQ_POLY64_6(z, z * z, 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                          2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01);
  eq_f64h power = b * eq_fma_f64h(s * eq_fma_f64h(q, z, eq_imm_f64h(2)), eq_imm_f64h(1.4426950408889634), e);
  power = eq_most_f64h(eq_imm_f64h(-200), eq_least_f64h(eq_imm_f64h(200), power));
  eq_f64h n = eq_round_f64h(power), r = (power - n) * 0.69314718055994531;
  eq_f64h p = EQ_POLY64_6(r, r * r, 0.50000000134981781, 0.16666666681659179, 0.04166646460202654,
                          0.0083333108895820764, 0.0013933685862617174, 0.00019891030654370327);
  return (1 + eq_fma_f64h(r * r, p, r)) * eq_power_of_2_f64h(n);
}
/* a^b with C's results where a is 0, negative, infinite or 1, and where b is 0 or infinite. */
EQ_FN eq_f32 eq_pow_f32(eq_f32 a, eq_f32 b) {
  eq_f32 size = eq_abs_f32(a), half = b * 0.5f, infinity = eq_imm_f32(INFINITY), e, f = eq_log_split(size, &e);
  eq_f64 wide_e = eq_cast_f32_f64(e), wide_f = eq_cast_f32_f64(f), wide_b = eq_cast_f32_f64(b);
  eq_f32 power = eq_cast_f64_f32((eq_f64){eq_pow_half(wide_e.lo, wide_f.lo, wide_b.lo),
                                          eq_pow_half(wide_e.hi, wide_f.hi, wide_b.hi)});
  eq_mask zero = size == 0, infinite = size == infinity;
  power = eq_where_f32(zero | infinite, EQ_FLOAT(((b < 0) == zero) & EQ_BITS(infinity)), power);
  eq_mask whole = eq_floor_f32(b) == b, odd = whole & (eq_floor_f32(half) != half);
  power = EQ_FLOAT(EQ_BITS(power) | (odd & EQ_BITS(a) & EQ_SIGN_BIT));
  power = eq_where_f32((a != a) | (b != b) | ((a < 0) & ~infinite & ~whole), eq_imm_f32(NAN), power);
  eq_mask is_one = (a == 1) | (b == 0) | ((size == 1) & (eq_abs_f32(b) == infinity));
  return eq_where_f32(is_one, eq_imm_f32(1), power);
}

EQ_FAR1(f64, exp) EQ_FAR1(f64, exp2) EQ_FAR1(f64, log) EQ_FAR1(f64, log2) EQ_FAR1(f64, sin) EQ_FAR1(f64, cos)
EQ_FAR1(f64, tanh) EQ_FAR1(f64, sigmoid) EQ_FAR2(f32, pow)
