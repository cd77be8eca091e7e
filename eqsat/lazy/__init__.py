"""Lazy tensors: NumPy's habits, and the Tiny graph that they build."""
