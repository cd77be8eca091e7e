"""Plans for CPUs."""
