"""The CPU dialect: a kernel is a tree of statements over vectors of lanes."""
