"""The covering problem: which kernels, so that every output is computed in the least time."""
