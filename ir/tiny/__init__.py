"""Tiny IR: the graph of uops, its written form, its checks, and its meaning on NumPy arrays."""
