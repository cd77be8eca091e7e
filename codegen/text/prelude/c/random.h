/* eq_random_<word>_u64(offset, subsequence, key): a word of Philox 4x32-10, as `ir.uop.philox` defines it.

   A 64-bit lane holds a word of the counter in its low half. The product of the low halves of two lanes is one instruction,
   and its halves are the two words that a round needs. The high halves of lanes hold rests of earlier products; only the
   low halves count. */

#if defined(__clang__) /* knows the instruction by this form */
EQ_FN eq_u64h eq_product_of_words(eq_u64h a, eq_u64h b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
#elif EQ_X86 == 512
EQ_FN eq_u64h eq_product_of_words(eq_u64h a, eq_u64h b) {
  typedef EQ_VECTOR(long long, 8) eight; /* the type that the compiler names, where int64_t is long */
  return (eq_u64h)__builtin_ia32_pmuludq512_mask((eq_i32)a, (eq_i32)b, (eight)a, 0xff);
}
#elif EQ_X86 == 256
EQ_FN eq_u64h eq_product_of_words(eq_u64h a, eq_u64h b) {
  return (eq_u64h)__builtin_ia32_pmuludq256((eq_i32)a, (eq_i32)b);
}
#elif EQ_VL == 4 && defined(__SSE2__)
EQ_FN eq_u64h eq_product_of_words(eq_u64h a, eq_u64h b) {
  return (eq_u64h)__builtin_ia32_pmuludq128((eq_i32)a, (eq_i32)b);
}
#else
EQ_FN eq_u64h eq_product_of_words(eq_u64h a, eq_u64h b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
#endif

EQ_FN eq_u64h eq_philox(eq_u64h offset, eq_u64h subsequence, eq_u64h key, int word) {
  eq_u64h c0 = offset, c1 = offset >> 32, c2 = subsequence, c3 = subsequence >> 32, k0 = key, k1 = key >> 32;
  EQ_UNROLL(10)
  for (int round = 0; round < 10; round++) {
    eq_u64h first = eq_product_of_words(c0, eq_imm_u64h(0xD2511F53u));
    eq_u64h second = eq_product_of_words(c2, eq_imm_u64h(0xCD9E8D57u));
    c0 = (second >> 32) ^ c1 ^ k0, c1 = second;
    c2 = (first >> 32) ^ c3 ^ k1, c3 = first;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
}

#define EQ_RANDOM(word)                                                                                  \
  EQ_FN eq_u32 eq_random_##word##_u64(eq_u64 offset, eq_u64 subsequence, eq_u64 key) {                   \
    eq_u64h lo = eq_philox(offset.lo, subsequence.lo, key.lo, word);                                     \
    eq_u64h hi = eq_philox(offset.hi, subsequence.hi, key.hi, word);                                     \
    return (eq_u32)eq_narrow((eq_i64h)lo, (eq_i64h)hi);                                                  \
  }                                                                                                      \
  /* The same function as a call, as in vmath.h. */                                                      \
  EQ_CALL eq_u32 eq_far_random_##word##_u64(eq_u64 offset, eq_u64 subsequence, eq_u64 key) {             \
    return eq_random_##word##_u64(offset, subsequence, key);                                             \
  }
EQ_RANDOM(0)
EQ_RANDOM(1)
EQ_RANDOM(2)
EQ_RANDOM(3)
