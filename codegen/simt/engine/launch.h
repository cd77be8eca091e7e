/* A launch: its grid of blocks, one after another, on one set of fibers. */

static unsigned own_thread() { return self->current->number; }
static unsigned own_block(int axis) { return self->block[axis]; }
static void sync_warp(int line) { meet_warp(kSyncWarp, 0, line); }

static inline Operands &own_operands() { return self->warps[self->current->warp].operands[self->current->lane]; }

static void load_matrix(unsigned *fragment, unsigned offset, int matrices, int transposed, int line) {
  Operands &operands = own_operands();
  operands.result = fragment;
  operands.operand = offset;
  meet_warp(kLoadMatrix, (uint32_t)matrices << 1 | (uint32_t)transposed, line);
}

static void multiply(int format, float *d, const unsigned *a, const unsigned *b, int line) {
  Operands &operands = own_operands();
  operands.a = a;
  operands.b = b;
  operands.result = d;
  meet_warp(kMultiply, (uint32_t)format, line);
}

static void warpgroup(WarpgroupOperation operation, uint32_t operand, int line) {
  own_operands().operand = operand;
  meet_warp(kWarpgroup, operation, line);
}

static void proxy_fence(int line) {
  burn(line);
  Lane &lane = *self->current;
  lane.proxy_fences.push() = self->warps[lane.warp].seen[lane.warp] + 1;
}

static void warpgroup_fence(float *d, int count, int line) {
  own_operands().result = d;
  warpgroup(kOrderSums, (uint32_t)count, line);
}

static void warpgroup_multiply(const eq_warpgroup_product *product, int line) {
  burn(line);
  own_operands().result = (void *)product;
  warpgroup(kStartProduct, 0, line);
}

static void warpgroup_commit(int line) { warpgroup(kCommitProducts, 0, line); }
static void warpgroup_wait(unsigned groups, int line) { warpgroup(kWaitForProducts, groups, line); }

static uint64_t shuffle(int mode, uint64_t value, unsigned operand, int line) {
  Operands &operands = own_operands();
  operands.operand = operand;
  operands.value = value;
  meet_warp(kShuffle, (uint32_t)mode, line);
  return operands.value;
}

static void beyond_registers(int line) {
  report(blank_finding(kRegisterBounds, line));
  stop();
}

static void run_lane() {
  self->request->entry(self->request->arguments);
  Lane &lane = *self->current;
  check_copies(lane);
  fall_asleep(lane, kFinished, 0, -1);
  Warp &warp = self->warps[lane.warp];
  if (same_place(warp)) {
    count_requests(warp);
    end_products(warp);
  }
  if (--self->alive == 0) fiber_switch(&lane.fiber, &self->main);
  give_way();
  __builtin_unreachable();
}

static void start_block() {
  uint64_t latest = self->clock;
  for (unsigned warp = 0; warp < self->warp_count; ++warp)
    if (self->warps[warp].seen[warp] + 1 > latest) latest = self->warps[warp].seen[warp] + 1;
  self->clock = self->block_start = latest + 1;
  self->block_starts.push() = self->block_start;
  self->block_numbers.push() = self->block_number;
  self->alive = self->request->threads;
  self->at_barrier = 0;
  self->fuel = self->request->fuel;
  self->copies.size = self->taken.size = self->acquired.size = 0;
  self->voted = 0;
  self->block_published.push() = self->published.size;
  self->ready_warps = 0;
  clear_shared();
  for (unsigned number = 0; number < self->warp_count; ++number) {
    Warp &warp = self->warps[number];
    warp.arrived = 0;
    warp.product_groups = 0;
    memset(warp.waits, 0, sizeof warp.waits);
    for (unsigned other = 0; other < self->warp_count; ++other) warp.seen[other] = self->block_start - 1;
    set_ready(warp, kAllLanes);
  }
  for (unsigned thread = 0; thread < self->request->threads; ++thread) {
    Lane &lane = self->lanes[thread];
    lane.copies.size = lane.groups.size = lane.uncommitted = lane.fenced = lane.proxy_fences.size = 0;
    self->stacks.prepare(&lane.fiber, thread, run_lane);
  }
}

static void run_block(uint64_t number) {
  const uint32_t *grid = self->request->grid;
  self->block_number = number;
  self->block[0] = (uint32_t)(number % grid[0]);
  self->block[1] = (uint32_t)(number / grid[0] % grid[1]);
  self->block[2] = (uint32_t)(number / grid[0] / grid[1]);
  start_block();
  self->current = next_lane(0);
  fiber_switch(&self->main, &self->current->fiber);
  self->current = nullptr;
}

