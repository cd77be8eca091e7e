"""A saturated e-graph → the cover: candidate kernels, what they cost, and which of them make the program."""
