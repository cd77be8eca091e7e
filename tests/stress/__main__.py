"""`python -m tests.stress sanitize`, `pool`, `threads`, `kills` or `caches`: exit status 1 where anything was found."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.stress import pool_races
from tests.stress.caches import damaged_caches
from tests.stress.kills import after_kills, garbage
from tests.stress.sanitize import sanitize
from tests.stress.threads import calls_and_forks, first_calls, many_calls


def _tell(line: str) -> None:
    print(line, flush=True)


def _sanitize(options: argparse.Namespace) -> bool:
    result = sanitize(options.programs, options.seed, options.jobs, _tell)
    bad, skipped = (
        [outcome for outcome in result if outcome.complaint],
        [outcome for outcome in result if outcome.skipped],
    )
    kernels = sum(outcome.kernels for outcome in result)
    _tell(f"{len(result)} batches, {kernels} kernels, {len(skipped)} batches skipped, {len(bad)} findings")
    return bool(bad)


def _pool(options: argparse.Namespace) -> bool:
    bad = False
    for mode in pool_races.MODES:
        with tempfile.TemporaryDirectory(prefix="eqsat-pool-") as folder:
            said = pool_races.complaint(mode, Path(folder), options.repeats)
        _tell(f"pool, {mode}: {said or 'nothing to say'}")
        bad |= bool(said)
    return bad


def _threads(options: argparse.Namespace) -> bool:
    return _told(
        [
            *many_calls(options.threads, options.calls),
            *first_calls(options.threads, 9),
            *calls_and_forks(options.threads, options.calls),
        ]
    )


def _kills(options: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory(prefix="eqsat-kills-") as name:
        complaints, _ = after_kills(Path(name), options.kills, options.seed)
        return _told([*complaints, *(f"left behind: {path}" for path in garbage(Path(name)))])


def _caches(options: argparse.Namespace) -> bool:
    one, several = (damaged_caches(options.rounds, options.seed, whole) for whole in (False, True))
    return _told([*one, *several])


def _told(complaints: list[str]) -> bool:
    for complaint in complaints:
        _tell(complaint)
    _tell(f"{len(complaints)} findings")
    return bool(complaints)


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
    part = parts.add_parser("threads", help="many threads that call the same and different programs, and fork")
    part.add_argument("--threads", type=int, default=32)
    part.add_argument("--calls", type=int, default=50)
    part.set_defaults(run=_threads)
    part = parts.add_parser("kills", help="processes that are killed while they compile, save and write the cache")
    part.add_argument("--kills", type=int, default=60)
    part.add_argument("--seed", type=int, default=0)
    part.set_defaults(run=_kills)
    part = parts.add_parser("caches", help="caches whose files were damaged")
    part.add_argument("--rounds", type=int, default=130)
    part.add_argument("--seed", type=int, default=0)
    part.set_defaults(run=_caches)
    options = parser.parse_args()
    began = time.perf_counter()
    bad: bool = options.run(options)
    _tell(f"{time.perf_counter() - began:.0f} s")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
