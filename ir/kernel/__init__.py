"""Kernels: the parts that the dialects of CPUs and GPUs share."""
