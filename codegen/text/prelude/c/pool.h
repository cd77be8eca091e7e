/* The thread pool: fork and join in well under a microsecond while hot, asleep between program runs.

     eq_run_begin(&run, flush)  a program run starts: the default floating-point mode, denormals flushed if
                                `flush`; sleeping workers are woken by the first parallel loop
     eq_parallel_for(fn, ctx, n_tasks, n_threads)
                                fn(ctx, task, thread) for task in 0 .. n_tasks-1, by at most n_threads threads,
                                the caller one of them; returns when all are done. `thread` < n_threads is a
                                number that no two running tasks of this loop share: an index of scratch memory
     eq_run_end(&run)           restores the caller's floating-point mode; idle workers go to sleep soon

   A worker wakes on another processor than the caller's, among those on which the caller may run.
   Workers are created at first need and run in the floating-point mode of the loop's caller. A loop started
   while the pool is busy (from another host thread, or from inside a task) runs on its own thread: results do
   not depend on it. A forked child starts a pool of its own; unloading the library joins the workers.

   One translation unit of a library defines EQ_POOL_IMPLEMENTATION before this file.

   Every thread has a share of the tasks, neighbours in their order: what one loop leaves in a core's cache the
   next loop often reads on the same core. A thread whose share is done takes tasks of the others' shares. The
   ticket of a share holds the loop's number (upper half) and the tasks left (lower half); tasks are claimed by
   a compare-and-swap of the whole ticket, so that a worker which read the fields of one loop cannot take a
   task of another. The caller waits for tasks, never for workers: a worker that is asleep or descheduled
   delays no loop. */
#include <stdint.h>

typedef void (*eq_task)(void *ctx, int32_t task, int32_t thread);
typedef struct { uint64_t fp_mode; } eq_run;

#define EQ_HIDDEN __attribute__((visibility("hidden")))
EQ_HIDDEN void eq_run_begin(eq_run *run, int flush);
EQ_HIDDEN void eq_run_end(const eq_run *run);
EQ_HIDDEN void eq_parallel_for(eq_task fn, void *ctx, int32_t n_tasks, int32_t n_threads);

#ifdef EQ_POOL_IMPLEMENTATION
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define EQ_MAX_THREADS 256
#define EQ_SPIN_IN_RUN_NS 1000000 /* longer than a run's serial parts: a wake costs 40 to 55 us */
#define EQ_SPIN_IDLE_NS 50000     /* longer than the gap before a run that follows at once */
#define EQ_PIECES 8 /* a thread claims an eighth of the tasks that are left of a share, one at least */
#define EQ_MAX_CPUS 1024
#define EQ_CPU_BITS (8 * sizeof(unsigned long))
typedef struct { unsigned long bits[EQ_MAX_CPUS / EQ_CPU_BITS]; } eq_cpus;

static struct {
  _Alignas(64) _Atomic uint64_t ticket[EQ_MAX_THREADS]; /* the first is written last: its number is the loop's */
  _Alignas(64) _Atomic(eq_task) fn;
  _Atomic(void *) ctx;
  _Atomic uint64_t fp_mode;
  _Atomic int32_t n_tasks, n_threads;
  _Alignas(64) _Atomic int32_t done;
  _Alignas(64) atomic_int busy;
  atomic_int runs, asleep, closing;
  atomic_int n_workers; /* entries of `worker` to join; a process may end while a thread adds some */
  int at_fork;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  pthread_t worker[EQ_MAX_THREADS];
  atomic_int thread_id[EQ_MAX_THREADS]; /* of a worker, as Linux numbers threads; 0: not known */
  eq_cpus allowed;                      /* the caller's processors, when workers were moved from its own */
  int moved;
} eq_pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

