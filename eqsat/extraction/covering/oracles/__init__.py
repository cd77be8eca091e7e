"""Extractors that judge the default one: optima (exact, windowed), a baseline (tree), random covers (shuffled)."""
