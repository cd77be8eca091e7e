"""A cover → the module: regions, buffers, order, lifetimes."""
