/* eq_random_<word>_u64(offset, subsequence, key): a word of Philox 4x32-10, as `ir.uop.philox` defines it. A product with
   64 bits is one instruction, where __umulhi and a product of the low bits are two. */

EQ_FN uint4 eq_philox(eq_u64 offset, eq_u64 subsequence, eq_u64 key) {
  uint4 c = make_uint4((unsigned)offset, (unsigned)(offset >> 32), (unsigned)subsequence, (unsigned)(subsequence >> 32));
  unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
  EQ_UNROLL
  for (int round = 0; round < 10; round++) {
    const eq_u64 first = (eq_u64)c.x * 0xD2511F53u, second = (eq_u64)c.z * 0xCD9E8D57u;
    c = make_uint4((unsigned)(second >> 32) ^ c.y ^ k0, (unsigned)second, (unsigned)(first >> 32) ^ c.w ^ k1, (unsigned)first);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c;
}
#define EQ_RANDOM(word, part) \
  EQ_FN unsigned eq_random_##word##_u64(eq_u64 offset, eq_u64 subsequence, eq_u64 key) { \
    return eq_philox(offset, subsequence, key).part; \
  }
EQ_RANDOM(0, x)
EQ_RANDOM(1, y)
EQ_RANDOM(2, z)
EQ_RANDOM(3, w)
