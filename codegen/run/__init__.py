"""Machine code → calls on arrays, on the CPU, on a GPU or in the emulator."""
