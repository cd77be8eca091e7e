/* Lanes, register types, and the shuffles on which the other headers of this folder stand.

   One vector model for every element type: a register holds EQ_VL lanes, whatever their width, so that a
   loop over an array advances by EQ_VL elements with any mixture of types. A 32-bit type fills one machine
   vector, a narrower one part of it, a 64-bit one two (`lo` holds lanes 0 .. EQ_VL/2-1).

     eq_f32 (also carries fp16, bf16)  eq_f64  eq_i8  eq_i16  eq_i32  eq_i64  eq_u8  eq_u16  eq_u32  eq_u64
     eq_mask = eq_bool

   A mask lane is 0 or -1. No system header of intrinsics: their parsing alone costs 100 ms. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef EQ_VL
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define EQ_VL 16
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define EQ_VL 8
#else
#define EQ_VL 4
#endif
#endif

/* EQ_X86: the width of a machine vector in bits if these headers name instructions of x86, 0 if they do not. */
#if EQ_VL == 16 && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define EQ_X86 512
#elif EQ_VL == 8 && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define EQ_X86 256
#else
#define EQ_X86 0
#endif

/* EQ_FLUSH stands above: whether functions may return 0 in place of denormals, and other last bits than with other
   instruction sets. */

#define EQ_FN static inline __attribute__((always_inline, unused))
#define EQ_CALL static __attribute__((noinline, unused))
#define EQ_VECTOR(T, lanes) T __attribute__((vector_size(sizeof(T) * (lanes))))

typedef EQ_VECTOR(float, EQ_VL) eq_f32;
typedef EQ_VECTOR(int8_t, EQ_VL) eq_i8;
typedef EQ_VECTOR(uint8_t, EQ_VL) eq_u8;
typedef EQ_VECTOR(int16_t, EQ_VL) eq_i16;
typedef EQ_VECTOR(uint16_t, EQ_VL) eq_u16;
typedef EQ_VECTOR(int32_t, EQ_VL) eq_i32;
typedef EQ_VECTOR(uint32_t, EQ_VL) eq_u32;
typedef eq_i32 eq_mask;
typedef eq_mask eq_bool;

/* Half registers: EQ_VL/2 lanes. */
typedef EQ_VECTOR(float, EQ_VL / 2) __attribute__((may_alias)) eq_f32h;
typedef EQ_VECTOR(int32_t, EQ_VL / 2) __attribute__((may_alias)) eq_i32h;
typedef EQ_VECTOR(double, EQ_VL / 2) eq_f64h;
typedef EQ_VECTOR(int64_t, EQ_VL / 2) eq_i64h;
typedef EQ_VECTOR(uint32_t, EQ_VL / 2) eq_u32h;
typedef EQ_VECTOR(uint64_t, EQ_VL / 2) eq_u64h;

typedef struct { eq_f64h lo, hi; } eq_f64;
typedef struct { eq_i64h lo, hi; } eq_i64;
typedef struct { eq_u64h lo, hi; } eq_u64;

#define EQ_BITS(v) ((eq_i32)(v)) /* the lanes of a 32-bit type as integers, and back */
#define EQ_FLOAT(v) ((eq_f32)(v))
#define EQ_SIGN_BIT ((int32_t)0x80000000)
#define EQ_TO(T, v) __builtin_convertvector(v, T)

#if EQ_VL == 16
#define EQ_LANES(F) F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7), F(8), F(9), F(10), F(11), F(12), F(13), F(14), F(15)
#define EQ_HALF_LANES(F) F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7)
#elif EQ_VL == 8
#define EQ_LANES(F) F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7)
#define EQ_HALF_LANES(F) F(0), F(1), F(2), F(3)
#elif EQ_VL == 4
#define EQ_LANES(F) F(0), F(1), F(2), F(3)
#define EQ_HALF_LANES(F) F(0), F(1)
#else
#error "EQ_VL is 4, 8 or 16"
#endif
#define EQ_LANE_ID(i) i
#define EQ_LANE_TWICE(i) 2 * i

