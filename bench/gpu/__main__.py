"""Compares eqsat with cuBLAS, cuDNN, FlashAttention, torch.compile and Triton on a GPU: `python -m bench.gpu`.

    python -m bench.gpu [--only TEXT] [--without PEER,PEER] [--autotune] [--minutes 18] [--seconds 1.5] [--again]
                        [--to FOLDER] [--list]
    python -m bench.gpu --all       tests, fixtures, this bench and compute-sanitizer, all bounded, in slices

Outputs are compared before anything is timed. A case has a time limit, in a process that is replaced if it hangs or
dies. The file `gpu_<device>_cuda<major version>.json` is complete after every case. A second run continues where the
first ended, in the same folder or from the file in `bench/results`. `--again`, another source or other versions start
from scratch. Without a GPU the bench ends with status 2.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.device.facts import device_facts, require_device
from bench.facts import RESULTS
from bench.gpu.answers import Request, answers
from bench.gpu.cases import chosen
from bench.gpu.peers import COMPILING, PEERS
from bench.gpu.results import TUNED, Results
from bench.gpu.tables import show, title
from bench.gpu.worker import LostError, NoStartError, Worker, working

CASE_SECONDS = 90.0
"""Time limit of a case, its compilation and that of its peers included."""
LEAST_SECONDS = 15.0
"""No case is started if less time is left of the run."""


def bench(
    results: Results,
    names: Sequence[str],
    worker: Worker,
    seconds: float,
    deadline: float,
    *,
    limit: float = CASE_SECONDS,
    autotune: bool = False,
    without: Sequence[str] = (),
) -> list[str]:
    """Measures the cases that have no row yet, until the deadline (`time.monotonic`); returns the names left over.
    `without`: peers that are not run.

    Raises:
        NoStartError: if no worker starts here.
    """
    if not results.ceilings:
        try:
            results.ceilings = worker.ask("ceilings", limit)
            results.write()
        except NoStartError:
            raise
        except LostError as error:
            print(f"the ceilings of this device were not measured: {error}", flush=True)
    left = [name for name in names if not results.is_done(row_name(name, autotune))]
    while left and deadline - time.monotonic() > LEAST_SECONDS:
        request = Request(left[0], seconds, results.ceilings, autotune, dict.fromkeys(without, "left out by --without"))
        row = _ask(worker, request, deadline, limit) | {"case": row_name(left.pop(0), autotune)}
        results.keep(row)
        print(f"{row['case']}: {_summary(row)}", flush=True)
    return left


def row_name(case: str, autotune: bool) -> str:
    """The name of a case's row."""
    return case + TUNED if autotune else case


def _ask(worker: Worker, request: Request, deadline: float, limit: float) -> dict[str, Any]:
    """The row of a case. If the worker is lost, the case is tried once more without the peers that compile."""
    while True:
        try:
            row: dict[str, Any] = worker.ask(request, min(limit, max(1.0, deadline - time.monotonic())))
            return row
        except NoStartError:
            raise
        except LostError as error:
            left_out = request.left_out or {}
            if left_out.keys() >= set(COMPILING) or deadline - time.monotonic() < LEAST_SECONDS:
                return {"failed": str(error)}
            reason = f"left out once the case was lost with it: {error}"
            request = request._replace(left_out={**dict.fromkeys(COMPILING, reason), **left_out})


def _summary(row: dict[str, Any]) -> str:
    if "times" not in row:
        return str(row.get("failed", "failed"))
    beside = f", {row['ratio']:.2f}× {row['best peer']}" if row["best peer"] else ""
    share = f", {100 * row['of ceiling']:.0f} % of the ceiling" if row["of ceiling"] is not None else ""
    return f"{row['times']['eqsat']['us']:,.1f} µs{share}{beside}"


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this, or a group: gemm, conv, memory …")
    parser.add_argument("--without", default="", metavar="PEERS", help=f"peers that are not run: {', '.join(PEERS)}")
    parser.add_argument("--autotune", action="store_true", help="measure eqsat's best plans and take the fastest")
    parser.add_argument("--minutes", type=float, default=18, help="no case starts later")
    parser.add_argument("--seconds", type=float, default=1.5, help="of samples for a case")
    parser.add_argument("--again", action="store_true", help="measure cases with results again")
    parser.add_argument("--to", type=Path, default=RESULTS, help="the folder of the results")
    parser.add_argument("--list", action="store_true", help="print the cases, and measure nothing")
    parser.add_argument("--all", action="store_true", help="the whole session")
    return parser


def main() -> None:
    start = time.monotonic()
    parser = arguments()
    options = parser.parse_args()
    names = chosen(options.only)
    if not names:
        known = ", ".join(chosen(""))
        parser.error(f"--only: no case's name contains {options.only!r}: {known}")
    without = [peer for peer in options.without.split(",") if peer]
    if unknown := set(without) - set(PEERS):
        parser.error(f"--without: no peer is called {', '.join(sorted(unknown))}; peers are {', '.join(PEERS)}")
    if options.list:
        print(*names, sep="\n")
        return
    facts = device_facts(require_device())
    if options.all:
        from bench.gpu.session import session

        raise SystemExit(session(facts, options.to, start + 60 * options.minutes))
    results = Results(facts, options.to, options.again)
    with working(answers) as worker:
        deadline = start + 60 * options.minutes
        try:
            left = bench(results, names, worker, options.seconds, deadline, autotune=options.autotune, without=without)
        except NoStartError as error:
            raise SystemExit(f"nothing can be measured here: {error}") from None
    rows = [row for name, row in results.rows.items() if name.removesuffix(TUNED) in names]
    show(rows, title(facts["device"], results.ceilings))
    print(f"written to {results.path}")
    if left:
        print(f"{len(left)} cases are left: run the same command again")


if __name__ == "__main__":
    main()
