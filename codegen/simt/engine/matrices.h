/* Matrices of a warp: ldmatrix and mma. Layouts are those of the PTX ISA's "Matrix Fragments" and of ldmatrix. */

/* A row's 16 bytes of shared memory, read by the warp as one. */
static void read_row(const Lane &lane, unsigned offset, unsigned *words, int line) {
  SharedAccess access = {offset, 16, kSeveral, line, false};
  if (!shared_place(access)) {
    memset(words, 0xff, 16);
    return;
  }
  Warp &warp = self->warps[lane.warp];
  uint64_t stamp = stamp_of(lane, kSeveral, line);
  each_cell(offset, 16, [&](Cell &cell, unsigned at) { touch(cell, access, at, warp, lane.warp, stamp); });
  memcpy(words, self->shared + offset, 16);
}

static void perform_load_matrix(Warp &warp, uint32_t variant) {
  bool transposed = variant & 1;
  unsigned matrices = variant >> 1;
  unsigned rows[4][8][4];
  for (unsigned matrix = 0; matrix < matrices; ++matrix) {
    uint64_t places[8];
    for (unsigned row = 0; row < 8; ++row) {
      places[row] = warp.operands[8 * matrix + row].operand;
      read_row(warp.lanes[0], (unsigned)places[row], rows[matrix][row], warp.line[0]);
    }
    self->count->matrix_bank_conflicts += pass_conflicts(places, 8, 16);
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    unsigned *fragment = (unsigned *)warp.operands[lane].result;
    for (unsigned matrix = 0; matrix < matrices; ++matrix) {
      if (!transposed) {
        fragment[matrix] = rows[matrix][lane / 4][lane % 4];
        continue;
      }
      unsigned column = lane / 4, row = 2 * (lane % 4), shift = 16 * (column % 2);
      unsigned low = rows[matrix][row][column / 2] >> shift & 0xffff;
      unsigned high = rows[matrix][row + 1][column / 2] >> shift & 0xffff;
      fragment[matrix] = low | high << 16;
    }
  }
  self->count->ldmatrix++;
}

/* d += a·b of fragments that are put together as matrices, in the order of k. */
template <unsigned K>
static void multiply_matrices(Warp &warp, const float (&a)[16][K], const Row (&b)[K]) {
  alignas(32) float d[16][8];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned half = 0; half < 2; ++half)
      memcpy(&d[lane / 4 + 8 * half][lane % 4 * 2], (float *)warp.operands[lane].result + 2 * half, 8);
  for (unsigned row = 0; row < 16; ++row) {
    Row sum = *(Row *)d[row];
    for (unsigned k = 0; k < K; ++k) sum += a[row][k] * b[k];
    *(Row *)d[row] = sum;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned half = 0; half < 2; ++half)
      memcpy((float *)warp.operands[lane].result + 2 * half, &d[lane / 4 + 8 * half][lane % 4 * 2], 8);
  self->count->mma++;
  self->count->mma_flops += 2 * 16 * 8 * K;
}

template <float convert(uint32_t)>
static void multiply_halves(Warp &warp) {
  uint32_t a_bits[16][16], b_bits[16][8];
  float a[16][16];
  Row b[16];
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const Operands &operands = warp.operands[lane];
    unsigned group = lane / 4, pair = lane % 4 * 2;
    for (unsigned index = 0; index < 4; ++index) {
      unsigned row = group + index % 2 * 8, column = pair + index / 2 * 8;
      a_bits[row][column] = operands.a[index] & 0xffff;
      a_bits[row][column + 1] = operands.a[index] >> 16;
    }
    for (unsigned index = 0; index < 2; ++index) {
      b_bits[pair + index * 8][group] = operands.b[index] & 0xffff;
      b_bits[pair + index * 8 + 1][group] = operands.b[index] >> 16;
    }
  }
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned column = 0; column < 16; ++column) a[row][column] = convert(a_bits[row][column]);
    for (unsigned column = 0; column < 8; ++column) b[row][column] = convert(b_bits[row][column]);
  }
  multiply_matrices<16>(warp, a, b);
}

/* tf32: the hardware ignores the low 13 bits. */
static void multiply_tf32(Warp &warp) {
  float a[16][8];
  Row b[8];
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const Operands &operands = warp.operands[lane];
    unsigned group = lane / 4, place = lane % 4;
    for (unsigned index = 0; index < 4; ++index)
      a[group + index % 2 * 8][place + index / 2 * 4] = float_of(operands.a[index] & ~0x1fffu);
    for (unsigned index = 0; index < 2; ++index)
      b[place + index * 4][group] = float_of(operands.b[index] & ~0x1fffu);
  }
  multiply_matrices<8>(warp, a, b);
}

static void perform_multiply(Warp &warp, uint32_t variant) {
  switch (variant) {
    case EQ_MMA_F16: multiply_halves<from_half>(warp); break;
    case EQ_MMA_BF16: multiply_halves<from_bf16>(warp); break;
    case EQ_MMA_TF32: multiply_tf32(warp); break;
  }
}
