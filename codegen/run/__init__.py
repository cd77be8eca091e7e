"""A loaded library → calls on arrays."""
