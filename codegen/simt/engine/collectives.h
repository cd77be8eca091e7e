/* Operations of a whole warp: the last lane to arrive does the work of all. None of them orders memory: only a
   synchronisation does. */

static void perform_shuffle(Warp &warp, uint32_t variant) {
  uint64_t taken[kLanes];
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const Operands &operands = warp.operands[lane];
    unsigned from = lane;
    switch (variant) {
      case EQ_SHUFFLE_XOR: from = lane ^ operands.operand; break;
      case EQ_SHUFFLE_DOWN: from = lane + operands.operand; break;
      case EQ_SHUFFLE_UP: from = lane - operands.operand; break;
      case EQ_SHUFFLE_LANE: from = operands.operand; break;
    }
    if (variant == EQ_SHUFFLE_LANE) from %= kLanes;
    taken[lane] = warp.operands[from < kLanes ? from : lane].value;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) warp.operands[lane].value = taken[lane];
  self->count->shuffles++;
}

static void perform(Warp &warp) {
  uint32_t variant = warp.waits[0] >> 8;
  switch (operation_of(warp.waits[0])) {
    case kSyncWarp:
      warp.seen[warp.lanes[0].warp]++;
      self->count->warp_syncs++;
      break;
    case kLoadMatrix: perform_load_matrix(warp, variant); break;
    case kMultiply: perform_multiply(warp, variant); break;
    case kShuffle: perform_shuffle(warp, variant); break;
    case kWarpgroup: perform_warpgroup(warp, variant); break;
    default: break;
  }
  count_requests(warp);
}
