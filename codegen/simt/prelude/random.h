/* eq_random_<word>_u64(offset, subsequence, key): a word of Philox 4x32-10, as `ir.uop.philox` defines it. */

static inline unsigned eq_philox(unsigned long long offset, unsigned long long subsequence, unsigned long long key,
                                 int word) {
  unsigned c[4] = {(unsigned)offset, (unsigned)(offset >> 32), (unsigned)subsequence, (unsigned)(subsequence >> 32)};
  unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
  for (int round = 0; round < 10; round++) {
    const unsigned long long first = 0xD2511F53ull * c[0], second = 0xCD9E8D57ull * c[2];
    c[0] = (unsigned)(second >> 32) ^ c[1] ^ k0, c[1] = (unsigned)second;
    c[2] = (unsigned)(first >> 32) ^ c[3] ^ k1, c[3] = (unsigned)first;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c[word];
}
#define EQ_RANDOM(word)                                                                                 \
  static inline unsigned eq_random_##word##_u64(unsigned long long offset, unsigned long long subsequence, \
                                                unsigned long long key) {                               \
    return eq_philox(offset, subsequence, key, word);                                                   \
  }
EQ_RANDOM(0)
EQ_RANDOM(1)
EQ_RANDOM(2)
EQ_RANDOM(3)
