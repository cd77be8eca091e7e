"""C text → a loaded library: the machine, its compiler, the cache."""
