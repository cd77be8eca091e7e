/* Functions in plain C++ on top of the others. The emulator reads this file too, so that each is written once. A function
   of a new uop stands here, unless it needs an instruction of the machine: then it is in scalar.h, and once more in the
   emulator's scalar.h.

   The bits of a float as an unsigned number, and back; f32 and f64 are in base.h. fp16 and bf16, which registers hold as
   float, have 16 bits; those of a NaN are its sign and its upper digits. */

EQ_FN eq_u16 eq_bits_bf16(float x) { return (eq_u16)(eq_bits_f32(x) >> 16); }
EQ_FN float eq_from_bits_bf16(eq_u16 bits) { return eq_low_bf16(bits); }
EQ_FN eq_u16 eq_bits_f16(float x) {
  const unsigned b = eq_bits_f32(x);
  return (eq_u16)(x != x ? (b >> 16 & 0x8000u) | 0x7c00u | (b >> 13 & 0x3ffu) : eq_pack_f16(x, 0) & 0xffffu);
}
EQ_FN float eq_from_bits_f16(eq_u16 bits) {
  const unsigned b = bits;
  return (b & 0x7fffu) > 0x7c00u ? eq_from_bits_f32((b & 0x8000u) << 16 | 0x7f800000u | (b & 0x3ffu) << 13) : eq_low_f16(b);
}
