"""Measures the machine: the speeds of memory, FLOPs and functions, and what the machine has."""
