/* The scheduler: the next lane to run, the lanes that wait, and the finding if no lane can run.

   Lanes run until they wait: for their warp at a collective, for their block at a barrier. The order in which the ready
   ones go on is forward, reverse or random; a right kernel gives the same in all. */

static uint64_t draw() {
  /* xorshift64* (Vigna 2016). */
  uint64_t &state = self->random;
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return state * 0x2545f4914f6cdd1dull >> 32;
}

static unsigned drawn_bit(uint32_t mask) {
  for (uint64_t skip = draw() % (unsigned)__builtin_popcount(mask); skip; --skip) mask &= mask - 1;
  return (unsigned)__builtin_ctz(mask);
}

static inline unsigned first_bit(uint32_t mask, uint32_t order) {
  return order == 1 ? 31 - (unsigned)__builtin_clz(mask) : (unsigned)__builtin_ctz(mask);
}

/* The lane to go on with, or null. A warp goes on until it waits, under a random order seldom for long. */
static inline Lane *next_lane(unsigned warp) {
  uint32_t order = self->request->order;
  if (!self->ready_warps) return nullptr;
  if (!(self->ready_warps >> warp & 1) || (order == 2 && draw() % 16 == 0))
    warp = order == 2 ? drawn_bit(self->ready_warps) : first_bit(self->ready_warps, order);
  uint32_t ready = self->warps[warp].ready;
  return &self->warps[warp].lanes[order == 2 ? drawn_bit(ready) : first_bit(ready, order)];
}

static void report_stuck();

static inline void run(Lane *next) {
  Lane *before = self->current;
  if (next == before) return;
  self->current = next;
  self->count->fiber_switches++;
  fiber_switch(&before->fiber, &next->fiber);
}

/* Lets another lane run that is ready. */
static inline void give_way() {
  Lane *next = next_lane(self->current->warp);
  if (!next) {
    report_stuck();
    stop();
  }
  run(next);
}

static inline void set_ready(Warp &warp, uint32_t ready) {
  uint32_t bit = 1u << warp.lanes[0].warp;
  warp.ready = ready;
  self->ready_warps = ready ? self->ready_warps | bit : self->ready_warps & ~bit;
}

static inline void fall_asleep(const Lane &lane, Operation operation, uint32_t variant, int line) {
  Warp &warp = self->warps[lane.warp];
  warp.waits[lane.lane] = operation | variant << 8;
  warp.line[lane.lane] = line;
  set_ready(warp, warp.ready & ~(1u << lane.lane));
}

static bool same_place(const Warp &warp) {
  uint32_t apart = 0;
  for (unsigned lane = 1; lane < kLanes; ++lane)
    apart |= (warp.waits[lane] ^ warp.waits[0]) | (uint32_t)(warp.line[lane] ^ warp.line[0]);
  return !apart;
}

/* Waits until all lanes of the warp are here, then does the operation; the operands are set. */
static inline void meet_warp(Operation operation, uint32_t variant, int line) {
  const Lane &lane = *self->current;
  Warp &warp = self->warps[lane.warp];
  fall_asleep(lane, operation, variant, line);
  warp.arrived |= 1u << lane.lane;
  if (warp.arrived == kAllLanes) {
    if (!same_place(warp)) {
      report_stuck();
      stop();
    }
    perform(warp);
    warp.arrived = 0;
    memset(warp.waits, 0, sizeof warp.waits);
    set_ready(warp, kAllLanes);
  }
  give_way();
}

/* All accesses before a barrier happen before all accesses after it, of any warp. */
static void join_clocks() {
  uint64_t now[kMostWarps];
  for (unsigned warp = 0; warp < self->warp_count; ++warp) now[warp] = self->warps[warp].seen[warp] + 1;
  for (unsigned warp = 0; warp < self->warp_count; ++warp)
    memcpy(self->warps[warp].seen, now, self->warp_count * sizeof *now);
}

static bool one_barrier() {
  for (unsigned warp = 0; warp < self->warp_count; ++warp)
    if (!same_place(self->warps[warp]) || self->warps[warp].line[0] != self->warps[0].line[0]) return false;
  return true;
}

static void barrier(int line) {
  fall_asleep(*self->current, kBarrier, 0, line);
  if (++self->at_barrier == self->request->threads) {
    if (!one_barrier()) {
      report_stuck();
      stop();
    }
    self->at_barrier = 0;
    self->vote = self->voted;
    self->voted = 0;
    self->count->barriers++;
    join_clocks();
    for (unsigned warp = 0; warp < self->warp_count; ++warp) {
      count_requests(self->warps[warp]);
      memset(self->warps[warp].waits, 0, sizeof self->warps[warp].waits);
      set_ready(self->warps[warp], kAllLanes);
    }
  }
  give_way();
}

/* All threads read the vote before the next barrier. */
static int barrier_or(int holds, int line) {
  self->voted |= holds != 0;
  barrier(line);
  return (int)self->vote;
}

/* Lanes of one warp that wait at one place. */
static uint32_t beside(const Warp &warp, unsigned lane) {
  uint32_t mask = 0;
  for (unsigned other = 0; other < kLanes; ++other)
    if (warp.waits[other] == warp.waits[lane] && warp.line[other] == warp.line[lane]) mask |= 1u << other;
  return mask;
}

/* Lanes of one warp apart: a divergent warp, or a divergent barrier where none is at an operation of the warp. All at barriers,
   though at different ones: divergent too. Else there are warps that wait for others that have ended. */
static FindingKind why_stuck() {
  bool all_at_barriers = true;
  for (unsigned number = 0; number < self->warp_count; ++number) {
    const Warp &warp = self->warps[number];
    bool at_collective = false, at_barrier = false;
    for (unsigned each = 0; each < kLanes; ++each) {
      at_collective = at_collective || operation_of(warp.waits[each]) > kBarrier;
      at_barrier = at_barrier || operation_of(warp.waits[each]) == kBarrier;
      all_at_barriers = all_at_barriers && operation_of(warp.waits[each]) == kBarrier;
    }
    if (!same_place(warp) && (at_collective || at_barrier)) return at_collective ? kDivergentWarp : kDivergentBarrier;
  }
  return all_at_barriers ? kDivergentBarrier : kDeadlock;
}

/* One finding per place where lanes of a warp wait, or have ended; for a divergent warp, only its own places. */
static void report_stuck() {
  FindingKind kind = why_stuck();
  for (unsigned number = 0; number < self->warp_count; ++number) {
    const Warp &warp = self->warps[number];
    if (kind == kDivergentWarp && same_place(warp)) continue;
    for (unsigned each = 0; each < kLanes; ++each) {
      Operation waits = operation_of(warp.waits[each]);
      uint32_t mask = beside(warp, each);
      if (waits == kRunning || (unsigned)__builtin_ctz(mask) != each) continue;
      Finding finding = blank_finding(kind, warp.line[each]);
      finding.warp = (int32_t)number;
      finding.lane = -1;
      finding.bytes = waits;
      finding.lanes = mask;
      report(finding);
    }
  }
}
