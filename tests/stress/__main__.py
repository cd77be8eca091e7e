"""`python -m tests.stress sanitize --programs 320`, or `pool`: exit status 1 where anything was found."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.stress import pool_races
from tests.stress.sanitize import sanitize


def _tell(line: str) -> None:
    print(line, flush=True)


def _sanitize(options: argparse.Namespace) -> bool:
    found = sanitize(options.programs, options.seed, options.jobs, _tell)
    bad, skipped = [each for each in found if each.complaint], [each for each in found if each.skipped]
    kernels = sum(each.kernels for each in found)
    _tell(f"{len(found)} batches, {kernels} kernels, {len(skipped)} batches skipped, {len(bad)} findings")
    return bool(bad)


def _pool(options: argparse.Namespace) -> bool:
    bad = False
    for mode in pool_races.MODES:
        with tempfile.TemporaryDirectory(prefix="eqsat-pool-") as folder:
            said = pool_races.complaint(mode, Path(folder), options.repeats)
        _tell(f"pool, {mode}: {said or 'nothing to say'}")
        bad |= bool(said)
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser(
        "sanitize", help="generated C under AddressSanitizer, UndefinedBehavior- and ThreadSanitizer"
    )
    part.add_argument("--programs", type=int, default=320)
    part.add_argument("--seed", type=int, default=0)
    part.add_argument("--jobs", type=int, default=2)
    part.set_defaults(run=_sanitize)
    part = parts.add_parser("pool", help="the thread pool under ThreadSanitizer")
    part.add_argument("--repeats", type=int, default=1000)
    part.set_defaults(run=_pool)
    options = parser.parse_args()
    began = time.perf_counter()
    bad: bool = options.run(options)
    _tell(f"{time.perf_counter() - began:.0f} s")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