/* The blocks in the order of execution: a permutation of the grid, shuffled for a random order (Fisher and Yates). */
static void run_grid() {
  const LaunchRequest &request = *self->request;
  uint64_t blocks = (uint64_t)request.grid[0] * request.grid[1] * request.grid[2];
  uint64_t *order = (uint64_t *)malloc(blocks * sizeof *order);
  for (uint64_t index = 0; index < blocks; ++index) order[index] = request.order == 1 ? blocks - 1 - index : index;
  for (uint64_t left = blocks; request.order == 2 && left > 1; --left) {
    uint64_t index = draw() % left, taken = order[index];
    order[index] = order[left - 1];
    order[left - 1] = taken;
  }
  for (uint64_t index = 0; index < blocks && !self->stopped; ++index) run_block(order[index]);
  if (!self->stopped) check_counters();
  free(order);
}

static void prepare_memory() {
  const LaunchRequest &request = *self->request;
  size_t words = (request.shared_bytes + 3) / 4;
  self->cell_bytes = (uint32_t)(sizeof(Cell) + 8 * self->warp_count);
  self->shared = (char *)malloc(request.shared_bytes + 16);
  self->cells = (char *)calloc(words + 1, self->cell_bytes);
  self->entries = (GlobalEntry **)calloc(request.buffer_count + 1, sizeof *self->entries);
  for (uint32_t index = 0; index < request.buffer_count; ++index) {
    const Buffer &buffer = request.buffers[index];
    if (buffer.writable)
      self->entries[index] = (GlobalEntry *)calloc(buffer.bytes / buffer.element_bytes + 1, sizeof(GlobalEntry));
  }
  self->lanes = (Lane *)calloc(request.threads, sizeof(Lane));
  for (unsigned thread = 0; thread < request.threads; ++thread) {
    Lane &lane = self->lanes[thread];
    lane.number = thread;
    lane.warp = thread / kLanes;
    lane.lane = thread % kLanes;
    if (lane.lane == 0) self->warps[lane.warp].lanes = &lane;
  }
}

static void release_memory() {
  for (unsigned thread = 0; thread < self->request->threads; ++thread) {
    self->lanes[thread].copies.release();
    self->lanes[thread].groups.release();
    self->lanes[thread].proxy_fences.release();
  }
  for (unsigned warp = 0; warp < self->warp_count; ++warp) {
    release_requests(self->warps[warp]);
    release_products(self->warps[warp]);
  }
  for (uint32_t index = 0; index < self->request->buffer_count; ++index) free(self->entries[index]);
  for (uint32_t index = 0; index < self->split.size; ++index) free(self->split[index]);
  self->split.release();
  self->split_words.release();
  self->copies.release();
  self->block_starts.release();
  self->block_numbers.release();
  self->fences.release();
  self->clocks.release();
  self->published.release();
  self->block_published.release();
  self->taken.release();
  self->acquired.release();
  free(self->entries);
  free(self->lanes);
  free(self->cells);
  free(self->shared);
}

static const eq_engine engine = {
    own_thread, own_block, shared_access, global_access, copy_async, commit,      wait,     barrier, barrier_or,
    fence,      ticket,    await_ticket,  sync_warp,     load_matrix, multiply, proxy_fence, warpgroup_fence,
    warpgroup_multiply,    warpgroup_commit,             warpgroup_wait, shuffle, beyond_registers,
};

EQ_EXPORT const eq_engine *eq_simt_engine() { return &engine; }

EQ_EXPORT uint64_t eq_simt_address(uint32_t buffer) { return ((uint64_t)buffer + 1) << kSlotBits | kMiddle; }

EQ_EXPORT uint32_t eq_simt_layout(int what) {
  const uint32_t sizes[] = {sizeof(LaunchRequest), sizeof(Finding), sizeof(Counters), sizeof(Buffer)};
  return sizes[what];
}

/* Runs the grid; findings and counters lie in the request. Threads are a multiple of 32, at most 1024. Returns 0, or 1
   where there is no memory for the stacks. Launches on several host threads do not meet. */
EQ_EXPORT int eq_simt_launch(LaunchRequest *request) {
  Launch *launch = (Launch *)calloc(1, sizeof(Launch));
  if (!launch) return 1;
  self = launch;
  launch->request = request;
  launch->count = &request->counters;
  launch->random = request->seed * 0x9e3779b97f4a7c15ull + 1;
  launch->warp_count = request->threads / kLanes;
  bool started = launch->stacks.reserve(request->threads);
  if (started && request->shared_bytes > request->shared_limit) {
    Finding finding = blank_finding(kSharedLimit, -1);
    finding.bytes = request->shared_bytes;
    finding.lanes = request->shared_limit;
    report(finding);
  } else if (started) {
    prepare_memory();
    run_grid();
    release_memory();
  }
  launch->stacks.release();
  free(launch);
  self = nullptr;
  return started ? 0 : 1;
}