#if defined(__x86_64__) || defined(__i386__)
#define EQ_FP_DEFAULT 0x1f80u /* all exceptions masked, round to nearest */
#define EQ_FP_FLUSH 0x8040u   /* FTZ, DAZ */
#define EQ_FP_CONTROL 0xffc0u /* without the sticky exception flags */
static inline uint64_t eq_fp_mode(void) { return __builtin_ia32_stmxcsr(); }
static inline void eq_set_fp_mode(uint64_t mode) { __builtin_ia32_ldmxcsr((unsigned)mode); }
static inline void eq_pause(void) { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
#define EQ_FP_DEFAULT 0u
#define EQ_FP_FLUSH (1u << 24) /* FZ */
#define EQ_FP_CONTROL (~UINT64_C(0))
static inline uint64_t eq_fp_mode(void) { uint64_t m; __asm__ volatile("mrs %0, fpcr" : "=r"(m)); return m; }
static inline void eq_set_fp_mode(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
static inline void eq_pause(void) { __asm__ volatile("yield"); }
#else
#define EQ_FP_DEFAULT 0u
#define EQ_FP_FLUSH 0u
#define EQ_FP_CONTROL 0u
static inline uint64_t eq_fp_mode(void) { return 0; }
static inline void eq_set_fp_mode(uint64_t mode) { (void)mode; }
static inline void eq_pause(void) {}
#endif

static int64_t eq_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The first task of a share, or the end of the share before. */
static int32_t eq_share_start(int32_t share, int32_t n_tasks, int32_t n_threads) {
  return (int32_t)((int64_t)n_tasks * share / n_threads);
}

/* Runs tasks of one share of the loop `number` until none is left. */
static void eq_take_share(int32_t share, uint32_t number, int32_t thread) {
  uint64_t seen = atomic_load_explicit(&eq_pool.ticket[share], memory_order_acquire);
  for (;;) {
    int32_t left = (int32_t)(uint32_t)seen;
    if (left == 0 || (uint32_t)(seen >> 32) != number) return;
    int32_t n_tasks = atomic_load_explicit(&eq_pool.n_tasks, memory_order_acquire);
    int32_t n_threads = atomic_load_explicit(&eq_pool.n_threads, memory_order_acquire);
    if (thread >= n_threads) return;
    eq_task fn = atomic_load_explicit(&eq_pool.fn, memory_order_acquire);
    void *ctx = atomic_load_explicit(&eq_pool.ctx, memory_order_acquire);
    uint64_t mode = atomic_load_explicit(&eq_pool.fp_mode, memory_order_acquire);
    /* Success proves that the fields belong to the loop of `seen`, which cannot end before these tasks. */
    int32_t count = left / EQ_PIECES;
    if (count < 1) count = 1;
    if (!atomic_compare_exchange_strong(&eq_pool.ticket[share], &seen, seen - (uint32_t)count)) continue;
    if (thread && (eq_fp_mode() & EQ_FP_CONTROL) != mode) eq_set_fp_mode(mode);
    int32_t task = eq_share_start(share + 1, n_tasks, n_threads) - left;
    for (int32_t end = task + count; task < end; task++) fn(ctx, task, thread);
    atomic_fetch_add_explicit(&eq_pool.done, count, memory_order_release);
    seen -= (uint32_t)count;
  }
}

/* Runs tasks of the loop `number` until none is left: first those of the thread's own share. */
static void eq_take_tasks(uint32_t number, int32_t thread) {
  int32_t n_threads = atomic_load_explicit(&eq_pool.n_threads, memory_order_acquire);
  for (int32_t n = 0; n < n_threads && thread < n_threads; n++) eq_take_share((thread + n) % n_threads, number, thread);
}

static uint32_t eq_loop_number(void) {
  return (uint32_t)(atomic_load_explicit(&eq_pool.ticket[0], memory_order_acquire) >> 32);
}

#ifdef __linux__
/* Keeps sleeping workers from the caller's processor. Linux may wake a worker there, and takes some ten milliseconds
   to move it: until then the worker waits for the caller, which waits for nobody. The caller owns `lock`. */
static void eq_move_from_caller(void) {
  unsigned cpu = 0;
  eq_pool.moved = 0;
  eq_pool.allowed = (eq_cpus){{0}};
  if (syscall(SYS_getcpu, &cpu, NULL, NULL) || cpu >= EQ_MAX_CPUS) return;
  if (syscall(SYS_sched_getaffinity, 0, sizeof eq_pool.allowed, &eq_pool.allowed) <= 0) return;
  eq_cpus others = eq_pool.allowed;
  others.bits[cpu / EQ_CPU_BITS] &= ~(1ul << cpu % EQ_CPU_BITS);
  unsigned long any = 0;
  for (size_t i = 0; i < EQ_MAX_CPUS / EQ_CPU_BITS; i++) any |= others.bits[i];
  if (!any) return;
  eq_pool.moved = 1;
  for (int n = 0; n < atomic_load(&eq_pool.n_workers); n++) {
    int id = atomic_load(&eq_pool.thread_id[n]);
    if (id) syscall(SYS_sched_setaffinity, id, sizeof others, &others);
  }
}
static void eq_set_thread_id(int32_t thread) { atomic_store(&eq_pool.thread_id[thread - 1], (int)syscall(SYS_gettid)); }
static void eq_allow_cpus(const eq_cpus *cpus) { syscall(SYS_sched_setaffinity, 0, sizeof *cpus, cpus); }
#else
static void eq_move_from_caller(void) {}
static void eq_set_thread_id(int32_t thread) { (void)thread; }
static void eq_allow_cpus(const eq_cpus *cpus) { (void)cpus; }
#endif

/* Spins, then sleeps, until a loop other than `last` is published. */
static void eq_await_loop(uint32_t last) {
  int64_t start = eq_now_ns();
  for (;;) {
    for (int i = 0; i < 64; i++) {
      if (eq_loop_number() != last || atomic_load_explicit(&eq_pool.closing, memory_order_relaxed)) return;
      eq_pause();
    }
    int running = atomic_load_explicit(&eq_pool.runs, memory_order_relaxed) > 0;
    if (eq_now_ns() - start > (running ? EQ_SPIN_IN_RUN_NS : EQ_SPIN_IDLE_NS)) break;
  }
  pthread_mutex_lock(&eq_pool.lock);
  atomic_fetch_add(&eq_pool.asleep, 1);
  while ((uint32_t)(atomic_load(&eq_pool.ticket[0]) >> 32) == last && !atomic_load(&eq_pool.closing))
    pthread_cond_wait(&eq_pool.wake, &eq_pool.lock);
  atomic_fetch_sub(&eq_pool.asleep, 1);
  int moved = eq_pool.moved;
  eq_cpus allowed = eq_pool.allowed;
  pthread_mutex_unlock(&eq_pool.lock);
  if (moved) eq_allow_cpus(&allowed); /* awake on another processor, where the system may move it again */
}

static void eq_wake_workers(void) {
  pthread_mutex_lock(&eq_pool.lock);
  eq_move_from_caller();
  pthread_cond_broadcast(&eq_pool.wake);
  pthread_mutex_unlock(&eq_pool.lock);
}

static void *eq_work(void *number) {
  int32_t thread = (int32_t)(intptr_t)number;
  eq_set_thread_id(thread);
  uint32_t last = 0; /* loops are numbered from 1: a new worker joins a loop that is under way */
  while (!atomic_load_explicit(&eq_pool.closing, memory_order_relaxed)) {
    eq_await_loop(last);
    last = eq_loop_number();
    eq_take_tasks(last, thread);
  }
  return NULL;
}

/* A forked child has none of the parent's workers, and the locks may be held: start from an empty pool. */
static void eq_after_fork(void) {
  pthread_mutex_init(&eq_pool.lock, NULL);
  pthread_cond_init(&eq_pool.wake, NULL);
  for (int share = 0; share < EQ_MAX_THREADS; share++) {
    uint64_t number = atomic_load(&eq_pool.ticket[share]) >> 32;
    atomic_store(&eq_pool.ticket[share], number << 32);
  }
  atomic_store(&eq_pool.busy, 0);
  atomic_store(&eq_pool.runs, 0);
  atomic_store(&eq_pool.asleep, 0);
  atomic_store(&eq_pool.n_workers, 0);
  for (int n = 0; n < EQ_MAX_THREADS; n++) atomic_store(&eq_pool.thread_id[n], 0);
  eq_pool.moved = 0;
}

/* Starts workers. The caller owns `busy`. Workers block all signals: signals belong to the host program. */
static void eq_grow(int32_t n_threads) {
  if (!eq_pool.at_fork) eq_pool.at_fork = pthread_atfork(NULL, NULL, eq_after_fork) == 0;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int n = atomic_load(&eq_pool.n_workers); n < n_threads - 1 && !atomic_load(&eq_pool.closing); n++) {
    if (pthread_create(&eq_pool.worker[n], NULL, eq_work, (void *)(intptr_t)(n + 1))) break;
    atomic_store(&eq_pool.n_workers, n + 1);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void eq_await_tasks(int32_t n_tasks) {
  for (int spins = 0; atomic_load_explicit(&eq_pool.done, memory_order_acquire) < n_tasks; spins++) {
    if (spins < 4096) eq_pause();
    else sched_yield(); /* more threads than cores: the thread that holds the task needs this one's core */
  }
}

void eq_parallel_for(eq_task fn, void *ctx, int32_t n_tasks, int32_t n_threads) {
  if (n_threads > n_tasks) n_threads = n_tasks;
  if (n_threads > EQ_MAX_THREADS) n_threads = EQ_MAX_THREADS;
  if (n_threads <= 1 || atomic_load_explicit(&eq_pool.closing, memory_order_relaxed) ||
      atomic_exchange_explicit(&eq_pool.busy, 1, memory_order_acquire)) {
    for (int32_t task = 0; task < n_tasks; task++) fn(ctx, task, 0);
    return;
  }
  if (atomic_load_explicit(&eq_pool.n_workers, memory_order_relaxed) < n_threads - 1) eq_grow(n_threads);
  uint32_t number = eq_loop_number() + 1;
  if (number == 0) number = 1;
  atomic_store_explicit(&eq_pool.done, 0, memory_order_relaxed);
  atomic_store_explicit(&eq_pool.fn, fn, memory_order_release);
  atomic_store_explicit(&eq_pool.ctx, ctx, memory_order_release);
  atomic_store_explicit(&eq_pool.fp_mode, eq_fp_mode() & EQ_FP_CONTROL, memory_order_release);
  atomic_store_explicit(&eq_pool.n_threads, n_threads, memory_order_release);
  atomic_store_explicit(&eq_pool.n_tasks, n_tasks, memory_order_release);
  /* Sequentially consistent with `asleep`: this thread sees the sleeper, or the sleeper sees this loop. */
  for (int32_t share = n_threads - 1; share >= 0; share--) {
    int32_t size = eq_share_start(share + 1, n_tasks, n_threads) - eq_share_start(share, n_tasks, n_threads);
    atomic_store(&eq_pool.ticket[share], (uint64_t)number << 32 | (uint32_t)size);
  }
  if (atomic_load(&eq_pool.asleep)) eq_wake_workers();
  eq_take_tasks(number, 0);
  eq_await_tasks(n_tasks);
  atomic_store_explicit(&eq_pool.busy, 0, memory_order_release);
}

void eq_run_begin(eq_run *run, int flush) {
  run->fp_mode = eq_fp_mode();
  eq_set_fp_mode(flush ? EQ_FP_DEFAULT | EQ_FP_FLUSH : EQ_FP_DEFAULT);
  atomic_fetch_add_explicit(&eq_pool.runs, 1, memory_order_relaxed);
}

void eq_run_end(const eq_run *run) {
  atomic_fetch_sub_explicit(&eq_pool.runs, 1, memory_order_relaxed);
  eq_set_fp_mode(run->fp_mode);
}

__attribute__((destructor)) static void eq_close_pool(void) {
  atomic_store(&eq_pool.closing, 1);
  eq_wake_workers();
  int n = atomic_load(&eq_pool.n_workers);
  for (int i = 0; i < n; i++) pthread_join(eq_pool.worker[i], NULL);
}
#endif
