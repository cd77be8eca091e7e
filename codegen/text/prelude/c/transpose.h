/* eq_transpose_W(to, to_step, from, from_step): EQ_VL x EQ_VL elements of W bits, to[i][j] = from[j][i]. Steps between
   rows count elements. 32-bit elements: two steps transpose the 4 x 4 elements in blocks of 128 bits, the others
   transpose the blocks. */
EQ_FN void eq_transpose_64(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step) {
  for (int i = 0; i < EQ_VL; i++)
    for (int j = 0; j < EQ_VL; j++) ((eq_cell_64 *)to)[i * to_step + j] = ((const eq_cell_64 *)from)[j * from_step + i];
}
#define EQ_EACH EQ_UNROLL(16) for
#define EQ_LOW_1(l) (((l) & ~3) + (l) % 4 / 2 + (l) % 2 * EQ_VL) /* a0 b0 a1 b1 of every block */
#define EQ_HIGH_1(l) (EQ_LOW_1(l) + 2)
#define EQ_LOW_2(l) (((l) & ~3) + (l) % 2 + (l) % 4 / 2 * EQ_VL) /* a0 a1 b0 b1 of every block */
#define EQ_HIGH_2(l) (EQ_LOW_2(l) + 2)
#define EQ_EVEN(l) ((l) % 4 + 2 * ((l) & ~3) % EQ_VL + ((l) >= EQ_VL / 2 ? EQ_VL : 0)) /* the even blocks of a, of b */
#define EQ_ODD(l) (EQ_EVEN(l) + 4)
#define EQ_PAIR(to, to_2, a, b, FIRST, SECOND)                    \
  {                                                               \
    const eq_i32 a_ = a, b_ = b;                                  \
    to = EQ_SHUFFLE(eq_i32, a_, b_, EQ_LANES(FIRST));             \
    to_2 = EQ_SHUFFLE(eq_i32, a_, b_, EQ_LANES(SECOND));          \
  }
EQ_CALL void eq_transpose_32(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step) {
  eq_i32 row[EQ_VL];
  EQ_EACH (int i = 0; i < EQ_VL; i++) row[i] = eq_move_load_32((const eq_cell_32 *)from + i * from_step);
  EQ_EACH (int i = 0; i < EQ_VL; i += 2) EQ_PAIR(row[i], row[i + 1], row[i], row[i + 1], EQ_LOW_1, EQ_HIGH_1)
  EQ_EACH (int i = 0; i < EQ_VL; i += 4) {
    EQ_PAIR(row[i], row[i + 2], row[i], row[i + 2], EQ_LOW_2, EQ_HIGH_2)
    EQ_PAIR(row[i + 1], row[i + 3], row[i + 1], row[i + 3], EQ_LOW_2, EQ_HIGH_2)
    const eq_i32 second = row[i + 2]; /* columns 0, 2, 1, 3 of the blocks, in the order of rows from here on */
    row[i + 2] = row[i + 1], row[i + 1] = second;
  }
#if EQ_VL > 4
  EQ_EACH (int i = 0; i < EQ_VL; i += 8)
    EQ_EACH (int q = i; q < i + 4; q++) EQ_PAIR(row[q], row[q + 4], row[q], row[q + 4], EQ_EVEN, EQ_ODD)
#endif
#if EQ_VL > 8
  EQ_EACH (int q = 0; q < 8; q++) EQ_PAIR(row[q], row[q + 8], row[q], row[q + 8], EQ_EVEN, EQ_ODD)
#endif
  EQ_EACH (int i = 0; i < EQ_VL; i++) eq_move_store_32((eq_cell_32 *)to + i * to_step, row[i]);
}
