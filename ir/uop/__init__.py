"""The uops of Tiny IR: one table, with their attributes, type rules and meaning."""
