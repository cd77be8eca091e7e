"""Kernels: what the dialects of CPUs and GPUs share."""
