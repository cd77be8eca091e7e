"""The program after extraction: its regions in order, the launches of its kernels, and the protocols that run it."""
