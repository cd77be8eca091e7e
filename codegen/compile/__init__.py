"""Text → a shared library or cubins: the machine, its compilers, the cache."""
