"""The fuzzer: `python -m tests.fuzz --hours 1`, or `--kind idioms --tries 2000 --seed 3`.

Three kinds of tries:

idioms    programs as people write them (`tests.support.fuzz.idioms`): on whole numbers, which have one answer, and on
          other numbers;
emulated  the same, smaller, for both GPU dialects in the emulator;
mutated   valid programs, damaged (`tests.support.fuzz.mutate`). What is no program must end in an EqsatError.

Programs are compiled, many in one library, and must compute what playback computes (`tests.support.oracles.agree`). A
second evaluator evaluates some of them, too (`tests.support.oracles.plain_numpy`). Any other exception, a crash, a
hang, a wrong result is a finding: it is reduced and kept as a file. Findings of idioms go to tests/found, where a test
runs them again.

Tries run in worker processes on all cores. A corpus in the cache folder says which were done, so that another run goes
on from there; --start takes numbered tries again instead, and leaves the corpus as it is.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.fuzz.corpus import Corpus, Tries, corpus_folder
from tests.support.fuzz.report import Report
from tests.support.fuzz.workers import fuzz

SHARES = {"idioms": 0.5, "emulated": 0.15, "mutated": 0.35}
"""Of the time, where all kinds are tried."""
RANGES = {"idioms": 16, "emulated": 16, "mutated": 200}
"""Tries that a worker takes at once."""
SLICE_SECONDS = 600.0
"""Of each kind in turn, at most."""
FOUND = Path(__file__).parent / "found"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=[*RANGES, "all"], default="all")
    parser.add_argument("--hours", type=float, help="of wall clock (default: one, where no --tries are given)")
    parser.add_argument("--tries", type=int, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, help="the first try; the corpus is not asked")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--corpus", type=Path, help="a folder (default: in the cache folder)")
    parser.add_argument("--found", type=Path, default=FOUND, help="the folder of findings")
    options = parser.parse_args()
    kinds = list(RANGES) if options.kind == "all" else [options.kind]
    seconds = 3600 * (options.hours if options.hours is not None else 1.0 if options.tries is None else 1e6)
    until, result = time.monotonic() + seconds, Report()
    left = dict.fromkeys(kinds, sys.maxsize if options.tries is None else options.tries)
    starts = dict.fromkeys(kinds, options.start)
    while any(left.values()) and time.monotonic() < until:
        for kind in [kind for kind in kinds if left[kind]]:
            share = SLICE_SECONDS * SHARES[kind] / max(SHARES.values()) if len(kinds) > 1 else seconds
            corpus = (
                None if options.start is not None else Corpus(options.corpus or corpus_folder(), kind, options.seed)
            )
            ranges = corpus.ranges(RANGES[kind]) if corpus else _numbered(starts[kind] or 0, RANGES[kind])
            limited = _until(_first(ranges, left[kind]), min(until, time.monotonic() + share))
            total = _run(limited, kind, options, corpus)
            left[kind] -= min(left[kind], total.tries)
            starts[kind] = (starts[kind] or 0) + total.tries
            result.findings += total.findings
    for finding in result.findings:
        print(finding)
    return bool(result.findings)


def _run(ranges: Iterator[Tries], kind: str, options: argparse.Namespace, corpus: Corpus | None) -> Report:
    """Yields the reports of these ranges as the ranges end."""
    total, began = Report(), time.monotonic()
    for tries, report in fuzz(ranges, kind, options.seed, options.found, options.jobs):
        total.add(report)
        new = corpus.done(tries, report) if corpus and tries else []
        print(f"{kind}, seed {options.seed}, {time.monotonic() - began:.0f} s: {total}", flush=True)
        for line in (*(f"  first {idiom}" for idiom in new if corpus and corpus.total.tries > 2000), *report.findings):
            print(line, flush=True)
    if corpus:
        print(f"{kind}, seed {options.seed}, of all runs: {corpus.total}", flush=True)
    return total


def _numbered(start: int, length: int) -> Iterator[Tries]:
    for low in itertools.count(start, length):
        yield tuple(range(low, low + length))


def _first(ranges: Iterator[Tries], tries: int) -> Iterator[Tries]:
    """Ranges of no more than so many tries in all; at least one range of a corpus."""
    while tries > 0:
        numbers = next(ranges)
        yield numbers[:tries]
        tries -= len(numbers)


def _until(ranges: Iterator[Tries], moment: float) -> Iterator[Tries]:
    while time.monotonic() < moment:
        numbers = next(ranges, None)
        if numbers is None:
            return
        yield numbers


if __name__ == "__main__":
    sys.exit(main())
