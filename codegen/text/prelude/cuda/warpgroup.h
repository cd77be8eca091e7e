/* Products by warpgroups, four warps with consecutive numbers (PTX ISA, wgmma, sm_90a).

   Operands lie in shared memory in rows of 128 bytes, whose chunks of 16 bytes are swizzled as eq_swizzle<3> does. They
   are read asynchronously, and accumulators belong to the products until a wait gives them back. */

EQ_FN void eq_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
EQ_FN void eq_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/* A matrix descriptor: the address, the distance of panels of 64 rows or columns (16 bytes, not used, where terms lie
   side by side), the distance of groups of eight rows of 128 bytes, and the swizzle of 128 bytes. All in 16 bytes. */
template <int panel>
EQ_FN eq_u64 eq_wgmma_matrix(unsigned offset) {
  const unsigned start = (eq_shared_address(offset) & 0x3ffff) >> 4;
  return (eq_u64)1 << 62 | (eq_u64)(1024 >> 4) << 32 | (eq_u64)(panel ? panel >> 4 : 1) << 16 | start;
}

#define EQ_NAMES_32                                                                            \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                     \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define EQ_NAMES_64                                                                            \
  EQ_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "  \
  "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define EQ_NAMES_128                                                                           \
  EQ_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, "  \
  "%79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "      \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "     \
  "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "       \
  "%125, %126, %127"
#define EQ_HELD_4(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define EQ_HELD_16(d) EQ_HELD_4(d), EQ_HELD_4(d + 4), EQ_HELD_4(d + 8), EQ_HELD_4(d + 12)
#define EQ_HELD_32(d) EQ_HELD_16(d), EQ_HELD_16(d + 16)
#define EQ_HELD_64(d) EQ_HELD_32(d), EQ_HELD_32(d + 32)
#define EQ_HELD_128(d) EQ_HELD_64(d), EQ_HELD_64(d + 64)

/* The names of accumulators in an asm are those of its first operands; the two matrices and their layouts follow. */
#define EQ_WGMMA(n, count, a, b, layout_a, layout_b, T, types)                                                    \
  template <int panel_a, int panel_b>                                                                             \
  EQ_FN void eq_wgmma_m64n##n##k16_##T(float *d, unsigned rows, unsigned columns) {                               \
    asm volatile("{ .reg .pred add; setp.ne.b32 add, 1, 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." types \
                 " {" EQ_NAMES_##count "}, %" #a ", %" #b ", add, 1, 1, %" #layout_a ", %" #layout_b "; }"        \
                 : EQ_HELD_##count(d)                                                                             \
                 : "l"(eq_wgmma_matrix<panel_a>(rows)), "l"(eq_wgmma_matrix<panel_b>(columns)),                   \
                   "n"(panel_a != 0), "n"(panel_b != 0)                                                           \
                 : "memory");                                                                                     \
  }
#define EQ_WGMMAS(n, count, ...)                                                                                  \
  EQ_WGMMA(n, count, __VA_ARGS__, f16, "f16.f16")                                                                 \
  EQ_WGMMA(n, count, __VA_ARGS__, bf16, "bf16.bf16")                                                              \
  /* No statement that reads or writes the accumulators is moved across a fence or a wait. */                     \
  EQ_FN void eq_wgmma_fence_n##n(float *d) {                                                                      \
    asm volatile("wgmma.fence.sync.aligned;" : EQ_HELD_##count(d)::"memory");                                     \
  }                                                                                                               \
  template <int pending>                                                                                          \
  EQ_FN void eq_wgmma_wait_n##n(float *d) {                                                                       \
    asm volatile("wgmma.wait_group.sync.aligned %" #count ";" : EQ_HELD_##count(d) : "n"(pending) : "memory");    \
  }
EQ_WGMMAS(64, 32, 32, 33, 34, 35)
EQ_WGMMAS(128, 64, 64, 65, 66, 67)
EQ_WGMMAS(256, 128, 128, 129, 130, 131)
