"""How the buffers between the kernels of a cover lie in memory."""
