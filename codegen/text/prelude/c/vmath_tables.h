/* exp, exp2, log, log2, tanh and erf of f32 on AVX-512: short polynomials, whose coefficients depend on the interval of
   the argument. One instruction picks the coefficients of all lanes out of a table in a register, so that these
   functions take a third to two thirds of the time of those of vmath.h. A sweep over the arguments found relative
   errors below 2e-7. NaN, infinities, zeros and denormals are right. */
#if EQ_TABLES

/* The coefficient of each lane: `place` holds the number of the interval in its lowest four bits. */
EQ_FN eq_f32 eq_of_interval(eq_f32 place, eq_f32 table) {
  eq_f32 r;
  __asm__("vpermps %1, %2, %0" : "=v"(r) : EQ_SOURCE(table), "v"(place));
  return r;
}

/* A float of this size, added to x, leaves the nearest whole number of 1, 1/4 or 1/16 in the lowest bits of the sum. */
#define EQ_IN_WHOLES 12582912.0f
#define EQ_IN_QUARTERS (EQ_IN_WHOLES / 4)
#define EQ_IN_SIXTEENTHS (EQ_IN_WHOLES / 16)

EQ_ASM2(f32, scale, "vscalefps")           /* a 2^floor(b) */
EQ_ASM2(f32, nearer_to_0, "vrangeps $2,")  /* a, but b with the sign of a where |b| < |a| or a is NaN */
EQ_ASM1(f32, whole_log2, "vgetexpps")      /* floor(log2 |a|) */
EQ_ASM1(f32, mantissa, "vgetmantps $11,")  /* a 2^n in [3/4, 3/2); NaN where a < 0 */

/* 2^n e^r, |r| <= ln(2)/32, n a multiple of 1/16: e^r - 1 = r + r^2 q(r), 1.6e-9 of e^r. Where the argument is so large
   that r is not precise, n alone decides. */
EQ_FN eq_f32 eq_exp_core(eq_f32 place, eq_f32 n, eq_f32 r) {
  r = eq_nearer_to_0_f32(r, eq_imm_f32(0.0225f));
  eq_f32 power = eq_of_interval(place, EQ_POWERS);
  eq_f32 q = eq_fma_f32(r, eq_imm_f32(1.666666716e-01f), eq_imm_f32(5.000161901e-01f));
  return eq_scale_f32(eq_fma_f32(power, eq_fma_f32(q, r * r, r), power), n);
}
EQ_FN eq_f32 eq_exp_f32(eq_f32 x) {
  eq_f32 place = eq_fma_f32(x, eq_imm_f32(1.442695041f), eq_imm_f32(EQ_IN_SIXTEENTHS)), n = place - EQ_IN_SIXTEENTHS;
  eq_f32 r = eq_fma_f32(n, eq_imm_f32(-0.693359375f), x);
  return eq_exp_core(place, n, eq_fma_f32(n, eq_imm_f32(2.12194440e-4f), r));
}
EQ_FN eq_f32 eq_exp2_f32(eq_f32 x) {
  eq_f32 place = x + EQ_IN_SIXTEENTHS, n = place - EQ_IN_SIXTEENTHS;
  return eq_exp_core(place, n, (x - n) * 0.6931471806f);
}

/* x = 2^e m, m in [3/4, 3/2), and m i = 1 + r for a number i near 1/m: gives e and log(1 + r) = r + r^2 q(r), where
   -1/32 <= r < 1/16 (7e-9). The upper four bits of the mantissa name the interval. */
EQ_FN eq_f32 eq_log_by_table(eq_f32 x, eq_f32 *e, eq_f32 *place) {
  eq_f32 m = eq_mantissa_f32(x);
  *place = EQ_FLOAT(EQ_BITS(m) >> 19);
  *e = eq_whole_log2_f32(x) - eq_whole_log2_f32(m);
  eq_f32 r = eq_fma_f32(m, eq_of_interval(*place, EQ_INVERSES), eq_imm_f32(-1));
  eq_f32 q = eq_fma_f32(r, eq_imm_f32(1.902125627e-01f), eq_imm_f32(-2.501231432e-01f));
  q = eq_fma_f32(r, eq_fma_f32(r, q, eq_imm_f32(3.333417773e-01f)), eq_imm_f32(-0.5f));
  return eq_fma_f32(r * r, q, r);
}
EQ_FN eq_f32 eq_log_f32(eq_f32 x) {
  eq_f32 e, place, y = eq_log_by_table(x, &e, &place);
  return eq_fma_f32(e, eq_imm_f32(0.6931471806f), eq_of_interval(place, EQ_LOGS)) + y;
}
EQ_FN eq_f32 eq_log2_f32(eq_f32 x) {
  eq_f32 e, place, y = eq_log_by_table(x, &e, &place);
  return eq_fma_f32(y, eq_imm_f32(1.442695041f), e + eq_of_interval(place, EQ_LOGS2));
}

/* c0 + c1 d + c2 d^2 + ..., where the table EQ_<fn>_k holds ck. */
#define EQ_STEP(fn, k, p) eq_fma_f32(p, d, eq_of_interval(place, EQ_##fn##_##k))
#define EQ_STEPS5(fn, p) EQ_STEP(fn, 0, EQ_STEP(fn, 1, EQ_STEP(fn, 2, EQ_STEP(fn, 3, EQ_STEP(fn, 4, p)))))

/* |x| = 1/4 i + d up to 3.87; from there on the result is 1. */
EQ_FN eq_f32 eq_erf_f32(eq_f32 x) {
  eq_f32 a = eq_least_f32(eq_imm_f32(3.87f), eq_abs_f32(x)), place = a + EQ_IN_QUARTERS;
  eq_f32 d = a - (place - EQ_IN_QUARTERS), y = EQ_STEPS5(ERF, eq_of_interval(place, EQ_ERF_5));
  return EQ_FLOAT(EQ_BITS(y) | (EQ_BITS(x) & EQ_SIGN_BIT));
}
/* |x| = 0.58 i + d up to 8.98; from there on the result is 1. */
EQ_FN eq_f32 eq_tanh_f32(eq_f32 x) {
  eq_f32 a = eq_least_f32(eq_imm_f32(8.98f), eq_abs_f32(x));
  eq_f32 place = eq_fma_f32(a, eq_imm_f32(1 / 0.58f), eq_imm_f32(EQ_IN_WHOLES));
  eq_f32 d = eq_fma_f32(place - EQ_IN_WHOLES, eq_imm_f32(-0.58f), a);
  eq_f32 y = EQ_STEPS5(TANH, EQ_STEP(TANH, 5, EQ_STEP(TANH, 6, eq_of_interval(place, EQ_TANH_7))));
  return EQ_FLOAT(EQ_BITS(y) | (EQ_BITS(x) & EQ_SIGN_BIT));
}
#endif
