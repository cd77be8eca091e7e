/* The base of every kernel: types in memory, macros, and the position of a thread.

   Kernels call the functions of `ir.kernel.gpu.device_functions` and no others. The headers of this folder define them
   in CUDA and PTX. */

typedef struct { unsigned short bits; } eq_f16;
typedef struct { unsigned short bits; } eq_bf16;
typedef float eq_f32;
typedef double eq_f64;
typedef signed char eq_i8;
typedef unsigned char eq_u8;
typedef short eq_i16;
typedef unsigned short eq_u16;
typedef int eq_i32;
typedef unsigned eq_u32;
typedef long long eq_i64;
typedef unsigned long long eq_u64;
typedef struct { unsigned char is; } eq_bool;
typedef unsigned eq_counter;

#define EQ_FN static __device__ __forceinline__
#define EQ_KERNEL(threads, min_blocks) __global__ __launch_bounds__(threads, min_blocks)
#define EQ_UNROLL _Pragma("unroll")
#define EQ_NO_UNROLL _Pragma("unroll 1")
#define EQ_WARP 0xffffffffu

extern __shared__ __align__(1024) unsigned char eq_shared[];

EQ_FN int eq_thread() { return threadIdx.x; }
EQ_FN int eq_lane() { return threadIdx.x & 31; }
EQ_FN int eq_warp() { return __shfl_sync(EQ_WARP, (int)threadIdx.x >> 5, 0); } /* the shuffle tells the compiler that the value is uniform */
EQ_FN int eq_block_x() { return blockIdx.x; }
EQ_FN int eq_block_y() { return blockIdx.y; }
EQ_FN int eq_block_z() { return blockIdx.z; }

EQ_FN unsigned eq_bits_f32(float x) { return __float_as_uint(x); }
EQ_FN float eq_from_bits_f32(unsigned bits) { return __uint_as_float(bits); }
EQ_FN eq_u64 eq_bits_f64(double x) { return (eq_u64)__double_as_longlong(x); }
EQ_FN double eq_from_bits_f64(eq_u64 bits) { return __longlong_as_double((eq_i64)bits); }
EQ_FN float eq_inf_f32() { return __uint_as_float(0x7f800000u); }
EQ_FN float eq_nan_f32() { return __uint_as_float(0x7fc00000u); }
EQ_FN double eq_inf_f64() { return __longlong_as_double(0x7ff0000000000000ll); }
EQ_FN double eq_nan_f64() { return __longlong_as_double(0x7ff8000000000000ll); }
EQ_FN int eq_clip(long long x, int high) { return (int)(x < 0 ? 0 : x > high ? high : x); }
EQ_FN long long eq_clip_wide(long long x, long long high) { return x < 0 ? 0 : x > high ? high : x; }
template <int bits> EQ_FN unsigned eq_swizzle(unsigned offset) {
  return offset ^ (offset >> 3 & ((1u << bits) - 1) << 4);
}

/* Two 16-bit floats in a word, element 0 in the low half. */
EQ_FN unsigned eq_pack_f16(float low, float high) {
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
EQ_FN unsigned eq_pack_bf16(float low, float high) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
EQ_FN float eq_widen_f16(unsigned short bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
EQ_FN float eq_widen_bf16(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
EQ_FN float eq_low_f16(unsigned word) { return eq_widen_f16((unsigned short)word); }
EQ_FN float eq_high_f16(unsigned word) { return eq_widen_f16((unsigned short)(word >> 16)); }
EQ_FN float eq_low_bf16(unsigned word) { return __uint_as_float(word << 16); }
EQ_FN float eq_high_bf16(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
EQ_FN float eq_round_f16(float x) { return eq_low_f16(eq_pack_f16(x, 0)); }
EQ_FN float eq_round_bf16(float x) { return eq_low_bf16(eq_pack_bf16(x, 0)); }
EQ_FN unsigned eq_tf32(float x) { /* adds half of the last place and cuts off the rest; NaN stays NaN */
  const float power = __uint_as_float(__float_as_uint(x) & 0xff800000u);
  return __float_as_uint(__fmaf_rn(power, 0x1p-11f, x)) & 0xffffe000u;
}
EQ_FN float eq_odd_f32(double x) { /* rounds toward zero, and sets the last bit if the result is inexact */
  float near = __double2float_rz(x);
  return (double)near == x ? near : __uint_as_float(__float_as_uint(near) | 1);
}
