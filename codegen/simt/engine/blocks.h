/* Order between blocks, by fences and tickets of counters.

   fence, ticket   what the thread has seen at the fence is published with the ticket
   ticket, fence   what earlier tickets of the counter published comes before what the thread does after the fence
   One thread does both (tickets.h); barriers pass it on within a block. Order goes from one block to the next and no
   further. */

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