/* EQ_UNROLL(n) before a loop: the compiler puts n turns behind one another. */
#define EQ_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define EQ_UNROLL(n) EQ_PRAGMA(unroll n)
#else
#define EQ_UNROLL(n) EQ_PRAGMA(GCC unroll n)
#endif

/* The operand of a named instruction: a register or memory. Clang always chooses memory if the constraint allows it. */
#if defined(__clang__)
#define EQ_SOURCE "v"
#else
#define EQ_SOURCE "vm"
#endif

/* Selects lanes of both operands by constant indices in 0 .. 2*lanes-1. */
#if defined(__clang__)
#define EQ_SHUFFLE(I, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define EQ_SHUFFLE(I, a, b, ...) __builtin_shuffle(a, b, (I){__VA_ARGS__})
#endif

EQ_FN eq_i32 eq_lane_ids(void) { return (eq_i32){EQ_LANES(EQ_LANE_ID)}; }

/* Conversions to wider lanes, each one instruction. gcc 12 takes them apart into halves or single lanes. */
#if EQ_X86 && !defined(__clang__)
#define EQ_WIDEN(name, A, B, insn)                    \
  EQ_FN B name(A v) {                                 \
    B r;                                              \
    __asm__(insn " %1, %0" : "=v"(r) : EQ_SOURCE(v)); \
    return r;                                         \
  }
#else
#define EQ_WIDEN(name, A, B, insn) \
  EQ_FN B name(A v) { return EQ_TO(B, v); }
#endif
EQ_WIDEN(eq_wide_i8, eq_i8, eq_i32, "vpmovsxbd")
EQ_WIDEN(eq_wide_u8, eq_u8, eq_i32, "vpmovzxbd")
EQ_WIDEN(eq_wide_i16, eq_i16, eq_i32, "vpmovsxwd")
EQ_WIDEN(eq_wide_u16, eq_u16, eq_i32, "vpmovzxwd")
EQ_WIDEN(eq_wide_i32h, eq_i32h, eq_i64h, "vpmovsxdq")
EQ_WIDEN(eq_wide_u32h, eq_u32h, eq_u64h, "vpmovzxdq")
EQ_WIDEN(eq_wide_f32h, eq_f32h, eq_f64h, "vcvtps2pd")
EQ_WIDEN(eq_f64h_of_i32h, eq_i32h, eq_f64h, "vcvtdq2pd")

/* The low bytes, and the low halves, of 32 bits. */
EQ_FN eq_i8 eq_low_bytes(eq_i32 v) {
#if EQ_X86 == 512 && !defined(__clang__)
  eq_i8 r;
  __asm__("vpmovdb %1, %0" : "=v"(r) : "v"(v));
  return r;
#elif EQ_X86 == 256 && !defined(__clang__)
  typedef EQ_VECTOR(uint8_t, 4 * EQ_VL) eq_bytes;
  eq_bytes first = __builtin_shuffle((eq_bytes)v, (eq_bytes){0, 4, 8, 12, 16, 20, 24, 28});
  return ((eq_i8 *)&first)[0];
#else
  return EQ_TO(eq_i8, v);
#endif
}
EQ_FN eq_i16 eq_low_halves(eq_i32 v) {
#if EQ_X86 == 512 && !defined(__clang__)
  eq_i16 r;
  __asm__("vpmovdw %1, %0" : "=v"(r) : "v"(v));
  return r;
#else
  return EQ_TO(eq_i16, v);
#endif
}

EQ_FN eq_f32h eq_lo_f32(eq_f32 v) { return ((eq_f32h *)&v)[0]; }
EQ_FN eq_f32h eq_hi_f32(eq_f32 v) { return ((eq_f32h *)&v)[1]; }
EQ_FN eq_i32h eq_lo_i32(eq_i32 v) { return ((eq_i32h *)&v)[0]; }
EQ_FN eq_i32h eq_hi_i32(eq_i32 v) { return ((eq_i32h *)&v)[1]; }

