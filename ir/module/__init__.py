"""The program after extraction: its regions in order, the launches of its kernels, and what runs them."""
