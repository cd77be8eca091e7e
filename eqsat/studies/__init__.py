"""Studies of the optimizer on programs of a caller: what every idea is worth, and how true predicted times are."""