EQ_FN eq_i32 eq_join_i32(eq_i32h lo, eq_i32h hi) {
#if defined(__clang__)
  return EQ_SHUFFLE(eq_i32, lo, hi, EQ_LANES(EQ_LANE_ID));
#elif EQ_X86 == 512 /* without the instruction gcc 11 goes through memory */
  eq_i32 r;
  __asm__("vinserti32x8 $1, %t2, %g1, %g0" : "=v"(r) : "v"(lo), "v"(hi));
  return r;
#elif EQ_X86 == 256
  eq_i32 r;
  __asm__("vinserti128 $1, %x2, %t1, %t0" : "=x"(r) : "x"(lo), "x"(hi));
  return r;
#else
  union { eq_i32h half[2]; eq_i32 whole; } u = {{lo, hi}};
  return u.whole;
#endif
}
EQ_FN eq_f32 eq_join_f32(eq_f32h lo, eq_f32h hi) { return EQ_FLOAT(eq_join_i32((eq_i32h)lo, (eq_i32h)hi)); }

/* The low 32 bits of 64-bit lanes; a mask of 64-bit lanes becomes a mask of 32-bit lanes. */
EQ_FN eq_i32 eq_narrow(eq_i64h lo, eq_i64h hi) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return EQ_SHUFFLE(eq_i32, (eq_i32)lo, (eq_i32)hi, EQ_LANES(EQ_LANE_TWICE));
#else
  return eq_join_i32(EQ_TO(eq_i32h, lo), EQ_TO(eq_i32h, hi));
#endif
}
EQ_FN eq_i64 eq_widen(eq_i32 v) {
  return (eq_i64){eq_wide_i32h(eq_lo_i32(v)), eq_wide_i32h(eq_hi_i32(v))};
}
EQ_FN eq_u64 eq_widen_u32(eq_u32 v) {
  return (eq_u64){eq_wide_u32h((eq_u32h)eq_lo_i32((eq_i32)v)), eq_wide_u32h((eq_u32h)eq_hi_i32((eq_i32)v))};
}
/* The same bits. */
EQ_FN eq_u64 eq_as_u64(eq_i64 v) { return (eq_u64){(eq_u64h)v.lo, (eq_u64h)v.hi}; }
EQ_FN eq_i64 eq_as_i64(eq_u64 v) { return (eq_i64){(eq_i64h)v.lo, (eq_i64h)v.hi}; }

/* Constants in every lane. */
EQ_FN eq_i8 eq_imm_i8(int8_t x) { return (eq_i8){0} + x; }
EQ_FN eq_u8 eq_imm_u8(uint8_t x) { return (eq_u8){0} + x; }
EQ_FN eq_i16 eq_imm_i16(int16_t x) { return (eq_i16){0} + x; }
EQ_FN eq_u16 eq_imm_u16(uint16_t x) { return (eq_u16){0} + x; }
EQ_FN eq_i32 eq_imm_i32(int32_t x) { return (eq_i32){0} + x; }
EQ_FN eq_i64h eq_imm_i64h(int64_t x) { return (eq_i64h){0} + x; }
EQ_FN eq_i64 eq_imm_i64(int64_t x) { return (eq_i64){eq_imm_i64h(x), eq_imm_i64h(x)}; }
EQ_FN eq_u32 eq_imm_u32(uint32_t x) { return (eq_u32){0} + x; }
EQ_FN eq_u64h eq_imm_u64h(uint64_t x) { return (eq_u64h){0} + x; }
EQ_FN eq_u64 eq_imm_u64(uint64_t x) { return (eq_u64){eq_imm_u64h(x), eq_imm_u64h(x)}; }
EQ_FN eq_mask eq_imm_bool(int x) { return eq_imm_i32(-(x != 0)); }
EQ_FN eq_f32 eq_imm_f32(float x) { return x - (eq_f32){0}; } /* x - 0 is x for every x, so it folds */
EQ_FN eq_f64h eq_imm_f64h(double x) { return x - (eq_f64h){0}; }
EQ_FN eq_f64 eq_imm_f64(double x) { return (eq_f64){eq_imm_f64h(x), eq_imm_f64h(x)}; }

