"""The known answers of philox4x32-10 in Random123 (`tests/kat_vectors`): zeros, all ones, and the digits of π."""

from __future__ import annotations

import numpy as np

_HIGHEST = 2**64 - 1
COUNTERS_AND_KEYS = (
    np.array([0, _HIGHEST, 0x85A308D3243F6A88], np.uint64),
    np.array([0, _HIGHEST, 0x0370734413198A2E], np.uint64),
    np.array([0, _HIGHEST, 0x299F31D0A4093822], np.uint64),
)
"""The low 64 bits of the counters, the high 64 bits, and the keys. In Random123's table the first of two words is the
low one."""
ANSWERS = np.array(
    [
        [0x6627E8D5, 0x408F276D, 0xD16CFE09],
        [0xE169C58D, 0x41C83B0E, 0x94FDCCEB],
        [0xBC57AC4C, 0xA20BC7C6, 0x5001E420],
        [0x9B00DBD8, 0x6D5451FD, 0x24126EA1],
    ],
    np.uint32,
)
"""By word and counter."""
