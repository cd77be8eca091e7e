"""Digests of the optimizer's decisions: the covers, plans, prices and kernel texts of many programs.

    python -m bench.digests [--only bert] [--targets cpu,sm_80] [--update]

This bench checks changes that mean to alter nothing. It compares the digests of every program on every target with
those in `bench/results/digests.json`, and names every difference (cover, plans, price or text). `--update` writes the
file instead. Nothing is compiled or run, and the targets are assumed ones, so digests are the same on every machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from bench.arguments import LIGHT, among, containing
from bench.facts import RESULTS
from bench.optimizing import Program, light_program, program_of
from ir.target import Target

PATH = RESULTS / "digests.json"
TARGETS = ("cpu", "sm_80", "sm_90")
HEAVY = ("densenet121", "inception_v2", "NasNet-A", "Inception-v3")
"""Programs with digests for the CPU only: they take long, and their kernels resemble those of other programs."""
JOBS = 2

Digest = Mapping[str, Any]
"""cover, plans, text: hexadecimal digests; price: microseconds, rounded to six digits."""
Task = tuple[str, str]
"""A program and a target."""


def programs() -> dict[str, Callable[[], Program]]:
    """The programs of the benches and of docs/derived.md, light models, encoders, loops, Tensat's graphs."""
    from bench import programs as benches
    from bench import scale, tensat_models
    from docs import derived_programs

    return {
        **{f"bench: {name}": partial(_trace, source) for name, source in benches.programs().items()},
        **{f"derived: {name}": partial(_trace, source) for name, source in derived_programs.PROGRAMS.items()},
        **{f"encoder ×{layers}": partial(scale.encoder, layers) for layers in (1, 4)},
        **{f"light: {name}": partial(light_program, name) for name in LIGHT},
        **{f"loop: {name}": build for name, build in LOOPS.items()},
        **{f"tensat: {name}": entry.build for name, entry in tensat_models.TABLE.items()},
    }


def _lstm() -> Program:
    """An LSTM of 256 units over 64 steps of 8 sequences, whose weights are known."""
    from eqsat import tensor

    x, h, c = tensor.input("x", (64, 8, 128)), tensor.input("h", (8, 256)), tensor.input("c", (8, 256))
    w, r, b = tensor.input("w", (128, 1024)), tensor.input("r", (256, 1024)), tensor.input("b", (1024,))

    def step(state: Any, element: Any) -> Any:
        h, c = state
        gates = element @ w + h @ r + b
        i, f, g, o = (gates[:, 256 * place : 256 * (place + 1)] for place in range(4))
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h, c), h

    _, states = tensor.scan(step, (h, c), x)
    return program_of([states], ("x", "h", "c"))


def _decay() -> Program:
    """A linear recurrence, y[t] = a[t] · y[t - 1] + x[t], of 1,000 steps."""
    from eqsat import tensor

    x, a, y = tensor.input("x", (1000, 512)), tensor.input("a", (1000, 512)), tensor.input("y", (512,))

    def step(state: Any, element: Any) -> Any:
        after = element[1] * state + element[0]
        return after, after

    return program_of([tensor.scan(step, y, (x, a))[1].relu()], ("x", "a", "y"))


LOOPS = {"lstm": _lstm, "decay": _decay}


def _trace(source: Callable[[], Any]) -> Program:
    """A program of lazy tensors."""
    from eqsat.model import read_model

    bound = read_model([source()]).bind({}, strict=False)
    return Program(bound.graph, tuple(sorted(bound.constants)))


def target_named(name: str) -> Target:
    """A CPU of four cores with AVX-512, or a GPU."""
    from eqsat.cost.targets import cpu_target, gpu_target

    if name != "cpu":
        return gpu_target(name)
    return cpu_target(arch="avx512", cores=4, lanes=16, clock_hz=3e9, source="assumed for digests")


def digest(task: Task) -> Digest:
    """The digests of a program on a target."""
    import numpy as np

    from eqsat.clock import Clock
    from eqsat.model import BoundModel
    from eqsat.options import Options
    from eqsat.pipeline import optimize
    from ir.module.dump import dump_module
    from ir.plan.plan_to_schedule import plan_to_schedule
    from ir.serde import to_builtins

    name, target = task[0], target_named(task[1])
    program = programs()[name]()
    bound = BoundModel(program.graph, dict.fromkeys(program.constants, np.empty(0)))
    artifact = optimize(bound, target, Options(), Clock())
    time_ns = sum(price.time_ns * runs for price, runs in zip(artifact.prices, artifact.module.runs, strict=True))
    return {
        "cover": _hash(dump_module(artifact.module, {})),
        "plans": _hash([to_builtins(plan_to_schedule(price.plan)) for price in artifact.prices]),
        "price": float(f"{time_ns / 1e3:.6g}"),
        "text": _hash(dict(artifact.kernels)),
    }


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def tasks(names: Sequence[str], targets: Sequence[str]) -> list[Task]:
    """Programs on targets; the heavy ones on the CPU alone."""
    return [(name, target) for name in names for target in targets if target == "cpu" or not name.endswith(HEAVY)]


def digests(wanted: Sequence[Task], jobs: int = JOBS) -> Iterator[tuple[Task, Digest]]:
    """The digests of the tasks, in order, computed in several processes."""
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=8) as pool:
        yield from zip(wanted, pool.imap(digest, wanted), strict=True)


def difference(before: Digest | None, after: Digest) -> str:
    """The fields that differ, as text; "" if none does."""
    if before is None:
        return "new"
    fields = [field for field in after if after[field] != before.get(field)]
    if "price" in fields:
        fields[fields.index("price")] = f"price {before['price']:g} → {after['price']:g} µs"
    return ", ".join(fields)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="the programs whose names contain this")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--update", action="store_true", help="write the digests instead of comparing them")
    options = parser.parse_args()
    chosen = containing(parser, options.only, programs())
    known = json.loads(PATH.read_text()) if PATH.exists() else {}
    wanted = tasks(chosen, among(parser, "--targets", options.targets, TARGETS))
    changed = 0
    for (name, target), after in digests(wanted):
        key = f"{name} on {target}"
        changes = difference(known.get(key), after)
        changed += bool(changes)
        print(f"{key}: {changes or 'the same'}", flush=True)
        known[key] = after
    print(f"{changed} of {len(wanted)} differ")
    if options.update:
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(known[key])}" for key in sorted(known))
        PATH.write_text(f"{{\n{lines}\n}}\n")
    elif changed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
