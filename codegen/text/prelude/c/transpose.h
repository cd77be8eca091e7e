/* eq_transpose_W(to, to_step, from, from_step): EQ_VL x EQ_VL elements of W bits, to[i][j] = from[j][i]. Steps between
   rows count elements. 32-bit elements are transposed by a butterfly: stage d swaps the off-diagonal d x d blocks. */
EQ_FN void eq_transpose_64(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step) {
  for (int i = 0; i < EQ_VL; i++)
    for (int j = 0; j < EQ_VL; j++) ((eq_cell_64 *)to)[i * to_step + j] = ((const eq_cell_64 *)from)[j * from_step + i];
}
#define EQ_UPPER_1(l) ((l) & 1 ? EQ_VL + (l) - 1 : (l))
#define EQ_LOWER_1(l) ((l) & 1 ? EQ_VL + (l) : (l) + 1)
#define EQ_UPPER_2(l) ((l) & 2 ? EQ_VL + (l) - 2 : (l))
#define EQ_LOWER_2(l) ((l) & 2 ? EQ_VL + (l) : (l) + 2)
#define EQ_UPPER_4(l) ((l) & 4 ? EQ_VL + (l) - 4 : (l))
#define EQ_LOWER_4(l) ((l) & 4 ? EQ_VL + (l) : (l) + 4)
#define EQ_UPPER_8(l) ((l) & 8 ? EQ_VL + (l) - 8 : (l))
#define EQ_LOWER_8(l) ((l) & 8 ? EQ_VL + (l) : (l) + 8)
#define EQ_SWAP_BLOCKS(row, d)                                              \
  for (int i = 0; i < EQ_VL; i++)                                           \
    if (!(i & d)) {                                                         \
      eq_i32 a = row[i], b = row[i + d];                                    \
      row[i] = EQ_SHUFFLE(eq_i32, a, b, EQ_LANES(EQ_UPPER_##d));            \
      row[i + d] = EQ_SHUFFLE(eq_i32, a, b, EQ_LANES(EQ_LOWER_##d));        \
    }
EQ_CALL void eq_transpose_32(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step) {
  eq_i32 row[EQ_VL];
  for (int i = 0; i < EQ_VL; i++) row[i] = eq_move_load_32((const eq_cell_32 *)from + i * from_step);
  EQ_SWAP_BLOCKS(row, 1)
  EQ_SWAP_BLOCKS(row, 2)
#if EQ_VL > 4
  EQ_SWAP_BLOCKS(row, 4)
#endif
#if EQ_VL > 8
  EQ_SWAP_BLOCKS(row, 8)
#endif
  for (int i = 0; i < EQ_VL; i++) eq_move_store_32((eq_cell_32 *)to + i * to_step, row[i]);
}
