/* Horizontal reductions of one register to a scalar: eq_hsum_T eq_hprod_T eq_hmax_T eq_hmin_T.

   The tree is fixed (upper half onto lower half), so that a sum has the same bits every time; max and min
   propagate NaN. eq_hmax_bool is "any", eq_hmin_bool is "all". */

#define EQ_TURN_8(i) ((i) + 8) % EQ_VL /* lane i takes lane i + 8 */
#define EQ_TURN_4(i) ((i) + 4) % EQ_VL
#define EQ_TURN_2(i) ((i) + 2) % EQ_VL
#define EQ_TURN_1(i) ((i) + 1) % EQ_VL

#define EQ_FOLD(T, I, op, v, turn) v = eq_##op##_##T(v, EQ_SHUFFLE(eq_##I, v, v, EQ_LANES(turn)))
#define EQ_TREE(T, C, I, name, op)                      \
  EQ_FN C eq_##name##_##T(eq_##T v) {                   \
    if (EQ_VL > 8) EQ_FOLD(T, I, op, v, EQ_TURN_8);     \
    if (EQ_VL > 4) EQ_FOLD(T, I, op, v, EQ_TURN_4);     \
    EQ_FOLD(T, I, op, v, EQ_TURN_2);                    \
    EQ_FOLD(T, I, op, v, EQ_TURN_1);                    \
    return v[0];                                        \
  }
/* 64-bit types: lower onto upper register, then the same within a half. */
#define EQ_FOLD_HALF(T, op, v, turn) v = eq_##op##_##T##h(v, EQ_SHUFFLE(eq_i64h, v, v, EQ_HALF_LANES(turn)))
#define EQ_TREE_WIDE(T, C, name, op)                            \
  EQ_FN C eq_##name##_##T(eq_##T a) {                           \
    eq_##T##h v = eq_##op##_##T##h(a.lo, a.hi);                 \
    if (EQ_VL > 8) EQ_FOLD_HALF(T, op, v, EQ_HALF_TURN_4);      \
    if (EQ_VL > 4) EQ_FOLD_HALF(T, op, v, EQ_HALF_TURN_2);      \
    EQ_FOLD_HALF(T, op, v, EQ_HALF_TURN_1);                     \
    return v[0];                                                \
  }
#define EQ_HALF_TURN_4(i) ((i) + 4) % (EQ_VL / 2)
#define EQ_HALF_TURN_2(i) ((i) + 2) % (EQ_VL / 2)
#define EQ_HALF_TURN_1(i) ((i) + 1) % (EQ_VL / 2)

#define EQ_TREES(T, C, I)            \
  EQ_TREE(T, C, I, hsum, add)        \
  EQ_TREE(T, C, I, hprod, mul)       \
  EQ_TREE(T, C, I, hmax, max)        \
  EQ_TREE(T, C, I, hmin, min)
#define EQ_TREES_WIDE(T, C)          \
  EQ_TREE_WIDE(T, C, hsum, add)      \
  EQ_TREE_WIDE(T, C, hprod, mul)     \
  EQ_TREE_WIDE(T, C, hmax, max)      \
  EQ_TREE_WIDE(T, C, hmin, min)
EQ_TREES(f32, float, i32)
EQ_TREES(i8, int8_t, i8)
EQ_TREES(u8, uint8_t, u8)
EQ_TREES(i16, int16_t, i16)
EQ_TREES(u16, uint16_t, u16)
EQ_TREES(i32, int32_t, i32)
EQ_TREES(u32, uint32_t, u32)
EQ_TREES_WIDE(f64, double)
EQ_TREES_WIDE(i64, int64_t)
EQ_TREES_WIDE(u64, uint64_t)
EQ_FN int eq_hmax_bool(eq_mask m) { return eq_hmin_i32(m) != 0; }
EQ_FN int eq_hmin_bool(eq_mask m) { return eq_hmax_i32(m) != 0; }
