"""Plans for GPUs."""
