/* The matrix registers of AMX (`ir.kernel.cpu.matrix`), by their numbers. No compiler uses them by itself, so that they
   keep their contents between statements.

     eq_matrix_setup(n, rows)  shapes: registers below n have `rows` rows, the others 16; every row has 64 bytes
     eq_matrix_end()           a thread that is done with them: the system need not save them any more
     EQ_MATRIX_MULTIPLY(D_E, sums, rows, columns)  for rows of type D and columns of type E */
#ifdef __AMX_TILE__
#include <sys/syscall.h>
#include <unistd.h>

/* Linux lets a process use the registers once it asks: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). */
__attribute__((constructor)) static void eq_matrix_request(void) { syscall(SYS_arch_prctl, 0x1023, 18); }

EQ_CALL void eq_matrix_setup(int n, int rows) {
  struct { uint8_t palette, start, unused[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } shape = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    shape.row_bytes[i] = 64;
    shape.rows[i] = i < n ? rows : 16;
  }
  __asm__ volatile("ldtilecfg %0" : : "m"(shape));
}
EQ_FN void eq_matrix_end(void) { __asm__ volatile("tilerelease"); }

#define EQ_MATRIX_ZERO(r) __asm__ volatile("tilezero %%tmm" #r : :)
#define EQ_MATRIX_LOAD(r, at, step) \
  __asm__ volatile("tileloadd (%0,%1), %%tmm" #r : : "r"(at), "r"((int64_t)(step)) : "memory")
#define EQ_MATRIX_STORE(r, at, step) \
  __asm__ volatile("tilestored %%tmm" #r ", (%0,%1)" : : "r"(at), "r"((int64_t)(step)) : "memory")
#define EQ_MATRIX_MULTIPLY(types, s, r, c) __asm__ volatile(EQ_MATRIX_##types " %%tmm" #c ", %%tmm" #r ", %%tmm" #s : :)
#define EQ_MATRIX_bf16_bf16 "tdpbf16ps"
#define EQ_MATRIX_i8_i8 "tdpbssd"
#define EQ_MATRIX_i8_u8 "tdpbsud"
#define EQ_MATRIX_u8_i8 "tdpbusd"
#define EQ_MATRIX_u8_u8 "tdpbuud"
#endif
