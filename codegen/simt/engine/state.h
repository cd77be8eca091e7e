/* The state of one launch: buffers, the running block, its warps and lanes, and the findings. */
#include <stdlib.h>
#include <string.h>

/* A growing array of plain data; the engine uses no C++ runtime, so that any C++ compiler links it. */
template <class T>
struct Vector {
  T *items;
  uint32_t size, capacity;

  T &operator[](uint32_t index) { return items[index]; }
  T &push() {
    if (size == capacity) {
      capacity = capacity ? 2 * capacity : 16;
      items = (T *)realloc(items, capacity * sizeof(T));
      if (!items) abort();
    }
    return items[size++];
  }
  void drop(uint32_t count) {
    if (count) memmove(items, items + count, (size -= count) * sizeof(T));
  }
  void release() { free(items); }
};

static constexpr unsigned kLanes = 32, kMostWarps = 32, kAllLanes = 0xffffffffu;
static constexpr unsigned kSeveral = 63; /* in place of a lane: an access of the whole warp, or of several lanes */

/* Kinds, in the order of `FindingKind` in report.py. */
enum FindingKind : uint32_t {
  kSharedRace,
  kUninitialisedShared,
  kCopyNotWaitedFor,
  kCopyNeverWaitedFor,
  kGlobalRace,
  kBlockRace,
  kGlobalBounds,
  kReadOnlyStore,
  kSharedBounds,
  kMisaligned,
  kSharedLimit,
  kBadOperand,
  kRegisterBounds,
  kDivergentWarp,
  kDivergentBarrier,
  kDeadlock,
  kRunaway,
  kCounterLeft,
  kProductUnderWay,
  kNotFencedForProducts,
  kAccumulatorsTouched,
  kProductNeverWaitedFor,
};

/* One finding. `first` is the earlier of two accesses, `line` the later; numbers are -1 where nothing is known. */
struct Finding {
  uint32_t kind;
  int32_t line, first_line;
  int32_t block[3], warp, lane, first_warp, first_lane;
  int64_t first_block;
  int32_t stores, first_stores; /* whether the accesses write */
  int64_t buffer;               /* the number of the global buffer, -1 for shared memory */
  int64_t offset;               /* bytes into shared memory or the buffer */
  uint64_t bytes;
  uint64_t lanes;               /* a mask of lanes that wait here, or another number: see report.py */
  uint64_t count;               /* how often the same was found */
};

/* In the order of `COUNTERS` in report.py. */
struct Counters {
  uint64_t mma, wgmma, mma_flops, ldmatrix, matrix_bank_conflicts;
  uint64_t copy_requests, copy_bytes, copy_groups, copy_waits, copy_bank_conflicts;
  uint64_t shared_loads, shared_stores, shared_bank_conflicts;
  uint64_t global_loads, global_load_sectors, global_stores, global_store_sectors;
  uint64_t barriers, warp_syncs, shuffles, fiber_switches;
};

struct Buffer {
  char *host;
  uint64_t bytes;
  uint32_t element_bytes;
  uint32_t writable;
  uint32_t counts; /* holds counters, which are 0 after a launch */
};

struct LaunchRequest {
  eq_entry entry;
  void *const *arguments;
  const Buffer *buffers;
  uint32_t buffer_count;
  uint32_t grid[3];
  uint32_t threads;
  uint32_t shared_bytes, shared_limit;
  uint32_t order; /* 0 forward, 1 reverse, 2 random */
  uint64_t seed;
  uint64_t fuel; /* memory accesses of one block before it counts as running away */
  Finding *findings;
  uint32_t finding_capacity;
  uint32_t finding_count;
  Counters counters;
};

/* Why a lane does not run. */
enum Operation : uint32_t {
  kRunning,
  kFinished,
  kBarrier,
  kSyncWarp,
  kLoadMatrix,
  kMultiply,
  kShuffle,
  kAwaitTicket,
  kWarpgroup,
};

static inline Operation operation_of(uint32_t waits) { return (Operation)(waits & 0xff); }

/* The operands of a lane for an operation of its warp. */
struct Operands {
  const unsigned *a, *b;
  void *result;
  uint64_t value;
  uint32_t operand;
};

/* An asynchronous copy into shared memory that its issuer has not waited for. */
struct Copy {
  const char *source;
  uint32_t offset, bytes, valid;
  int32_t line;
  uint32_t warp, lane;
  bool committed;
};

static constexpr unsigned kTerms = 16, kMostColumns = 256;

/* A product of a warpgroup, as one of its warps sees it, from its start to the wait for its group. */
struct Product {
  eq_warpgroup_product product; /* of lane 0 */
  uint32_t group;
  int32_t line;
  uint32_t sums; /* the number of its accumulators in Warp::sums */
};

/* Accumulators of a warp. While products add to them, their values lie here, lane by lane, and the lanes have NaNs. */
struct Sums {
  float *d[kLanes];
  uint32_t count, products;
  bool ordered; /* fenced since the last wait gave them back */
  bool given;   /* `values` has what that wait gave back */
  float *values;
};

