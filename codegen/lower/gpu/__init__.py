"""Lowering for GPUs: a region and its plan → a kernel of the GPU dialect."""