/* start, start + step, start + 2 step …: the indices of EQ_VL neighbours. */
EQ_FN eq_i32 eq_iota_i32(int32_t start, int32_t step) { return eq_lane_ids() * step + start; }
EQ_FN eq_i64 eq_iota_i64(int64_t start, int64_t step) {
  eq_i64 id = eq_widen(eq_lane_ids());
  return (eq_i64){id.lo * step + start, id.hi * step + start};
}
/* The first n lanes. */
EQ_FN eq_mask eq_first(int n) { return eq_lane_ids() < n; }

/* Bitwise choice: a where the mask is set, else b. The lanes of the mask are as wide as those of a and b. */
#define EQ_PICK(I, V, m, a, b) ((V)(((I)(m) & (I)(a)) | (~(I)(m) & (I)(b))))

EQ_FN eq_f32 eq_where_f32(eq_mask m, eq_f32 a, eq_f32 b) { return EQ_PICK(eq_i32, eq_f32, m, a, b); }
EQ_FN eq_i32 eq_where_i32(eq_mask m, eq_i32 a, eq_i32 b) { return EQ_PICK(eq_i32, eq_i32, m, a, b); }
EQ_FN eq_mask eq_where_bool(eq_mask m, eq_mask a, eq_mask b) { return EQ_PICK(eq_i32, eq_i32, m, a, b); }
EQ_FN eq_i8 eq_where_i8(eq_mask m, eq_i8 a, eq_i8 b) { return EQ_PICK(eq_i8, eq_i8, eq_low_bytes(m), a, b); }
EQ_FN eq_u8 eq_where_u8(eq_mask m, eq_u8 a, eq_u8 b) { return EQ_PICK(eq_u8, eq_u8, eq_low_bytes(m), a, b); }
EQ_FN eq_i16 eq_where_i16(eq_mask m, eq_i16 a, eq_i16 b) { return EQ_PICK(eq_i16, eq_i16, eq_low_halves(m), a, b); }
EQ_FN eq_u16 eq_where_u16(eq_mask m, eq_u16 a, eq_u16 b) { return EQ_PICK(eq_u16, eq_u16, eq_low_halves(m), a, b); }
EQ_FN eq_u32 eq_where_u32(eq_mask m, eq_u32 a, eq_u32 b) { return EQ_PICK(eq_u32, eq_u32, m, a, b); }
EQ_FN eq_i64 eq_where_i64(eq_mask m, eq_i64 a, eq_i64 b) {
  eq_i64 w = eq_widen(m);
  return (eq_i64){EQ_PICK(eq_i64h, eq_i64h, w.lo, a.lo, b.lo), EQ_PICK(eq_i64h, eq_i64h, w.hi, a.hi, b.hi)};
}
EQ_FN eq_u64 eq_where_u64(eq_mask m, eq_u64 a, eq_u64 b) {
  return eq_as_u64(eq_where_i64(m, eq_as_i64(a), eq_as_i64(b)));
}
EQ_FN eq_f64 eq_where_f64(eq_mask m, eq_f64 a, eq_f64 b) {
  eq_i64 w = eq_widen(m);
  return (eq_f64){EQ_PICK(eq_i64h, eq_f64h, w.lo, a.lo, b.lo), EQ_PICK(eq_i64h, eq_f64h, w.hi, a.hi, b.hi)};
}

#define EQ_COPY(to, from, bytes) __builtin_memcpy(to, from, bytes)
#define EQ_PREFETCH_L2(p) __builtin_prefetch(p, 0, 2)
/* The compiler moves no load across. */
#define EQ_FENCE() __asm__ volatile("" ::: "memory")