struct Lane {
  Fiber fiber;
  uint32_t number, warp, lane;
  Vector<uint32_t> copies; /* issued and not complete, oldest first: indices of Launch::copies */
  Vector<uint32_t> groups; /* for each committed group that is not complete: its number of copies */
  uint32_t uncommitted;
  uint32_t fenced; /* 1 + the number of its last fence, or 0 */
  Vector<uint64_t> proxy_fences; /* the warp's clock at each of its fences for products */
};

/* One memory instruction of a warp: which lanes take part, and their addresses. */
struct Request {
  uint32_t lanes;
  uint64_t address[kLanes];
};

/* The instructions that came from one place of the text; `times` says how many of them each lane took part in. */
struct Site {
  uint32_t key, bytes, times[kLanes];
  Vector<Request> requests;
};

struct Warp {
  Lane *lanes;
  uint32_t ready;    /* lanes that can run */
  uint32_t arrived;  /* lanes that wait for the rest of the warp */
  uint32_t waits[kLanes];    /* why each lane does not run: an operation, and above its 8 bits the operation's variant */
  int32_t line[kLanes];      /* where it waits */
  Operands operands[kLanes]; /* the operands that it brought */
  uint64_t seen[kMostWarps]; /* seen[v]: accesses of warp v up to this clock happen before what this warp does next */
  Vector<Site> sites;
  uint32_t pending_requests;
  Vector<Product> products; /* started, not complete */
  Vector<Sums> sums;
  uint32_t product_groups;  /* committed in this block */
};

struct GlobalEntry {
  uint64_t write, read, read_before; /* the last store, the last load, the last load of an earlier block */
                                     /* of a counter: write is how many tickets were taken */
};

/* The accesses that a thread had seen at a fence: its own clock; from `clocks` on, those of its block's warps. */
struct FenceView {
  uint64_t own;
  uint32_t warp, lane, clocks;
};

/* Tickets have numbers, counter by counter; `thread` fenced nothing since it took this one. */
struct Ticket {
  uint64_t counter;
  uint32_t number, thread;
};

struct Published {
  uint64_t counter;
  uint32_t number, fence;
};

/* The accesses that tickets before `number` published, since the access `stamp`. */
struct Acquired {
  uint64_t counter;
  uint32_t number;
  uint64_t stamp;
};

struct Launch {
  LaunchRequest *request;
  Counters *count;
  Fiber main;
  Stacks stacks;
  Lane *lanes, *current;
  Warp warps[kMostWarps];
  uint32_t warp_count, alive, at_barrier;
  uint32_t ready_warps;
  uint32_t block[3];
  uint64_t block_number, clock, block_start;
  Vector<uint64_t> block_starts; /* by order of execution, with the block's number beside */
  Vector<uint64_t> block_numbers;
  uint32_t voted, vote; /* whether a thread voted yes at the current barrier; the result of the last barrier */
  Vector<FenceView> fences;
  Vector<uint64_t> clocks;
  Vector<Published> published;
  Vector<uint32_t> block_published; /* by order of execution: where those of a block start */
  Vector<Ticket> taken;             /* of this block, as `acquired` */
  Vector<Acquired> acquired;
  uint64_t random, fuel;
  bool stopped;
  char *shared;
  char *cells;
  uint32_t cell_bytes;
  Vector<char *> split;          /* four cells of one byte each, for words that are written in parts */
  Vector<uint32_t> split_words;
  uint32_t splits_used;
  Vector<Copy> copies;
  GlobalEntry **entries; /* by buffer; null where nothing writes it */
  float rows[16][kTerms], columns[kTerms][kMostColumns]; /* the operands of one product of a warpgroup */
};

static thread_local Launch *self __attribute__((tls_model("initial-exec")));
alignas(16) static thread_local char poison[16] __attribute__((tls_model("initial-exec")));

static inline void *poisoned() {
  memset(poison, 0xff, sizeof poison);
  return poison;
}

/* An access, packed: when, by whom, from which line. A warp's clock grows at each of its synchronisations and no clock
   of a later block is less than one of an earlier block. */
struct Stamp {
  static uint64_t of(uint64_t clock, unsigned warp, unsigned lane, int line) {
    return clock << 32 | (uint64_t)warp << 26 | (uint64_t)lane << 20 | ((unsigned)line & 0xfffff);
  }
  static uint64_t clock(uint64_t stamp) { return stamp >> 32; }
  static unsigned warp(uint64_t stamp) { return stamp >> 26 & 63; }
  static unsigned lane(uint64_t stamp) { return stamp >> 20 & 63; }
  static int line(uint64_t stamp) { return stamp & 0xfffff; }
};

static inline uint64_t stamp_of(const Lane &lane, unsigned who, int line) {
  return Stamp::of(self->warps[lane.warp].seen[lane.warp] + 1, lane.warp, who, line);
}
