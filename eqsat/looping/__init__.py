"""Programs with loops: a graph of parts without loops, and the module that runs them."""
