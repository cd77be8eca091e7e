"""Lazy tensors with NumPy's conventions, and the Tiny graph that they build."""
