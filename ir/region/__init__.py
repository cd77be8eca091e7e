"""Regions: one region is one kernel. Its structure, meaning, work and printed form."""
