/* Findings: a kind stands once per pair of lines, with a count. */

static const uint64_t kNoStamp = 0;

static Finding blank_finding(FindingKind kind, int line) {
  Finding made;
  memset(&made, 0, sizeof made);
  made.kind = kind;
  made.line = line;
  made.first_line = made.warp = made.lane = made.first_warp = made.first_lane = -1;
  made.first_block = made.buffer = made.offset = -1;
  made.stores = made.first_stores = -1;
  made.count = 1;
  for (int axis = 0; axis < 3; ++axis) made.block[axis] = (int32_t)self->block[axis];
  if (self->current) {
    made.warp = (int32_t)self->current->warp;
    made.lane = (int32_t)self->current->lane;
  }
  return made;
}

/* The number, in the order of execution, of the block to which the clock belongs. */
static uint32_t order_at(uint64_t clock) {
  uint32_t low = 0, high = self->block_starts.size;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    (self->block_starts[middle] <= clock ? low : high) = middle;
  }
  return low;
}

static void name_first(Finding &finding, uint64_t stamp, bool stores) {
  unsigned lane = Stamp::lane(stamp);
  finding.first_line = Stamp::line(stamp);
  finding.first_warp = (int32_t)Stamp::warp(stamp);
  finding.first_lane = lane < kLanes ? (int32_t)lane : -1;
  finding.first_block = (int64_t)self->block_numbers[order_at(Stamp::clock(stamp))];
  finding.first_stores = stores;
}

static void report(const Finding &finding) {
  LaunchRequest &request = *self->request;
  bool places = finding.kind == kDivergentWarp || finding.kind == kDivergentBarrier || finding.kind == kDeadlock;
  for (uint32_t index = 0; index < request.finding_count && !places; ++index) {
    Finding &known = request.findings[index];
    if (known.kind == finding.kind && known.line == finding.line && known.first_line == finding.first_line &&
        known.stores == finding.stores && known.first_stores == finding.first_stores) {
      ++known.count;
      return;
    }
  }
  if (request.finding_count < request.finding_capacity) request.findings[request.finding_count++] = finding;
}

/* Ends the launch, since later findings would mean nothing. Does not return to the kernel. */
static void stop() {
  self->stopped = true;
  fiber_switch(&self->current->fiber, &self->main);
}

static inline void burn(int line) {
  if (--self->fuel) return;
  report(blank_finding(kRunaway, line));
  stop();
}
