"""Kernels → C or CUDA text, and the preludes on which the texts stand."""
