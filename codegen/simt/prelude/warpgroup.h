/* Products of warpgroups. */

static inline void eq_proxy_fence(EQ_HERE) { eq_simt->proxy_fence(line); }
static inline void eq_wgmma_commit(EQ_HERE) { eq_simt->warpgroup_commit(line); }

#define EQ_WARPGROUP_PRODUCT(n, T, format)                                                            \
  template <int panel_a, int panel_b>                                                                 \
  EQ_INLINE void eq_wgmma_m64n##n##k16_##T(float *d, unsigned a, unsigned b, EQ_HERE) {               \
    EQ_REGISTERS(d, n / 2);                                                                           \
    eq_warpgroup_product product = {d, a, b, panel_a, panel_b, n, format};                            \
    eq_simt->warpgroup_multiply(&product, line);                                                      \
  }
#define EQ_WARPGROUP(n)                                                                               \
  EQ_WARPGROUP_PRODUCT(n, f16, EQ_MMA_F16)                                                            \
  EQ_WARPGROUP_PRODUCT(n, bf16, EQ_MMA_BF16)                                                          \
  EQ_INLINE void eq_wgmma_fence_n##n(float *d, EQ_HERE) {                                             \
    EQ_REGISTERS(d, n / 2);                                                                           \
    eq_simt->warpgroup_fence(d, n / 2, line);                                                         \
  }                                                                                                   \
  template <int pending>                                                                              \
  EQ_INLINE void eq_wgmma_wait_n##n(float *d, EQ_HERE) {                                              \
    EQ_REGISTERS(d, n / 2);                                                                           \
    eq_simt->warpgroup_wait(pending, line);                                                           \
  }
EQ_WARPGROUP(64)
EQ_WARPGROUP(128)
EQ_WARPGROUP(256)
