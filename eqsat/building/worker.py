"""The main function of a worker process: it answers one job after another until the process that it works for ends."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import threading
from pathlib import Path
from typing import BinaryIO

import numpy as np

from eqsat.build_code import build_code
from eqsat.building.job import BuildAnswer, BuildJob, CoverAnswer, CoverJob, Job, receive_job, send
from eqsat.clock import Clock
from eqsat.cover_part import cover_part
from eqsat.failure.internal_error import public_call
from eqsat.failure.reproducer_calls import of_compile
from eqsat.garbage_collector import uncollected
from eqsat.looping.parts import Part
from eqsat.make_artifact import make_artifact
from eqsat.model import BoundModel, zero_constants
from eqsat.options import Options, Running
from eqsat.planning.target_pricer import pricer_for
from eqsat.runtime.artifact import Artifact
from ir.diagnostics import EqsatError
from ir.target import Target
from ir.tiny.bind import load

IDLE_SECONDS = 60.0
"""A worker without a job ends after this time, to give back its memory."""


def main(niceness: int) -> None:
    """Read jobs from the standard input and write answers to the standard output, until the input ends. niceness: is
    added to that of the process that started this one."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not stand between the messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits for the answer
    if hasattr(os, "nice"):
        os.nice(niceness)
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs, waiting), daemon=True).start()
    with contextlib.suppress(queue.Empty, BrokenPipeError):
        while True:
            job = waiting.get(timeout=IDLE_SECONDS)
            send(_cover(job) if isinstance(job, CoverJob) else _answer(job, answers), answers)


def _listen(jobs: BinaryIO, waiting: queue.SimpleQueue[Job]) -> None:
    """Hands on every job. At the end of the input nobody waits any more, so the process ends at once."""
    while (job := receive_job(jobs)) is not None:
        waiting.put(job)
    os._exit(0)


@uncollected()
def _cover(job: CoverJob) -> CoverAnswer:
    graph, _ = load(job.tiny)
    part = Part(job.name, graph, job.reads, job.constants, job.given)
    pricer = pricer_for(job.target, job.options)
    try:
        covered = cover_part(part, job.edges, pricer, job.target, job.options, Clock())
        return CoverAnswer(pickle.dumps((covered[1:], pricer.known)))
    except Exception:  # the process that asks meets the error as well, and tells it in its own words
        return CoverAnswer()


def _answer(job: BuildJob, answers: BinaryIO) -> BuildAnswer:
    graph, _ = load(job.tiny)
    constants = dict.fromkeys(job.constants, np.empty(0)) | zero_constants(graph, job.constants)
    bound = BoundModel(graph, constants)
    clock = Clock(lambda stage: send(BuildAnswer(stage=stage), answers))
    try:
        return BuildAnswer(artifact=_build(bound, job.target, job.options, clock, job.running, Path(job.folder)))
    except EqsatError as error:
        return BuildAnswer(diagnostics=error.diagnostics)


@public_call(lambda name, args, keywords: of_compile(name, (*args[:3], True, None, args[4]), {}))
def _build(
    bound: BoundModel, target: Target, options: Options, clock: Clock, running: Running, folder: Path
) -> Artifact:
    """The artifact. Its machine code is left in the cache, where the process that asked finds it."""
    artifact = make_artifact(bound, target, options, running, clock, folder)
    with clock.stage("compile"):
        build_code(artifact, running, folder)
    return artifact
