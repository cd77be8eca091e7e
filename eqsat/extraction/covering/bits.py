"""Sets of small numbers as the bits of an integer."""


def members(mask: int) -> list[int]:
    """The positions of the bits set."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
