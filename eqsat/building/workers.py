"""Worker processes: they are started when a program is to be optimized beside the calls of this process, or parts of a
large program beside one another, and kept.

Optimizing a program keeps Python's lock, so that in a thread of this process it delays every call that runs meanwhile.
A worker is a new Python (no fork: threads of this process may hold locks), which reads jobs from a pipe, and ends when
the pipe closes: with this process, however this process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, TypeVar

from eqsat.building.job import BuildAnswer, BuildJob, CoverAnswer, CoverJob, Job, receive, send
from eqsat.clock import Clock
from eqsat.model import BoundModel
from eqsat.options import Options, Running
from eqsat.runtime.artifact import Artifact
from ir.diagnostics import EqsatError, Kind, fail
from ir.target import Target

T = TypeVar("T")

MOST_WORKERS = max(4, os.cpu_count() or 1)
"""Workers at one time. A further job waits for a worker; each may take some hundred MB of memory."""
NICENESS = 10
"""The number that a worker adds to its niceness where calls of programs that are ready go first."""
_START = "import sys; sys.path[:] = sys.argv[2:]; from eqsat.building.worker import main; main(int(sys.argv[1]))"


def can_build_apart(options: Options) -> bool:
    """Whether a worker can optimize with these options: it does not know rules and cost terms of the caller's own, and
    it needs a Python to run in, which is missing where another program embeds this one."""
    own = options.cost_model.own or any("@" in rule for rule in options.rules or ())
    return bool(sys.executable) and not own


def stalls_others() -> bool:
    """Whether another thread of this process would be delayed if this one optimized a program."""
    return threading.active_count() > 1


def make_apart(
    bound: BoundModel, target: Target, options: Options, running: Running, clock: Clock, folder: Path
) -> Artifact:
    """As `eqsat.make_artifact.make_artifact`, in a worker process. Other threads run while this one waits.

    Raises:
        EqsatError: the errors of the build; ResourceExceeded if the worker does not start, or ends before its answer.
    """
    job = BuildJob(bound.graph.to_json(), tuple(sorted(bound.constants)), target, options, running, str(folder))
    with _BUILDERS.places:
        return _BUILDERS.make(job, clock)


class Worker:
    """A process that does one job at a time. has_worked: whether it has answered before."""

    def __init__(self, niceness: int) -> None:
        command = [sys.executable, "-c", _START, str(niceness), *sys.path]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "EQSAT_WORKERS": "0"}
            )
        except OSError as error:
            fail(Kind.RESOURCE_EXCEEDED, "build", f"no process can be started to build the program: {error}")
        self.has_worked = False
        _ALIVE.add(self)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def make(self, job: BuildJob, clock: Clock) -> Artifact | None:
        """The artifact; None if the process has ended without an answer."""
        for answer in self._answers(job, BuildAnswer):
            if answer.stage:
                clock.tell(answer.stage)
                continue
            if answer.artifact is None:
                raise EqsatError(answer.diagnostics)
            return answer.artifact
        return None

    def cover(self, job: CoverJob) -> CoverAnswer | None:
        """The answer about a part; None if the process has ended without one."""
        return next(self._answers(job, CoverAnswer), None)

    def _answers(self, job: Job, kind: type[T]) -> Iterator[T]:
        """The messages of the process about a job, until the process ends."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            send(job, process.stdin)
        while (answer := receive(kind, process.stdout)) is not None:
            self.has_worked = True
            yield answer

    def fail(self) -> NoReturn:
        status = self._process.wait()
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        message = f"the process that built the program ended {how}"
        hint = "its error output says more; signal 9 often means that memory was full"
        fail(Kind.RESOURCE_EXCEEDED, "build", message, hint=hint)

    def close(self) -> None:
        """Closes the pipes, at which the process ends by itself. Their files, not their Python objects: another thread
        of the parent may have held an object's lock when this process was forked."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    os.close(pipe.fileno())

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._process.wait()


class _Workers:
    """Workers of this process. places: one for each worker that may work."""

    def __init__(self, niceness: int) -> None:
        self._niceness = niceness
        self.places = threading.BoundedSemaphore(MOST_WORKERS)
        self._idle: list[Worker] = []

    def make(self, job: BuildJob, clock: Clock) -> Artifact:
        while True:
            worker = self._take()
            try:
                artifact = worker.make(job, clock)
            except EqsatError:
                self._idle.append(worker)
                raise
            except BaseException:  # an interrupt leaves a worker with half a job
                worker.end()
                raise
            if artifact is not None:
                self._idle.append(worker)
                return artifact
            if not worker.has_worked:
                worker.fail()
            worker.end()  # it had been idle for long, and ended by itself: another one is asked

    def end(self) -> None:
        """Ends the workers that have no job."""
        while self._idle:
            self._idle.pop().end()

    def after_fork(self) -> None:
        """In a forked child: workers belong to the parent. The child's ends of their pipes are closed before, so that
        they still end with the parent."""
        self._idle = []
        self.places = threading.BoundedSemaphore(MOST_WORKERS)

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[Worker]:
        """A worker, which waits for other jobs afterwards if it is still running."""
        with self.places:
            worker = self._take()
            try:
                yield worker
            except BaseException:  # it may have half a job
                worker.end()
                raise
            if worker.is_running:
                self._idle.append(worker)

    def _take(self) -> Worker:
        try:
            while not (worker := self._idle.pop()).is_running:  # one step: another thread may take the last one
                worker.end()
        except IndexError:
            return Worker(self._niceness)
        return worker


_ALIVE: weakref.WeakSet[Worker] = weakref.WeakSet()
_BUILDERS, _COVERERS = _Workers(NICENESS), _Workers(0)


def _end_idle() -> None:
    for workers in (_BUILDERS, _COVERERS):
        workers.end()


atexit.register(_end_idle)


def borrowed_worker() -> contextlib.AbstractContextManager[Worker]:
    """A worker for parts of a program that this process waits for; it waits for other jobs afterwards.

    Raises:
        EqsatError: ResourceExceeded if it does not start.
    """
    return _COVERERS.borrowed()


def _after_fork() -> None:
    for worker in list(_ALIVE):
        worker.close()
    for workers in (_BUILDERS, _COVERERS):
        workers.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
