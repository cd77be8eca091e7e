/* Floats and the bits that hold them. */

static inline uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

/* Exact. 2^112 moves the bias of the exponent from 15 to 127, denormals included. Larger
   values are infinite or NaN. */
static inline float from_half(uint32_t half) {
  float scaled = float_of((half & 0x7fff) << 13) * 0x1p112f;
  uint32_t special = (half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
  return float_of(float_bits(scaled) | special | (half & 0x8000) << 16);
}

static inline float from_bf16(uint32_t half) { return float_of(half << 16); }

typedef float Row __attribute__((vector_size(32), may_alias)); /* eight columns */
