/* Global memory: bounds of each buffer, and races between blocks and between the threads of one.

   A kernel gets addresses that exist nowhere: each buffer starts in the middle of 2^40 bytes of its own, so that no
   offset, however wrong, leads from one buffer into another. Buffers that a kernel may store to have an entry for each
   element; blocks run one after another, yet are taken as unordered but for what they publish (blocks.h). */

static constexpr unsigned kSlotBits = 40;
static constexpr uint64_t kMiddle = (uint64_t)1 << (kSlotBits - 1);

struct GlobalPlace {
  uint32_t buffer;
  int64_t offset;
  char *host;
};

__attribute__((noinline, cold)) static void report_global(FindingKind kind, const GlobalPlace &place, unsigned bytes,
                                                          bool stores, int line, uint64_t first, bool first_stores) {
  Finding finding = blank_finding(kind, line);
  finding.stores = stores;
  finding.buffer = place.buffer;
  finding.offset = place.offset;
  finding.bytes = bytes;
  if (place.buffer < self->request->buffer_count) finding.lanes = self->request->buffers[place.buffer].bytes;
  if (first != kNoStamp) name_first(finding, first, first_stores);
  report(finding);
}

/* The address of the bytes; host is null, and the reason is reported, where they may not be accessed. */
static inline GlobalPlace global_place(const void *address, unsigned bytes, unsigned alignment, bool stores, int line) {
  uint64_t value = (uint64_t)address, within = value & (2 * kMiddle - 1);
  GlobalPlace place = {(uint32_t)(value >> kSlotBits) - 1, (int64_t)within - (int64_t)kMiddle, nullptr};
  bool known = place.buffer < self->request->buffer_count;
  const Buffer *buffer = known ? &self->request->buffers[place.buffer] : nullptr;
  if (!known || place.offset < 0 || (uint64_t)place.offset + bytes > buffer->bytes)
    report_global(kGlobalBounds, place, bytes, stores, line, kNoStamp, false);
  else if (place.offset % alignment)
    report_global(kMisaligned, place, alignment, stores, line, kNoStamp, false);
  else if (stores && !buffer->writable)
    report_global(kReadOnlyStore, place, bytes, stores, line, kNoStamp, false);
  else
    place.host = buffer->host + place.offset;
  return place;
}

static inline bool from_another_block(uint64_t stamp) {
  return stamp != kNoStamp && Stamp::clock(stamp) < self->block_start;
}

/* Whether `earlier` is a race with this access; reports it. */
static inline bool races(uint64_t earlier, bool earlier_stores, const GlobalPlace &place, unsigned bytes, bool stores,
                         int line) {
  const Lane &lane = *self->current;
  if (__builtin_expect(from_another_block(earlier), 0)) {
    if (passed_on(earlier)) return false;
    report_global(kBlockRace, place, bytes, stores, line, earlier, earlier_stores);
    return true;
  }
  if (__builtin_expect(earlier == kNoStamp || ordered(earlier, self->warps[lane.warp], lane.warp, lane.lane), 1))
    return false;
  report_global(kGlobalRace, place, bytes, stores, line, earlier, earlier_stores);
  return true;
}

static inline void touch_global(const GlobalPlace &place, unsigned bytes, bool stores, int line) {
  GlobalEntry *entries = self->entries[place.buffer];
  if (!entries) return;
  const Lane &lane = *self->current;
  uint64_t stamp = stamp_of(lane, lane.lane, line);
  unsigned element = self->request->buffers[place.buffer].element_bytes;
  uint64_t end = ((uint64_t)place.offset + bytes + element - 1) / element;
  for (uint64_t index = (uint64_t)place.offset / element; index < end; ++index) {
    GlobalEntry &entry = entries[index];
    bool found = races(entry.write, true, place, bytes, stores, line);
    if (stores) {
      found = found || races(entry.read_before, false, place, bytes, true, line) ||
              races(entry.read, false, place, bytes, true, line);
      entry.write = stamp;
    } else {
      if (from_another_block(entry.read)) entry.read_before = entry.read;
      entry.read = stamp;
    }
  }
}

static void *global_access(const void *address, unsigned bytes, int stores, int line) {
  burn(line);
  GlobalPlace place = global_place(address, bytes, bytes, stores != 0, line);
  if (!place.host) return poisoned();
  note_request(stores ? kGlobalStore : kGlobalLoad, (uint64_t)address, bytes, line);
  touch_global(place, bytes, stores != 0, line);
  return place.host;
}
