/* The device functions on a CPU: types, macros and the position of a thread. What each function means is said in
   ir/kernel/gpu/device_functions.py; those that touch memory or meet other threads ask the engine. */

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
typedef unsigned char eq_bool;
typedef unsigned eq_counter;

#define EQ_KERNEL(threads, min_blocks)
#define EQ_FN static inline
#define EQ_UNROLL
#define EQ_NO_UNROLL
#define EQ_HERE int line = __builtin_LINE()

static const eq_engine *eq_simt;

EQ_EXPORT void eq_simt_bind(const eq_engine *engine) { eq_simt = engine; }

/* The handlers that the compiler's check of array bounds calls, in place of the compiler's runtime. */
struct eq_text_place {
  const char *file;
  unsigned line, column;
};
extern "C" __attribute__((visibility("hidden"), noreturn, used)) void __ubsan_handle_out_of_bounds_abort(void *place,
                                                                                                         void *) {
  eq_simt->beyond_registers((int)((eq_text_place *)place)->line);
  __builtin_trap();
}

static inline int eq_thread() { return (int)eq_simt->thread(); }
static inline int eq_lane() { return (int)eq_simt->thread() % 32; }
static inline int eq_warp() { return (int)eq_simt->thread() / 32; }
static inline int eq_block_x() { return (int)eq_simt->block(0); }
static inline int eq_block_y() { return (int)eq_simt->block(1); }
static inline int eq_block_z() { return (int)eq_simt->block(2); }

/* Stops where fewer than `count` registers lie at `registers`, as far as the compiler sees the array: the caller is
   inlined, so that it does. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_dynamic_object_size)
#define EQ_SIZE_AT(registers) __builtin_dynamic_object_size(registers, 0)
#endif
#endif
#ifndef EQ_SIZE_AT
#define EQ_SIZE_AT(registers) (~0ull)
#endif
#define EQ_REGISTERS(registers, count) \
  if (EQ_SIZE_AT(registers) < (count) * sizeof *(registers)) eq_simt->beyond_registers(line)
#define EQ_INLINE static inline __attribute__((always_inline))

template <class To, class From>
static inline To eq_same_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}

static inline unsigned eq_bits_f32(float x) { return eq_same_bits<unsigned>(x); }
static inline float eq_from_bits_f32(unsigned bits) { return eq_same_bits<float>(bits); }
static inline eq_u64 eq_bits_f64(double x) { return eq_same_bits<eq_u64>(x); }
static inline double eq_from_bits_f64(eq_u64 bits) { return eq_same_bits<double>(bits); }

static inline float eq_inf_f32() { return __builtin_huge_valf(); }
static inline float eq_nan_f32() { return __builtin_nanf(""); }
static inline double eq_inf_f64() { return __builtin_huge_val(); }
static inline double eq_nan_f64() { return __builtin_nan(""); }

template <int bits>
static inline unsigned eq_swizzle(unsigned offset) {
  return offset ^ (offset >> 3 & ((1u << bits) - 1) << 4);
}

static inline int eq_clip(long long x, int high) { return x < 0 ? 0 : x > high ? high : (int)x; }
static inline long long eq_clip_wide(long long x, long long high) { return x < 0 ? 0 : x > high ? high : x; }
