"""Tiny IR → terms → a saturated e-graph, read back as plain data."""
