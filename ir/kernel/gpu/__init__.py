"""The GPU dialect: a kernel as a tree of statements that every thread of a block executes."""
