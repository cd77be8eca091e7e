"""The host machine: atomic files, the cache folder, temporary folders, and the size of memory."""
