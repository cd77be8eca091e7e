"""torch's samples of its operators, on the CPU: which eqsat computes as eager does, and why not the others.

    python -m bench.opinfo [--only OPERATORS] [--dtype float32] [--seconds 120] [--update] [--resume] [--minutes 30]

Every sample is traced to ATen operators, lowered and compiled as `torch.compile` does it, run, and compared with eager
under OpInfo's tolerances. `--playback` evaluates the lowering on NumPy instead, in a tenth of the time.

`--update` writes the counts into `bench/results/opinfo.json`, an operator at a time; without it, operators whose counts
differ from that file are printed. `--resume` leaves out the operators that the file has.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from bench.opinfo import table
from bench.opinfo.run_samples import CRASH, UNSUPPORTED, WRONG, Outcome, by_kernels, by_playback, run_samples
from bench.opinfo.samples import DTYPES, operators, samples_of, tolerances
from bench.own_process import CrashError, call_alone
from eqsat.frontends.torch.trace import trace


def outcomes_of(name: str, element: str, options: argparse.Namespace) -> list[Outcome]:
    """How the samples of an operator end, computed in a process of their own, which may crash."""
    try:
        return call_alone(_outcomes_here, name, element, options, start="fork")
    except CrashError as error:
        return [Outcome(CRASH, str(error))] * len(samples_of(operators(name)[name], element, options.step))


def _outcomes_here(name: str, element: str, options: argparse.Namespace) -> list[Outcome]:
    info = operators(name)[name]
    execute = by_playback if options.playback else by_kernels
    samples = samples_of(info, element, options.step)
    return run_samples(samples, execute, tolerances(info, element), options.seconds, options.together)


def _load() -> None:
    """Imports what a compilation needs, so that the processes of the operators need not. egglog is left out: it starts
    threads, which a forked process does not have."""
    trace(lambda x: [x + 1], torch.zeros(1))
    for module in ("codegen.lower.cpu.lower", "codegen.plan.cpu.candidates", "codegen.text.program_to_c"):
        importlib.import_module(module)


def _report(families: Iterable[tuple[str, Sequence[Outcome]]]) -> None:
    """Prints how the samples ended, the operators that they lack, and which samples are wrong."""
    kinds: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for name, outcomes in families:
        kinds.update(outcome.kind for outcome in outcomes)
        for outcome in outcomes:
            if outcome.kind == UNSUPPORTED:
                lacking = outcome.reason.split(", ") if ":" not in outcome.reason else [outcome.reason]
                missing.update(lacking)
                alone.update(lacking if len(lacking) == 1 else [])
        for (kind, reason), count in Counter(outcomes).most_common():
            if kind in (WRONG, CRASH):
                print(f"{name}: {count} {kind}: {reason}", flush=True)
    for operator, count in missing.most_common():
        print(f"{count:6} samples lack {operator}, {alone[operator]} of them only that")
    for kind, count in kinds.most_common():
        print(f"{count:6} {kind}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="operators by name, such as add,nn.functional.linear")
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    parser.add_argument("--seconds", type=int, default=120, help="the limit of a program of some samples")
    parser.add_argument("--together", type=int, default=25, help="the most samples in a program")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no operator after so many minutes")
    parser.add_argument("--step", type=int, default=1, help="only every so-manieth sample of an operator")
    parser.add_argument("--playback", action="store_true", help="evaluate the lowering on NumPy; nothing is compiled")
    parser.add_argument("--part", default="0/1", help="k/n: of the operators, those with number k modulo n")
    parser.add_argument("--update", action="store_true", help="write the counts")
    parser.add_argument("--resume", action="store_true", help="leave out the operators that have counts")
    options = parser.parse_args()
    if options.update and options.playback:
        parser.error("the table counts what kernels compute")
    return options


def main() -> None:
    options = _arguments()
    _load()
    stop = time.monotonic() + 60 * options.minutes
    title = table.title(options.dtype, options.step)
    part, parts = map(int, options.part.split("/"))
    names = [name for place, name in enumerate(operators(options.only)) if place % parts == part]
    families: list[tuple[str, list[Outcome]]] = []
    for name in names:
        if time.monotonic() > stop:
            break
        row: dict[str, Any] = table.read().get(title, {}).get(name, {})
        if options.resume and row:
            continue
        outcomes = outcomes_of(name, options.dtype, options)
        if not outcomes:
            continue
        families.append((name, outcomes))
        counts = table.counts(outcomes)
        if options.update:
            table.write(title, name, counts)
        if options.update or row != counts:
            print(f"{name}: {counts}", flush=True)
    _report(families)


if __name__ == "__main__":
    main()
