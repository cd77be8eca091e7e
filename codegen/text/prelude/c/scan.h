/* Running results along lanes.

     eq_runOP_T(carry, v)   lane i is carry OP v[0] OP … OP v[i], one after another
     eq_prefixOP_T(v)       lane i is v[0] OP … OP v[i], grouped by doubling: log2(EQ_VL) steps; 32 and 64 bits only
     eq_last_T(v)           the last lane, in all lanes

   OP is add, mul or max; of bool max ("any") and min ("all"). */

#define EQ_RUN_ADD(a, b) ((a) + (b))
#define EQ_RUN_MUL(a, b) ((a) * (b))
#define EQ_RUN_MAX(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#define EQ_RUN_OR(a, b) ((a) | (b))
#define EQ_RUN_AND(a, b) ((a) & (b))
#define EQ_RUN(T, C, op, f)                                                         \
  EQ_FN eq_##T eq_run##op##_##T(eq_##T carry, eq_##T v) {                           \
    C lane[EQ_VL], now[EQ_VL];                                                      \
    memcpy(lane, &v, sizeof lane), memcpy(now, &carry, sizeof now);                 \
    for (int i = 0; i < EQ_VL; i++) lane[i] = now[0] = (C)f(now[0], lane[i]);       \
    memcpy(&v, lane, sizeof lane);                                                  \
    return v;                                                                       \
  }
#define EQ_RUNS(T, C) EQ_RUN(T, C, add, EQ_RUN_ADD) EQ_RUN(T, C, mul, EQ_RUN_MUL) EQ_RUN(T, C, max, EQ_RUN_MAX)
EQ_RUNS(f32, float)
EQ_RUNS(f64, double)
EQ_RUNS(i8, int8_t)
EQ_RUNS(u8, uint8_t)
EQ_RUNS(i16, int16_t)
EQ_RUNS(u16, uint16_t)
EQ_RUNS(i32, int32_t)
EQ_RUNS(u32, uint32_t)
EQ_RUNS(i64, int64_t)
EQ_RUNS(u64, uint64_t)
EQ_RUN(bool, int32_t, max, EQ_RUN_OR)
EQ_RUN(bool, int32_t, min, EQ_RUN_AND)

#define EQ_LANE_LAST(i) (EQ_VL - 1)
#define EQ_LAST(T, I) \
  EQ_FN eq_##T eq_last_##T(eq_##T v) { return EQ_SHUFFLE(I, v, v, EQ_LANES(EQ_LANE_LAST)); }
EQ_LAST(f32, eq_i32)
EQ_LAST(i8, eq_i8)
EQ_LAST(u8, eq_i8)
EQ_LAST(i16, eq_i16)
EQ_LAST(u16, eq_i16)
EQ_LAST(i32, eq_i32)
EQ_LAST(u32, eq_i32)
EQ_FN eq_mask eq_last_bool(eq_mask v) { return eq_last_i32(v); }
#define EQ_HALF_LAST(i) (EQ_VL / 2 - 1)
#define EQ_LAST_WIDE(T)                                                             \
  EQ_FN eq_##T##h eq_last_##T##h(eq_##T##h v) {                                     \
    return EQ_SHUFFLE(eq_i64h, v, v, EQ_HALF_LANES(EQ_HALF_LAST));                  \
  }                                                                                 \
  EQ_FN eq_##T eq_last_##T(eq_##T v) { return (eq_##T){eq_last_##T##h(v.hi), eq_last_##T##h(v.hi)}; }
EQ_LAST_WIDE(f64)
EQ_LAST_WIDE(i64)
EQ_LAST_WIDE(u64)

/* Lane i takes lane i - d; the first d lanes take the neutral element. */
#define EQ_UP_1(i) (i) < 1 ? EQ_VL + (i) : (i) - 1
#define EQ_UP_2(i) (i) < 2 ? EQ_VL + (i) : (i) - 2
#define EQ_UP_4(i) (i) < 4 ? EQ_VL + (i) : (i) - 4
#define EQ_UP_8(i) (i) < 8 ? EQ_VL + (i) : (i) - 8
#define EQ_DOUBLE(T, I, op, up) v = eq_##op##_##T(EQ_SHUFFLE(I, v, none, EQ_LANES(up)), v)
#define EQ_PREFIX(T, op, neutral)                                                   \
  EQ_FN eq_##T eq_prefix##op##_##T(eq_##T v) {                                      \
    const eq_##T none = eq_imm_##T(neutral);                                        \
    EQ_DOUBLE(T, eq_i32, op, EQ_UP_1);                                              \
    EQ_DOUBLE(T, eq_i32, op, EQ_UP_2);                                              \
    if (EQ_VL > 4) EQ_DOUBLE(T, eq_i32, op, EQ_UP_4);                               \
    if (EQ_VL > 8) EQ_DOUBLE(T, eq_i32, op, EQ_UP_8);                               \
    return v;                                                                       \
  }
#define EQ_HALF_UP_1(i) (i) < 1 ? EQ_VL / 2 + (i) : (i) - 1
#define EQ_HALF_UP_2(i) (i) < 2 ? EQ_VL / 2 + (i) : (i) - 2
#define EQ_HALF_UP_4(i) (i) < 4 ? EQ_VL / 2 + (i) : (i) - 4
#define EQ_DOUBLE_HALF(T, op, up) v = eq_##op##_##T##h(EQ_SHUFFLE(eq_i64h, v, none, EQ_HALF_LANES(up)), v)
#define EQ_PREFIX_WIDE(T, op, neutral)                                              \
  EQ_FN eq_##T##h eq_prefix##op##_##T##h(eq_##T##h v) {                             \
    const eq_##T##h none = eq_imm_##T(neutral).lo;                                  \
    EQ_DOUBLE_HALF(T, op, EQ_HALF_UP_1);                                            \
    if (EQ_VL > 4) EQ_DOUBLE_HALF(T, op, EQ_HALF_UP_2);                             \
    if (EQ_VL > 8) EQ_DOUBLE_HALF(T, op, EQ_HALF_UP_4);                             \
    return v;                                                                       \
  }                                                                                 \
  EQ_FN eq_##T eq_prefix##op##_##T(eq_##T v) {                                      \
    eq_##T##h lo = eq_prefix##op##_##T##h(v.lo), hi = eq_prefix##op##_##T##h(v.hi); \
    return (eq_##T){lo, eq_##op##_##T##h(eq_last_##T##h(lo), hi)};                  \
  }
EQ_PREFIX(f32, add, -0.0f)
EQ_PREFIX(f32, mul, 1.0f)
EQ_PREFIX(f32, max, -INFINITY)
EQ_PREFIX(i32, add, 0)
EQ_PREFIX(i32, mul, 1)
EQ_PREFIX(i32, max, INT32_MIN)
EQ_PREFIX(u32, add, 0)
EQ_PREFIX(u32, mul, 1)
EQ_PREFIX(u32, max, 0)
EQ_PREFIX_WIDE(f64, add, -0.0)
EQ_PREFIX_WIDE(f64, mul, 1.0)
EQ_PREFIX_WIDE(f64, max, -INFINITY)
EQ_PREFIX_WIDE(i64, add, 0)
EQ_PREFIX_WIDE(i64, mul, 1)
EQ_PREFIX_WIDE(i64, max, INT64_MIN)
EQ_PREFIX_WIDE(u64, add, 0)
EQ_PREFIX_WIDE(u64, mul, 1)
EQ_PREFIX_WIDE(u64, max, 0)
