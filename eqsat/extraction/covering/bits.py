"""Sets of small numbers as the bits of an integer."""


def members(mask: int) -> list[int]:
    """The positions of the bits set."""
    positions = []
    while mask:
        low = mask & -mask
        positions.append(low.bit_length() - 1)
        mask ^= low
    return positions
