/* The interface between the emulator's engine and a compiled kernel.

   A kernel library holds no state but a pointer to this table, which the engine fills. Every function that a kernel
   calls passes the line of the kernel's text that called it. */
#include <stdint.h>

/* d (64 × columns) += a (64 × 16) · b (16 × columns): the accumulators of a lane, the bytes of shared memory at which
   a and b start, and the bytes between panels of 64 rows or columns (0 where terms lie side by side). */
struct eq_warpgroup_product {
  float *d;
  unsigned a, b;
  int panel_a, panel_b, columns, format;
};

struct eq_engine {
  unsigned (*thread)(void);
  unsigned (*block)(int axis);
  /* The address on the host of the bytes of an access; that of 16 bytes of poison where the access is refused. */
  void *(*shared)(unsigned offset, unsigned bytes, int stores, int line);
  void *(*global)(const void *address, unsigned bytes, int stores, int line);
  void (*copy_async)(unsigned offset, const void *address, unsigned bytes, unsigned valid, int line);
  void (*commit)(int line);
  void (*wait)(unsigned groups, int line);
  void (*barrier)(int line);
  int (*barrier_or)(int holds, int line);
  void (*fence)(int line);
  unsigned (*ticket)(void *address, unsigned count, int line);
  void (*await_ticket)(void *address, unsigned count, int line);
  void (*sync_warp)(int line);
  void (*load_matrix)(unsigned *fragment, unsigned offset, int matrices, int transposed, int line);
  void (*multiply)(int format, float *d, const unsigned *a, const unsigned *b, int line);
  void (*proxy_fence)(int line);
  void (*warpgroup_fence)(float *d, int count, int line);
  void (*warpgroup_multiply)(const eq_warpgroup_product *product, int line);
  void (*warpgroup_commit)(int line);
  void (*warpgroup_wait)(unsigned groups, int line);
  uint64_t (*shuffle)(int mode, uint64_t value, unsigned operand, int line);
  void (*beyond_registers)(int line); /* does not return */
};

enum eq_mma_format { EQ_MMA_F16, EQ_MMA_BF16, EQ_MMA_TF32 };
enum eq_shuffle_mode { EQ_SHUFFLE_XOR, EQ_SHUFFLE_DOWN, EQ_SHUFFLE_UP, EQ_SHUFFLE_LANE };

typedef void (*eq_entry)(void *const *arguments);

#define EQ_EXPORT extern "C" __attribute__((visibility("default")))
