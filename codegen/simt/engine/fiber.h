/* Fibers: each has a stack, and a switch saves the registers that a function preserves by the calling convention.

   x86-64 and AArch64 on Linux have a switch of their own; elsewhere, or with EQ_FIBER_PORTABLE, ucontext does it, which
   asks the kernel for the signal mask each time and is some hundred times slower. */
#include <stdint.h>
#include <sys/mman.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(EQ_FIBER_PORTABLE)
struct Fiber {
  void *stack_pointer;
};

extern "C" void eq_fiber_switch(Fiber *from, Fiber *to);

#if defined(__x86_64__)
asm(R"(
  .text
  .p2align 4
  .globl eq_fiber_switch
  .hidden eq_fiber_switch
  .type eq_fiber_switch, @function
eq_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq (%rsi), %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size eq_fiber_switch, .-eq_fiber_switch
)");

static void fiber_prepare(Fiber *fiber, char *stack, size_t bytes, void (*entry)(void)) {
  /* Six registers, the address that `ret` takes, and the one that `entry` would return to: at its first instruction
     the stack pointer is 8 beyond a multiple of 16, as after a call. */
  uint64_t *top = (uint64_t *)((uintptr_t)(stack + bytes) & ~(uintptr_t)15) - 8;
  for (int slot = 0; slot < 8; ++slot) top[slot] = 0;
  top[6] = (uint64_t)entry;
  fiber->stack_pointer = top;
}
#else
asm(R"(
  .text
  .p2align 4
  .globl eq_fiber_switch
  .hidden eq_fiber_switch
  .type eq_fiber_switch, %function
eq_fiber_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  ldr x9, [x1]
  mov sp, x9
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size eq_fiber_switch, .-eq_fiber_switch
)");

static void fiber_prepare(Fiber *fiber, char *stack, size_t bytes, void (*entry)(void)) {
  uint64_t *top = (uint64_t *)((uintptr_t)(stack + bytes) & ~(uintptr_t)15) - 20;
  for (int slot = 0; slot < 20; ++slot) top[slot] = 0;
  top[11] = (uint64_t)entry; /* x30, where `ret` goes */
  fiber->stack_pointer = top;
}
#endif

static inline void fiber_switch(Fiber *from, Fiber *to) { eq_fiber_switch(from, to); }

#else
#include <ucontext.h>

struct Fiber {
  ucontext_t context;
};

static void fiber_prepare(Fiber *fiber, char *stack, size_t bytes, void (*entry)(void)) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = bytes;
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, entry, 0);
}

static inline void fiber_switch(Fiber *from, Fiber *to) { swapcontext(&from->context, &to->context); }
#endif

/* The stacks of one launch: each above a page that may not be touched, so that one that runs over stops the program
   and corrupts nothing. Their tops are staggered, or all threads' frames would share the sets of one cache. */
struct Stacks {
#if defined(__x86_64__)
  static constexpr size_t kPage = 4096;
#else
  static constexpr size_t kPage = 65536;
#endif
  static constexpr size_t kBytes = 126976, kStride = (kPage + kBytes + kPage - 1) / kPage * kPage;
  char *memory;
  size_t total;

  bool reserve(unsigned fibers) {
    total = fibers * kStride;
    void *found = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = found == MAP_FAILED ? nullptr : (char *)found;
    for (unsigned fiber = 0; memory && fiber < fibers; ++fiber) mprotect(memory + fiber * kStride, kPage, PROT_NONE);
    return memory != nullptr;
  }
  void release() {
    if (memory) munmap(memory, total);
  }
  void prepare(Fiber *fiber, unsigned number, void (*entry)(void)) {
    size_t stagger = number % 32 * 192;
    fiber_prepare(fiber, memory + number * kStride + kPage, kBytes - stagger, entry);
  }
};
