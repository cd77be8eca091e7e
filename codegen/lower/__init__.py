"""A region and its plan → a kernel of the CPU or the GPU dialect."""
