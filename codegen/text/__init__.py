"""Kernels → C text, and the vector prelude that it stands on."""
