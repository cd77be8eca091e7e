"""Philox 4x32-10: random words that are a function of a counter and a key.

Ten rounds encrypt a counter of four 32-bit words by a key of two. Every counter gives four words, which look random and
depend on no other counter: the words can be computed in any order, and again wherever they are read.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011. The constants and the order
of the words are those of the authors' library Random123, of cuRAND and of PyTorch's `at::Philox4_32`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WORDS = 4
"""32-bit words of a counter, and of the result for a counter."""
ROUNDS = 10

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(offset: NDArray[Any], subsequence: NDArray[Any], key: NDArray[Any], word: int) -> NDArray[np.uint32]:
    """One word of the result for every counter, as u32.

    Args:
        offset: the low 64 bits of the counters, u64.
        subsequence: the high 64 bits of the counters, u64.
        key: u64. The three arrays broadcast together.
        word: the number of the word, 0 to 3.
    """
    counter = [offset & _LOW, offset >> _HALF, subsequence & _LOW, subsequence >> _HALF]
    keys = [key & _LOW, key >> _HALF]
    for _ in range(ROUNDS):
        first, second = counter[0] * _MULTIPLIERS[0], counter[2] * _MULTIPLIERS[1]
        counter = [
            (second >> _HALF) ^ counter[1] ^ keys[0],
            second & _LOW,
            (first >> _HALF) ^ counter[3] ^ keys[1],
            first & _LOW,
        ]
        keys = [(part + step) & _LOW for part, step in zip(keys, _KEY_STEPS, strict=True)]
    return np.asarray(counter[word]).astype(np.uint32)
