"""The host machine: files that appear whole, the cache folder, and how much memory there is."""
