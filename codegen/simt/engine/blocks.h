/* Order between blocks, by fences and tickets of counters.

   fence, ticket   what the thread has seen at the fence is published with the ticket
   ticket, fence   what earlier tickets of the counter published comes before what the thread does after the fence
   One thread does both; barriers pass it on within a block. Order goes from one block to the next and no further. */

static void fence(int line) {
  burn(line);
  Lane &lane = *self->current;
  const Warp &warp = self->warps[lane.warp];
  for (uint32_t index = 0; index < self->taken.size; ++index) {
    Ticket &ticket = self->taken[index];
    if (ticket.thread != lane.number) continue;
    self->acquired.push() = {ticket.counter, ticket.number, stamp_of(lane, lane.lane, line)};
    ticket.thread = ~0u;
  }
  lane.fenced = self->fences.size + 1;
  self->fences.push() = {warp.seen[lane.warp] + 1, lane.warp, lane.lane, self->clocks.size};
  for (unsigned other = 0; other < self->warp_count; ++other) self->clocks.push() = warp.seen[other];
}

static unsigned ticket(void *address, unsigned count, int line) {
  burn(line);
  GlobalPlace place = global_place(address, 4, 4, true, line);
  if (!place.host) return 0;
  Lane &lane = *self->current;
  uint64_t &tickets = self->entries[place.buffer][place.offset / 4].write;
  self->taken.push() = {(uint64_t)address, (uint32_t)tickets, lane.number};
  if (lane.fenced) self->published.push() = {(uint64_t)address, (uint32_t)tickets, lane.fenced - 1};
  tickets++;
  uint32_t before, after;
  memcpy(&before, place.host, 4);
  after = before >= count - 1 ? 0 : before + 1;
  memcpy(place.host, &after, 4);
  return before;
}

static inline bool seen_by(const FenceView &view, uint64_t stamp) {
  unsigned warp = Stamp::warp(stamp);
  return Stamp::clock(stamp) <= self->clocks[view.clocks + warp] ||
         (warp == view.warp && Stamp::lane(stamp) == view.lane && Stamp::clock(stamp) <= view.own);
}

/* Whether an access of an earlier block was published to this thread. */
static bool passed_on(uint64_t earlier) {
  const Lane &lane = *self->current;
  uint32_t order = order_at(Stamp::clock(earlier));
  uint32_t end = order + 1 < self->block_published.size ? self->block_published[order + 1] : self->published.size;
  for (uint32_t index = 0; index < self->acquired.size; ++index) {
    const Acquired &acquired = self->acquired[index];
    if (!ordered(acquired.stamp, self->warps[lane.warp], lane.warp, lane.lane)) continue;
    for (uint32_t each = self->block_published[order]; each < end; ++each) {
      const Published &published = self->published[each];
      if (published.counter == acquired.counter && published.number < acquired.number &&
          seen_by(self->fences[published.fence], earlier))
        return true;
    }
  }
  return false;
}

/* The counters that a launch leaves at another number than 0. */
static void check_counters() {
  for (uint32_t index = 0; index < self->request->buffer_count; ++index) {
    const Buffer &buffer = self->request->buffers[index];
    for (uint64_t at = 0; buffer.counts && at + 4 <= buffer.bytes; at += 4) {
      uint32_t value;
      memcpy(&value, buffer.host + at, 4);
      if (!value) continue;
      Finding finding = blank_finding(kCounterLeft, -1);
      finding.buffer = index;
      finding.offset = (int64_t)at;
      finding.bytes = 4;
      finding.lanes = value;
      report(finding);
    }
  }
}
