"""Programs that are optimized in processes of their own, so that calls in this process go on meanwhile."""
