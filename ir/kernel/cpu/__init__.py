"""The CPU dialect: a kernel as a tree of statements over vectors of lanes."""
