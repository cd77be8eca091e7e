/* Tickets of counters in global memory, with which blocks publish what they stored (blocks.h). */

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

/* Blocks run one after another, so that a counter which is 0 would stay 0. */
static void await_ticket(void *address, unsigned count, int line) {
  GlobalPlace place = global_place(address, 4, 4, true, line);
  if (!place.host) return;
  uint32_t tickets;
  memcpy(&tickets, place.host, 4);
  if (!tickets) {
    Finding finding = blank_finding(kDeadlock, line);
    finding.lane = -1;
    finding.bytes = kAwaitTicket;
    finding.lanes = 1u << self->current->lane;
    report(finding);
    stop();
  }
  ticket(address, count, line);
}

/* Reports the counters that are not 0 after a launch. */
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
