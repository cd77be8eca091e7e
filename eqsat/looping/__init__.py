"""Programs of several parts: what is optimized by itself, once, and the loops and calls that repeat it."""
