"""The fuzzer: `python -m tests.fuzz --tries 20000 --seed 0`.

Every try is a valid program, mutated. It must end in an EqsatError or be a valid program; valid programs that fit a
test machine are compiled, many in one library, and must compute what playback computes (`tests.support.agree`).
Any other exception, a crash, a hang, a wrong result is a finding. It is reduced, its first guilty stage is named, and
a file that reproduces it is written. Tries run in worker processes: one that dies or hangs is cornered by halving.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.support.fuzz_workers import fuzz


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    began = time.perf_counter()
    report = fuzz(options.tries, options.seed, options.start, options.jobs, lambda line: print(line, flush=True))
    print(f"{time.perf_counter() - began:.0f} s; {report}")
    for finding in report.findings:
        print(finding)
    return bool(report.findings)


if __name__ == "__main__":
    sys.exit(main())
