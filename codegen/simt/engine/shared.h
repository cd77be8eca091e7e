/* Shared memory and its happens-before order.

   Each word of four bytes has a cell: its last store, and for each warp its last load, as stamps. Two accesses of
   which one stores are a race unless a synchronisation lies between them: a barrier orders all warps, a warp's
   synchronisation its own lanes, and a lane's accesses are in order by themselves. Words that are written in parts
   get a cell for each byte. Stamps of earlier blocks are older than all that a block does, so that nothing needs
   clearing between blocks; a store older than the block means that the word holds nothing. */

struct Cell {
  uint64_t write;
  uint32_t copy;  /* 1 + the number of the asynchronous copy into this word that is not waited for, or 0 */
  uint32_t split; /* 1 + the number of the four cells that stand for this one, or 0 */
  uint32_t products; /* products of warpgroups that read this word and are not waited for */
  uint32_t unfenced; /* how many fences for products the lane had done that stored last */
  uint64_t read[];
};

struct SharedAccess {
  unsigned offset, bytes, who; /* who: a lane, or kSeveral */
  int line;
  bool stores;
};

static inline Cell *cell_at(unsigned word) { return (Cell *)(self->cells + (size_t)word * self->cell_bytes); }

static inline bool ordered(uint64_t earlier, const Warp &warp, unsigned me, unsigned who) {
  unsigned other = Stamp::warp(earlier);
  return Stamp::clock(earlier) <= warp.seen[other] ||
         (other == me && Stamp::lane(earlier) == who && who != kSeveral);
}

__attribute__((noinline, cold)) static void report_shared(FindingKind kind, const SharedAccess &access, unsigned at,
                                                          uint64_t first, bool first_stores) {
  Finding finding = blank_finding(kind, access.line);
  if (access.who == kSeveral) finding.lane = -1;
  finding.stores = access.stores;
  finding.offset = at;
  finding.bytes = access.bytes;
  if (first != kNoStamp) name_first(finding, first, first_stores);
  report(finding);
}

__attribute__((noinline, cold)) static void report_pending(const Cell &cell, const SharedAccess &access, unsigned at) {
  const Copy &copy = self->copies[cell.copy - 1];
  Finding finding = blank_finding(kCopyNotWaitedFor, access.line);
  if (access.who == kSeveral) finding.lane = -1;
  finding.stores = access.stores;
  finding.offset = at;
  finding.bytes = access.bytes;
  finding.first_line = copy.line;
  finding.first_warp = (int32_t)copy.warp;
  finding.first_lane = (int32_t)copy.lane;
  finding.first_stores = 1;
  finding.lanes = copy.committed;
  report(finding);
}

/* One access of one cell: reports errors, and records the access. */
static inline void touch(Cell &cell, const SharedAccess &access, unsigned at, Warp &warp, unsigned me, uint64_t stamp) {
  if (__builtin_expect(cell.copy != 0, 0)) {
    report_pending(cell, access, at);
    if (access.stores) cell.copy = 0;
  } else if (!access.stores && Stamp::clock(cell.write) < self->block_start) {
    report_shared(kUninitialisedShared, access, at, kNoStamp, false);
  } else if (__builtin_expect(!ordered(cell.write, warp, me, access.who), 0)) {
    report_shared(kSharedRace, access, at, cell.write, true);
  }
  if (access.stores) {
    if (__builtin_expect(cell.products != 0, 0)) report_shared(kProductUnderWay, access, at, cell.read[me], false);
    cell.unfenced = self->current->proxy_fences.size;
    for (unsigned other = 0; other < self->warp_count; ++other)
      if (__builtin_expect(!ordered(cell.read[other], warp, me, access.who), 0)) {
        report_shared(kSharedRace, access, at, cell.read[other], false);
        break;
      }
    cell.write = stamp;
  } else {
    uint64_t last = cell.read[me];
    bool another = Stamp::clock(last) == Stamp::clock(stamp) && Stamp::lane(last) != access.who;
    cell.read[me] = another ? stamp | (uint64_t)kSeveral << 20 : stamp;
  }
}

/* The cells of the four bytes of a word. */
static Cell *byte_cells(unsigned word) {
  Cell &whole = *cell_at(word);
  if (!whole.split) {
    if (self->splits_used == self->split.size) self->split.push() = (char *)malloc(4 * (size_t)self->cell_bytes);
    char *parts = self->split[self->splits_used++];
    for (unsigned part = 0; part < 4; ++part) memcpy(parts + part * self->cell_bytes, &whole, self->cell_bytes);
    whole.split = self->splits_used;
    self->split_words.push() = word;
  }
  return (Cell *)self->split[whole.split - 1];
}

static inline Cell *byte_cell(Cell *parts, unsigned part) { return (Cell *)((char *)parts + part * self->cell_bytes); }

/* Calls visit(cell, offset) for every cell of the bytes [offset, offset + bytes). */
template <class Visit>
static inline void each_cell(unsigned offset, unsigned bytes, Visit visit) {
  for (unsigned at = offset, end = offset + bytes; at < end;) {
    unsigned word = at / 4, stop = 4 * word + 4 < end ? 4 * word + 4 : end;
    Cell *cell = cell_at(word);
    if (__builtin_expect(stop - at == 4 && !cell->split, 1)) {
      visit(*cell, at);
      at = stop;
      continue;
    }
    for (Cell *parts = byte_cells(word); at < stop; ++at) visit(*byte_cell(parts, at % 4), at);
  }
}

/* Whether the bytes lie in shared memory, aligned; reports where they do not. */
static inline bool shared_place(const SharedAccess &access) {
  if (__builtin_expect((uint64_t)access.offset + access.bytes > self->request->shared_bytes, 0)) {
    report_shared(kSharedBounds, access, access.offset, kNoStamp, false);
    return false;
  }
  if (__builtin_expect(access.offset % access.bytes != 0, 0)) {
    report_shared(kMisaligned, access, access.offset, kNoStamp, false);
    return false;
  }
  return true;
}

static inline void touch_shared(const SharedAccess &access) {
  const Lane &lane = *self->current;
  Warp &warp = self->warps[lane.warp];
  uint64_t stamp = stamp_of(lane, access.who, access.line);
  each_cell(access.offset, access.bytes,
            [&](Cell &cell, unsigned at) { touch(cell, access, at, warp, lane.warp, stamp); });
}

static void *shared_access(unsigned offset, unsigned bytes, int stores, int line) {
  burn(line);
  SharedAccess access = {offset, bytes, self->current->lane, line, stores != 0};
  if (!shared_place(access)) return poisoned();
  note_request(stores ? kSharedStore : kSharedLoad, offset, bytes, line);
  touch_shared(access);
  return self->shared + offset;
}

/* An empty shared memory: of NaNs, and of words that hold nothing. */
static void clear_shared() {
  memset(self->shared, 0xff, self->request->shared_bytes);
  for (uint32_t index = 0; index < self->split_words.size; ++index) cell_at(self->split_words[index])->split = 0;
  self->split_words.size = 0;
  self->splits_used = 0;
}
