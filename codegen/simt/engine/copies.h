/* Asynchronous copies (cp.async): from its start to the wait of the thread that started it, the target holds NaNs and
   may not be touched. The wait makes it a store of that thread, at that moment: other threads see it after the next
   synchronisation, like any other store. Only committed groups can be waited for. */

static void copy_async(unsigned offset, const void *address, unsigned bytes, unsigned valid, int line) {
  burn(line);
  Lane &lane = *self->current;
  SharedAccess access = {offset, bytes, lane.lane, line, true};
  if (valid > bytes) {
    Finding finding = blank_finding(kBadOperand, line);
    finding.bytes = bytes;
    finding.lanes = valid;
    report(finding);
    valid = bytes;
  }
  if (!shared_place(access)) return;
  const char *source = nullptr;
  if (valid) {
    GlobalPlace place = global_place(address, valid, bytes, false, line);
    if (place.host) touch_global(place, valid, false, line);
    note_request(kCopySource, (uint64_t)address, bytes, line);
    source = place.host;
  }
  note_request(kCopyTarget, offset, bytes, line);
  touch_shared(access);
  self->copies.push() = {source, offset, bytes, source ? valid : 0, line, lane.warp, lane.lane, false};
  uint32_t number = self->copies.size;
  each_cell(offset, bytes, [&](Cell &cell, unsigned) { cell.copy = number; });
  memset(self->shared + offset, 0xff, bytes);
  lane.copies.push() = number - 1;
  lane.uncommitted++;
  self->count->copy_bytes += bytes;
}

static void commit(int) {
  Lane &lane = *self->current;
  for (uint32_t back = 1; back <= lane.uncommitted; ++back)
    self->copies[lane.copies[lane.copies.size - back]].committed = true;
  lane.groups.push() = lane.uncommitted;
  lane.uncommitted = 0;
  self->count->copy_groups += lane.lane == 0;
}

static void complete(const Copy &copy, uint32_t number, Lane &lane) {
  uint64_t stamp = stamp_of(lane, lane.lane, copy.line);
  bool whole = true;
  each_cell(copy.offset, copy.bytes, [&](Cell &cell, unsigned) {
    if (cell.copy != number) {
      whole = false; /* a store to the target was reported */
      return;
    }
    cell.copy = 0;
    cell.write = stamp;
    cell.unfenced = lane.proxy_fences.size;
  });
  if (!whole) return;
  char *target = self->shared + copy.offset;
  memset(target, 0, copy.bytes);
  if (copy.valid) memcpy(target, copy.source, copy.valid);
}

static void wait(unsigned allowed, int) {
  Lane &lane = *self->current;
  self->count->copy_waits += lane.lane == 0;
  if (lane.groups.size <= allowed) return;
  uint32_t groups = lane.groups.size - allowed, done = 0;
  for (uint32_t group = 0; group < groups; ++group) done += lane.groups[group];
  for (uint32_t index = 0; index < done; ++index) {
    uint32_t number = lane.copies[index];
    complete(self->copies[number], number + 1, lane);
  }
  lane.copies.drop(done);
  lane.groups.drop(groups);
}

/* Reports copies for which no thread waited before the end of the thread that started them. */
static void check_copies(const Lane &lane) {
  if (!lane.copies.size) return;
  const Copy &copy = self->copies[lane.copies.items[0]];
  Finding finding = blank_finding(kCopyNeverWaitedFor, copy.line);
  finding.offset = copy.offset;
  finding.bytes = copy.bytes;
  finding.lanes = copy.committed;
  report(finding);
}
