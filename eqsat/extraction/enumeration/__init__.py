"""Which kernels can compute a buffer: the candidates, from the e-graph's alternatives."""
