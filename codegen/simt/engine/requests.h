/* The memory instructions of a warp, put together from what its lanes do one after another: bank conflicts of shared
   memory, 32-byte sectors of global memory.

   Between two operations of the warp, the first accesses of all lanes from one place of the text are one instruction,
   the second ones from there another. A lane that a condition leaves out is missing in it. Shared memory has 32 banks of four bytes and serves 128 bytes in a pass: 32 lanes of at most 4 bytes, 16 of 8, 8
   of 16. A bank serves one word a pass, to any number of lanes; each further word is a conflict. */

enum RequestKind : uint32_t { kSharedLoad, kSharedStore, kGlobalLoad, kGlobalStore, kCopySource, kCopyTarget };

static Site &site_of(Warp &warp, uint32_t key, unsigned bytes) {
  for (uint32_t index = 0; index < warp.sites.size; ++index)
    if (warp.sites[index].key == key) return warp.sites[index];
  Site &made = warp.sites.push();
  memset(&made, 0, sizeof made);
  made.key = key;
  made.bytes = bytes;
  return made;
}

static void note_request(RequestKind kind, uint64_t address, unsigned bytes, int line) {
  unsigned lane = self->current->lane;
  Warp &warp = self->warps[self->current->warp];
  Site &site = site_of(warp, (uint32_t)line << 8 | bytes << 3 | kind, bytes);
  uint32_t time = site.times[lane]++;
  if (time == site.requests.size) {
    site.requests.push().lanes = 0;
    warp.pending_requests++;
  }
  Request &request = site.requests[time];
  request.lanes |= 1u << lane;
  request.address[lane] = address;
}

/* Conflicts of one pass over `count` places. An aligned access of 8 or 16 bytes holds its 2 or 4 banks together, so
   that what is counted is how many different ones want the same banks. */
static unsigned pass_conflicts(const uint64_t *places, unsigned count, unsigned bytes) {
  unsigned unit = bytes < 4 ? 4 : bytes, slots = 128 / unit, others = 0, most = 0;
  uint64_t first[kLanes], other[kLanes];
  uint8_t load[kLanes] = {0};
  for (unsigned index = 0; index < count; ++index) {
    uint64_t word = places[index] / unit;
    unsigned slot = word % slots;
    if (!load[slot]) {
      first[slot] = word;
      load[slot] = 1;
    } else if (first[slot] != word) {
      bool known = false;
      for (unsigned back = 0; back < others && !known; ++back) known = other[back] == word;
      if (known) continue;
      other[others++] = word;
      if (load[slot]++ > most) most = load[slot] - 1;
    }
  }
  return most;
}

static unsigned bank_conflicts(const Request &request, unsigned bytes) {
  unsigned lanes_a_pass = bytes <= 4 ? 32 : 128 / bytes, conflicts = 0;
  for (unsigned start = 0; start < kLanes; start += lanes_a_pass) {
    uint64_t places[kLanes];
    unsigned count = 0;
    for (unsigned lane = start; lane < start + lanes_a_pass; ++lane)
      if (request.lanes >> lane & 1) places[count++] = request.address[lane];
    conflicts += pass_conflicts(places, count, bytes);
  }
  return conflicts;
}

static unsigned sectors(const Request &request) {
  uint64_t found[kLanes];
  unsigned count = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!(request.lanes >> lane & 1)) continue;
    uint64_t sector = request.address[lane] / 32;
    bool known = false;
    for (unsigned back = count; back > 0 && !known; --back) known = found[back - 1] == sector;
    if (!known) found[count++] = sector;
  }
  return count;
}

static void count_request(const Request &request, RequestKind kind, unsigned bytes) {
  Counters &count = *self->count;
  switch (kind) {
    case kSharedLoad: count.shared_loads++, count.shared_bank_conflicts += bank_conflicts(request, bytes); break;
    case kSharedStore: count.shared_stores++, count.shared_bank_conflicts += bank_conflicts(request, bytes); break;
    case kGlobalLoad: count.global_loads++, count.global_load_sectors += sectors(request); break;
    case kGlobalStore: count.global_stores++, count.global_store_sectors += sectors(request); break;
    case kCopySource: count.global_load_sectors += sectors(request); break;
    case kCopyTarget: count.copy_requests++, count.copy_bank_conflicts += bank_conflicts(request, bytes); break;
  }
}

/* Counts the instructions of the warp so far; all its lanes are at one place. */
static void count_requests(Warp &warp) {
  if (!warp.pending_requests) return;
  for (uint32_t index = 0; index < warp.sites.size; ++index) {
    Site &site = warp.sites[index];
    if (!site.requests.size) continue;
    for (uint32_t time = 0; time < site.requests.size; ++time)
      count_request(site.requests[time], (RequestKind)(site.key & 7), site.bytes);
    site.requests.size = 0;
    memset(site.times, 0, sizeof site.times);
  }
  warp.pending_requests = 0;
}

static void release_requests(Warp &warp) {
  for (uint32_t index = 0; index < warp.sites.size; ++index) warp.sites[index].requests.release();
  warp.sites.release();
}
