"""Kernels of several outputs."""
