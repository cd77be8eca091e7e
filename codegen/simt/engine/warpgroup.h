/* Products of warpgroups (wgmma). A warp does its 16 rows of the 64; the verifier sees to it that the four warps of a
   warpgroup do the same.

   A product reads shared memory at the wait for its group, the latest moment at which the hardware may do so. From its
   start to that wait its operands may not be overwritten, and the lanes have NaNs for its accumulators. Layouts are
   those of the PTX ISA's wgmma.mma_async, m64nNk16, with a swizzle of 128 bytes. */

enum WarpgroupOperation : uint32_t { kOrderSums, kStartProduct, kCommitProducts, kWaitForProducts };

static constexpr unsigned kGroupWarps = 4, kChunk = 16, kPanel = 64;

/* The 16 bytes that hold element (number, term), where number counts rows of a or columns of b. */
static inline unsigned chunk_at(unsigned start, int panel, unsigned number, unsigned term) {
  unsigned at = panel ? start + number / kPanel * (unsigned)panel + 128 * term + number % kPanel * 2
                      : start + 128 * number + 2 * term;
  return at ^ (at >> 3 & 7 << 4);
}

/* Calls visit(offset, number, term) for the chunks of `count` rows or columns from `first` on: its elements are eight
   neighbouring terms from `term` on, or, where there are panels, eight neighbouring numbers. */
template <class Visit>
static inline void each_chunk(unsigned start, int panel, unsigned first, unsigned count, Visit visit) {
  unsigned numbers = panel ? 8 : 1, terms = panel ? 1 : 8;
  for (unsigned number = first; number < first + count; number += numbers)
    for (unsigned term = 0; term < kTerms; term += terms) visit(chunk_at(start, panel, number, term), number, term);
}

/* The chunks of both operands that a warp reads. */
template <class Visit>
static inline void each_operand_chunk(const eq_warpgroup_product &product, unsigned warp, Visit visit) {
  auto chunk = [&](unsigned at, unsigned, unsigned) { visit(at); };
  each_chunk(product.a, product.panel_a, warp % kGroupWarps * 16, 16, chunk);
  each_chunk(product.b, product.panel_b, 0, (unsigned)product.columns, chunk);
}

/* Frees the operands of a product that is complete or forgotten. */
static void release_operands(const Product &done, unsigned warp) {
  each_operand_chunk(done.product, warp,
                     [&](unsigned at) { each_cell(at, kChunk, [](Cell &cell, unsigned) { cell.products--; }); });
}

static Sums &sums_at(Warp &warp, float *d, uint32_t count) {
  for (uint32_t index = 0; index < warp.sums.size; ++index)
    if (warp.sums[index].d[0] == d) return warp.sums[index];
  Sums &made = warp.sums.push();
  memset(&made, 0, sizeof made);
  made.d[0] = d;
  made.count = count;
  made.values = (float *)malloc(kLanes * count * sizeof(float));
  return made;
}

/* Whether the lanes still have these bits in their accumulators; null stands for NaNs with all bits set. */
static bool lanes_have(const Sums &sums, const float *values) {
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned each = 0; each < sums.count; ++each)
      if (float_bits(sums.d[lane][each]) != (values ? float_bits(values[lane * sums.count + each]) : ~0u)) return false;
  return true;
}

static void report_of_warp(FindingKind kind, const Warp &warp, int line) {
  Finding finding = blank_finding(kind, line);
  finding.warp = (int32_t)warp.lanes[0].warp;
  finding.lane = -1;
  report(finding);
}

static void start_product(Warp &warp, int line) {
  const eq_warpgroup_product &product = *(const eq_warpgroup_product *)warp.operands[0].result;
  const Lane &first = warp.lanes[0];
  Sums &sums = sums_at(warp, product.d, (uint32_t)product.columns / 2);
  if (!sums.products) {
    for (unsigned lane = 0; lane < kLanes; ++lane)
      sums.d[lane] = ((const eq_warpgroup_product *)warp.operands[lane].result)->d;
    if (!sums.ordered && !(sums.given && lanes_have(sums, sums.values))) report_of_warp(kAccumulatorsTouched, warp, line);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      memcpy(sums.values + lane * sums.count, sums.d[lane], sums.count * sizeof(float));
      memset(sums.d[lane], 0xff, sums.count * sizeof(float));
    }
  }
  sums.products++;
  sums.ordered = sums.given = false;
  uint64_t stamp = stamp_of(first, kSeveral, line);
  bool inside = true;
  each_operand_chunk(product, first.warp, [&](unsigned at) {
    SharedAccess access = {at, kChunk, kSeveral, line, false};
    if (!shared_place(access)) {
      inside = false;
      return;
    }
    each_cell(at, kChunk, [&](Cell &cell, unsigned place) {
      touch(cell, access, place, warp, first.warp, stamp);
      const Warp &writer = self->warps[Stamp::warp(cell.write)];
      unsigned lane = Stamp::lane(cell.write);
      if (Stamp::clock(cell.write) >= self->block_start && lane < kLanes) {
        const auto &fences = writer.lanes[lane].proxy_fences;
        if (fences.size <= cell.unfenced || fences.items[cell.unfenced] > warp.seen[Stamp::warp(cell.write)])
          report_shared(kNotFencedForProducts, access, place, cell.write, true);
      }
    });
  });
  if (!inside) {
    sums.products--;
    return;
  }
  each_operand_chunk(product, first.warp,
                     [&](unsigned at) { each_cell(at, kChunk, [](Cell &cell, unsigned) { cell.products++; }); });
  uint32_t number = (uint32_t)(&sums - warp.sums.items);
  warp.products.push() = {product, warp.product_groups, line, number};
}

