"""Lowering for CPUs: a region and its plan → a kernel of the CPU dialect."""
