"""The GPU dialect: a kernel is a tree of statements that every thread of a block executes."""
