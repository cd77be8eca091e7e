/* Loads and stores: the engine checks the access and gives the address of its bytes on the host. */

static inline float eq_cell_value(eq_f16 cell) { return eq_of_half(cell.bits); }
static inline float eq_cell_value(eq_bf16 cell) { return eq_of_bf16(cell.bits); }
template <class Cell>
static inline Cell eq_cell_value(Cell cell) { return cell; }

static inline void eq_fill_cell(eq_f16 *cell, float x) { cell->bits = (unsigned short)eq_half_of(x); }
static inline void eq_fill_cell(eq_bf16 *cell, float x) { cell->bits = (unsigned short)eq_bf16_of(x); }
template <class Cell, class Register>
static inline void eq_fill_cell(Cell *cell, Register x) { *cell = (Cell)x; }

template <int count, class Register, class Cell>
static inline void eq_load_cells(Register *to, const Cell *place) {
  Cell cells[count];
  __builtin_memcpy(cells, place, sizeof cells);
  for (int i = 0; i < count; i++) to[i] = (Register)eq_cell_value(cells[i]);
}

template <int count, class Register, class Cell>
static inline void eq_store_cells(Cell *place, const Register *from) {
  Cell cells[count];
  for (int i = 0; i < count; i++) eq_fill_cell(&cells[i], from[i]);
  __builtin_memcpy(place, cells, sizeof cells);
}

#define EQ_ELEMENT(T, R)                                                                              \
  static inline R eq_ld_global_##T(const eq_##T *from, EQ_HERE) {                                     \
    R x;                                                                                              \
    eq_load_cells<1>(&x, (const eq_##T *)eq_simt->global(from, sizeof(eq_##T), 0, line));             \
    return x;                                                                                         \
  }                                                                                                   \
  static inline R eq_ld_global_##T##_if(bool wanted, const eq_##T *from, EQ_HERE) {                   \
    return wanted ? eq_ld_global_##T(from, line) : (R)0;                                              \
  }                                                                                                   \
  static inline void eq_st_global_##T(eq_##T *to, R x, EQ_HERE) {                                     \
    eq_store_cells<1>((eq_##T *)eq_simt->global(to, sizeof(eq_##T), 1, line), &x);                    \
  }                                                                                                   \
  static inline void eq_st_global_##T##_if(bool wanted, eq_##T *to, R x, EQ_HERE) {                   \
    if (wanted) eq_st_global_##T(to, x, line);                                                        \
  }                                                                                                   \
  static inline R eq_ld_shared_##T(unsigned offset, EQ_HERE) {                                        \
    R x;                                                                                              \
    eq_load_cells<1>(&x, (const eq_##T *)eq_simt->shared(offset, sizeof(eq_##T), 0, line));           \
    return x;                                                                                         \
  }                                                                                                   \
  static inline void eq_st_shared_##T(unsigned offset, R x, EQ_HERE) {                                \
    eq_store_cells<1>((eq_##T *)eq_simt->shared(offset, sizeof(eq_##T), 1, line), &x);                \
  }

/* `what` names the function, `n` cells of type C lie side by side; P is how a pointer to them is written. */
#define EQ_SEVERAL(what, C, P, R, n)                                                                  \
  EQ_INLINE void eq_ld_global_##what(R *to, const P *from, EQ_HERE) {                                 \
    EQ_REGISTERS(to, n);                                                                              \
    eq_load_cells<n>(to, (const C *)eq_simt->global(from, n * sizeof(C), 0, line));                   \
  }                                                                                                   \
  EQ_INLINE void eq_ld_global_##what##_if(bool wanted, R *to, const P *from, EQ_HERE) {               \
    EQ_REGISTERS(to, n);                                                                              \
    if (wanted) eq_ld_global_##what(to, from, line);                                                  \
    else for (int i = 0; i < n; i++) to[i] = 0;                                                       \
  }                                                                                                   \
  EQ_INLINE void eq_st_global_##what(P *to, const R *from, EQ_HERE) {                                 \
    EQ_REGISTERS(from, n);                                                                            \
    eq_store_cells<n>((C *)eq_simt->global(to, n * sizeof(C), 1, line), from);                        \
  }                                                                                                   \
  EQ_INLINE void eq_st_global_##what##_if(bool wanted, P *to, const R *from, EQ_HERE) {               \
    if (wanted) eq_st_global_##what(to, from, line);                                                  \
  }                                                                                                   \
  EQ_INLINE void eq_ld_shared_##what(R *to, unsigned offset, EQ_HERE) {                               \
    EQ_REGISTERS(to, n);                                                                              \
    eq_load_cells<n>(to, (const C *)eq_simt->shared(offset, n * sizeof(C), 0, line));                 \
  }                                                                                                   \
  EQ_INLINE void eq_st_shared_##what(unsigned offset, const R *from, EQ_HERE) {                       \
    EQ_REGISTERS(from, n);                                                                            \
    eq_store_cells<n>((C *)eq_simt->shared(offset, n * sizeof(C), 1, line), from);                    \
  }

#define EQ_NEIGHBOURS(T, R, n) EQ_SEVERAL(T##x##n, eq_##T, eq_##T, R, n)
#define EQ_BYTE_CELLS(T, R) EQ_ELEMENT(T, R) EQ_NEIGHBOURS(T, R, 4) EQ_NEIGHBOURS(T, R, 8) EQ_NEIGHBOURS(T, R, 16)
#define EQ_HALF_CELLS(T, R) EQ_ELEMENT(T, R) EQ_NEIGHBOURS(T, R, 2) EQ_NEIGHBOURS(T, R, 4) EQ_NEIGHBOURS(T, R, 8)
#define EQ_WORD_CELLS(T, R) EQ_ELEMENT(T, R) EQ_NEIGHBOURS(T, R, 2) EQ_NEIGHBOURS(T, R, 4)
#define EQ_LONG_CELLS(T, R) EQ_ELEMENT(T, R) EQ_NEIGHBOURS(T, R, 2)

EQ_BYTE_CELLS(i8, signed char)
EQ_BYTE_CELLS(u8, unsigned char)
EQ_BYTE_CELLS(bool, bool)
EQ_HALF_CELLS(f16, float)
EQ_HALF_CELLS(bf16, float)
EQ_HALF_CELLS(i16, short)
EQ_HALF_CELLS(u16, unsigned short)
EQ_WORD_CELLS(f32, float)
EQ_WORD_CELLS(i32, int)
EQ_WORD_CELLS(u32, unsigned)
EQ_LONG_CELLS(f64, double)
EQ_LONG_CELLS(i64, long long)
EQ_LONG_CELLS(u64, unsigned long long)
EQ_SEVERAL(4, unsigned, void, unsigned, 1)
EQ_SEVERAL(8, unsigned, void, unsigned, 2)
EQ_SEVERAL(16, unsigned, void, unsigned, 4)
