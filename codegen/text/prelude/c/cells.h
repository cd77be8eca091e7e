/* Cells (`ir.kernel.cpu.cells`): lanes of 32 bits with neighbouring terms, the first in the low bits.

     eq_pair_f32(a, b)  eq_pair_i32(a, b)  eq_quad_i32(a, b, c, d)
                                 cells of terms that are values of the narrow type, in registers of fp32 or i32
     eq_dot_pairs_i32(a, b, s)   s + a0*b0 + a1*b1 per lane, of 16-bit integers
     eq_dot_pairs_f32(a, b, s)   the same of bf16; the instruction takes denormal numbers and results for zeros
     eq_dot_quads_i32(a, b, s)   s + a0*b0 + ... + a3*b3 per lane, of unsigned bytes a and signed bytes b */
EQ_FN eq_i32 eq_pair_f32(eq_f32 a, eq_f32 b) { return (eq_i32)((eq_u32)a >> 16 | ((eq_u32)b & 0xffff0000u)); }
EQ_FN eq_i32 eq_pair_i32(eq_i32 a, eq_i32 b) { return (a & 0xffff) | b << 16; }
EQ_FN eq_i32 eq_quad_i32(eq_i32 a, eq_i32 b, eq_i32 c, eq_i32 d) {
  return (a & 0xff) | (b & 0xff) << 8 | (c & 0xff) << 16 | d << 24;
}

EQ_FN eq_i32 eq_dot_pairs_i32(eq_i32 a, eq_i32 b, eq_i32 s) {
#if EQ_X86
  __asm__("vpmaddwd %1, %0, %0" : "+v"(a) : EQ_SOURCE(b));
  return s + a;
#elif EQ_VL == 4 && defined(__SSE2__)
  __asm__("pmaddwd %1, %0" : "+x"(a) : "x"(b));
  return s + a;
#else
  return s + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}

EQ_FN eq_f32 eq_dot_pairs_f32(eq_i32 a, eq_i32 b, eq_f32 s) {
#if EQ_X86 == 512 && defined(__AVX512BF16__)
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(s) : "v"(a), EQ_SOURCE(b));
  return s;
#else
  s = eq_fma_f32((eq_f32)(a & (int32_t)0xffff0000), (eq_f32)(b & (int32_t)0xffff0000), s);
  return eq_fma_f32((eq_f32)(a << 16), (eq_f32)(b << 16), s);
#endif
}

EQ_FN eq_i32 eq_dot_quads_i32(eq_i32 a, eq_i32 b, eq_i32 s) {
#if EQ_X86 == 512 && defined(__AVX512VNNI__)
  __asm__("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(a), EQ_SOURCE(b));
#elif EQ_X86 == 256 && defined(__AVXVNNI__)
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(s) : "x"(a), "x"(b));
#else
  for (int shift = 24; shift >= 0; shift -= 8) s += (a << shift >> 24 & 0xff) * (b << shift >> 24);
#endif
  return s;
}
