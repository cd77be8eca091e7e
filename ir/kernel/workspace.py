"""The memory that a launch takes besides its arguments."""

from __future__ import annotations

import msgspec


class Workspace(msgspec.Struct, frozen=True):
    """Memory for a launch besides its arguments, in bytes: `shared` by all tasks, `private` to every thread, and
    counters, which are 0 before and after every launch."""

    shared: int = 0
    private: int = 0
    counters: int = 0

    def __or__(self, other: Workspace) -> Workspace:
        """A workspace that is large enough for both."""
        pairs = ((self.shared, other.shared), (self.private, other.private), (self.counters, other.counters))
        return Workspace(*map(max, pairs))
