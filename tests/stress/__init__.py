"""What a program must stand: sanitizers, many threads, processes killed at any moment, damaged caches, full disks."""
