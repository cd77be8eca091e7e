"""Threads that build variants while calls go on. They end with the process, whatever they do."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

MOST_THREADS = max(2, (os.cpu_count() or 1) // 2)
"""Builds in the background at one time. Half of the cores stay free for calls."""


class _Background:
    """Tasks in the order of their arrival, and the threads that do them, which end when no task is left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: deque[Callable[[], None]] = deque()
        self._threads = 0

    def add(self, task: Callable[[], None]) -> None:
        with self._lock:
            self._tasks.append(task)
            if self._threads >= MOST_THREADS:
                return
            self._threads += 1
        threading.Thread(target=self._work, name="eqsat build", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._tasks:
                    self._threads -= 1
                    return
                task = self._tasks.popleft()
            task()


_BACKGROUND = _Background()


def in_background(task: Callable[[], None]) -> None:
    """Does the task in a thread of its own, as soon as fewer than `MOST_THREADS` others do. The task raises nothing."""
    _BACKGROUND.add(task)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _BACKGROUND.__init__())  # type: ignore[misc]
