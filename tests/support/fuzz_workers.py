"""The fuzzer's processes: ranges of tries in workers; what kills or hangs a worker is cornered by halving its range."""

from __future__ import annotations

import faulthandler
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from tests.support.fuzz_tries import CHUNK_SECONDS, Report, run_chunk, source_of
from tests.support.reproduce import load_finding

CHUNK = 500


def fuzz(tries: int, seed: int, start: int = 0, jobs: int = 2, say: Callable[[str], None] | None = None) -> Report:
    """So many tries from `start` on, in worker processes."""
    report = Report()
    waiting = [(low, min(low + CHUNK, start + tries)) for low in range(start, start + tries, CHUNK)]
    while waiting:
        done, broken = _round(seed, waiting, jobs, report, say)
        waiting = [each for each in waiting if each not in done]
        if broken:
            for each in waiting:
                report.add(_cornered(seed, *each))
            waiting = []
    return report


def _round(
    seed: int, ranges: Sequence[tuple[int, int]], jobs: int, report: Report, say: Callable[[str], None] | None
) -> tuple[set[tuple[int, int]], bool]:
    """Run ranges until all are done or a worker dies or hangs."""
    done: set[tuple[int, int]] = set()
    pool = _pool(jobs)
    futures = {each: pool.submit(run_chunk, seed, *each) for each in ranges}
    try:
        for each, future in futures.items():
            found = future.result(timeout=CHUNK_SECONDS * 2)
            report.add(found)
            done.add(each)
            if say:
                say(f"{each[1]}: {report}" + "".join(f"\n  {finding}" for finding in found.findings))
    except (BrokenProcessPool, TimeoutError):
        return done, True
    finally:
        _stop(pool)
    return done, False


def _cornered(seed: int, low: int, high: int) -> Report:
    """A range, by itself; halved where it kills its worker, down to the guilty try."""
    pool = _pool(1)
    try:
        return pool.submit(run_chunk, seed, low, high).result(timeout=CHUNK_SECONDS)
    except (BrokenProcessPool, TimeoutError) as error:
        if high - low == 1:
            source = source_of(seed, low)
            said = RuntimeError("the process died" if isinstance(error, BrokenProcessPool) else "the process hangs")
            return Report(tries=1, findings=[load_finding(seed, low, source, said, "crash")])
    finally:
        _stop(pool)
    middle = (low + high) // 2
    report = _cornered(seed, low, middle)
    report.add(_cornered(seed, middle, high))
    return report


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=faulthandler.enable)


def _stop(pool: ProcessPoolExecutor) -> None:
    for worker in list((pool._processes or {}).values()):
        worker.kill()
    pool.shutdown(wait=True, cancel_futures=True)