typedef float LooseRow __attribute__((vector_size(32), may_alias, aligned(4))); /* eight columns */

template <float convert(uint32_t)>
static void add_product(const eq_warpgroup_product &product, unsigned warp, Sums &sums) {
  float(&a)[16][kTerms] = self->rows;
  float(&b)[kTerms][kMostColumns] = self->columns;
  unsigned columns = (unsigned)product.columns, first = warp % kGroupWarps * 16;
  auto elements = [&](unsigned at, auto place) {
    uint16_t halves[8];
    memcpy(halves, self->shared + at, kChunk);
    for (unsigned each = 0; each < 8; ++each) *place(each) = convert(halves[each]);
  };
  each_chunk(product.a, product.panel_a, first, 16, [&](unsigned at, unsigned row, unsigned term) {
    elements(at, [&](unsigned each) {
      return product.panel_a ? &a[row - first + each][term] : &a[row - first][term + each];
    });
  });
  each_chunk(product.b, product.panel_b, 0, columns, [&](unsigned at, unsigned column, unsigned term) {
    elements(at, [&](unsigned each) { return product.panel_b ? &b[term][column + each] : &b[term + each][column]; });
  });
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned panel = 0; panel < columns; panel += 8) {
      float *places[8];
      Row sum;
      for (unsigned each = 0; each < 8; ++each) {
        places[each] = sums.values + (row % 8 * 4 + each / 2) * sums.count + panel / 2 + row / 8 * 2 + each % 2;
        sum[each] = *places[each];
      }
      for (unsigned term = 0; term < kTerms; ++term) sum += a[row][term] * *(LooseRow *)(b[term] + panel);
      for (unsigned each = 0; each < 8; ++each) *places[each] = sum[each];
    }
  self->count->mma_flops += 2 * 16 * columns * kTerms;
  self->count->wgmma += warp % kGroupWarps == 0;
}

static void finish_product(Warp &warp, const Product &done, int line) {
  Sums &sums = warp.sums[done.sums];
  unsigned number = warp.lanes[0].warp;
  release_operands(done, number);
  if (done.product.format == EQ_MMA_F16) add_product<from_half>(done.product, number, sums);
  else add_product<from_bf16>(done.product, number, sums);
  if (--sums.products) return;
  if (!lanes_have(sums, nullptr)) report_of_warp(kAccumulatorsTouched, warp, line);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    memcpy(sums.d[lane], sums.values + lane * sums.count, sums.count * sizeof(float));
  sums.given = true;
}

static void wait_for_products(Warp &warp, unsigned allowed, int line) {
  uint32_t done = 0;
  while (done < warp.products.size && warp.products[done].group + allowed < warp.product_groups)
    finish_product(warp, warp.products[done++], line);
  warp.products.drop(done);
}

static void perform_warpgroup(Warp &warp, uint32_t variant) {
  int line = warp.line[0];
  const Operands &operands = warp.operands[0];
  switch ((WarpgroupOperation)variant) {
    case kOrderSums: sums_at(warp, (float *)operands.result, operands.operand).ordered = true; break;
    case kStartProduct: start_product(warp, line); break;
    case kCommitProducts: warp.product_groups++; break;
    case kWaitForProducts: wait_for_products(warp, operands.operand, line); break;
  }
}

static void free_sums(Warp &warp) {
  for (uint32_t index = 0; index < warp.sums.size; ++index) free(warp.sums[index].values);
  warp.sums.size = 0;
}

/* Reports products for which the warp did not wait, and forgets them and its accumulators, whose stack ends. */
static void end_products(Warp &warp) {
  if (warp.products.size) report_of_warp(kProductNeverWaitedFor, warp, warp.products[0].line);
  for (uint32_t index = 0; index < warp.products.size; ++index)
    release_operands(warp.products[index], warp.lanes[0].warp);
  warp.products.size = 0;
  free_sums(warp);
}

static void release_products(Warp &warp) {
  free_sums(warp);
  warp.products.release();
  warp.sums.release();
}
