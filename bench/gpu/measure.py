"""Measures one case on a device: compares the outputs of eqsat and its peers, then times them, as a row of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from bench.device.ceilings import Ceilings
from bench.device.clock import Clock, Runner, Times
from bench.device.kernel_by_kernel import kernel_by_kernel
from bench.gpu.case import Case
from bench.gpu.lab import Lab, draw
from bench.gpu.peers import AbsentError, peers_of, runner
from bench.gpu.place import tell
from eqsat import Program, optimize_and_compile
from ir.kernel.gpu.limits import own_arch
from ir.target import Target

Row = dict[str, Any]
OURS = "eqsat"
WARPGROUPS = "eqsat, sm_90a"
"""eqsat's program for a target with warpgroups, which is an own target until hardware has run it."""
NO_NUMBER = 1e30
"""The error of a result that is not finite, since JSON has no infinity."""


def measure_case(
    case: Case,
    lab: Lab,
    clock: Clock,
    ceilings: Ceilings | None,
    seconds: float,
    left_out: Mapping[str, str] | None = None,
    *,
    autotune: bool = False,
) -> Row:
    """The row of a case; its samples take `seconds`. If the outputs are wrong, the row says so and has no times.
    left_out: peers that are not run, with the reasons. autotune: eqsat's plans are chosen by measurement."""
    tell("eqsat compiles")
    program = optimize_and_compile(
        case.lazy(), target=lab.target, emulate=lab.emulate, exactness=case.exactness, tf32=case.tf32, autotune=autotune
    )
    tell("inputs are drawn")
    given, out = [lab.put(array) for array in draw(case)], lab.allocate_poisoned(case.result, case.dtype)
    named = dict(zip(case.inputs, given, strict=True))
    with kernel_by_kernel(lambda kernel: tell(f"eqsat's kernel {kernel} runs"), lab.wait):
        program(named, out=out)
    result = lab.get(out)
    runs, errors, absent = _peers(case, lab, given, result, left_out or {})
    row: Row = {"case": case.name, "group": case.group, "flops": case.flops, "bytes": case.nbytes}
    row |= {"errors": errors, "absent": absent, "kernels": _kernels(program), "estimated us": program.cost / 1e3}
    if errors and not runs:
        differences = ", ".join(f"{name} by {error:.1e}" for name, error in errors.items())
        return row | {"failed": f"not timed: eqsat differs from {differences} of the norm"}
    if not errors:
        row["errors"] = {"playback of the small case": _verify_small(case, lab)}
    runs |= _with_warpgroups(case, lab, named, result, row)
    tell(f"samples are taken: eqsat ({', '.join(kernel.function for kernel in program.kernels)}), {', '.join(runs)}")
    times = clock.measure({OURS: lambda: program(named, out=out), **runs}, seconds)
    return row | _figures(case, times, ceilings)


def _with_warpgroups(case: Case, lab: Lab, named: Mapping[str, Any], result: np.ndarray, row: Row) -> dict[str, Runner]:
    """The runner of eqsat's program with warpgroups, where the device has them, a kernel of the program takes them, and
    its result agrees; the row has its error, or the reason why it is absent."""
    target = warpgroup_target(lab.target)
    if target is None:
        return {}
    tell(f"{WARPGROUPS} compiles")
    program = optimize_and_compile(
        case.lazy(), target=target, emulate=lab.emulate, exactness=case.exactness, tf32=case.tf32
    )
    if "eq_wgmma" not in program.source():
        return {}
    out = lab.allocate_poisoned(case.result, case.dtype)
    with kernel_by_kernel(lambda kernel: tell(f"the kernel {kernel} of {WARPGROUPS} runs"), lab.wait):
        program(named, out=out)
    error = error_of(lab.get(out), result)
    if error > case.tolerance:
        row["absent"][WARPGROUPS] = f"differs from eqsat by {error:.1e} of the norm"
        return {}
    row["errors"][WARPGROUPS] = error
    return {WARPGROUPS: lambda: program(named, out=out)}


def warpgroup_target(target: Target) -> Target | None:
    """The target with the instructions of its architecture alone; None if it has none, or has them already."""
    arch = own_arch(target.arch)
    return msgspec.structs.replace(target, arch=arch) if arch != target.arch else None


def error_of(result: np.ndarray, expected: np.ndarray) -> float:
    """‖result − expected‖ / ‖expected‖; `NO_NUMBER` if either is not finite."""
    wide = expected.astype(np.float64)
    error = float(np.linalg.norm(result - wide) / max(float(np.linalg.norm(wide)), 1e-30))
    return error if math.isfinite(error) else NO_NUMBER


def _peers(
    case: Case, lab: Lab, given: Sequence[Any], result: np.ndarray, left_out: Mapping[str, str]
) -> tuple[dict[str, Runner], dict[str, float], dict[str, str]]:
    """Runners of the peers that agree, the errors of peers that compute, and the reasons why others are absent."""
    runs: dict[str, Runner] = {}
    errors: dict[str, float] = {}
    absent: dict[str, str] = {}
    for name in peers_of(case.group):
        if name in left_out or not lab.has_peers:
            absent[name] = left_out.get(name, "torch with CUDA is not installed")
            continue
        tell(f"{name} runs")
        try:
            run = runner(name, case, given)
            errors[name] = error_of(result, lab.get(run()))
        except AbsentError as error:
            absent[name] = str(error)
            continue
        if errors[name] <= case.tolerance:
            runs[name] = run
    return runs, errors, absent


def _verify_small(case: Case, lab: Lab) -> float:
    """Without a peer: the error of the small case against playback, which raises if the result is wrong."""
    program = optimize_and_compile(
        case.small().lazy(), target=lab.target, emulate=lab.emulate, exactness=case.exactness, tf32=case.tf32
    )
    return max(program.verify().values())


def _kernels(program: Program) -> list[Row]:
    return [
        {
            "name": kernel.function,
            "grid": kernel.geometry.grid if kernel.geometry else (),
            "threads": kernel.geometry.threads if kernel.geometry else 0,
            "shared bytes": kernel.geometry.shared_bytes if kernel.geometry else 0,
            "registers": kernel.resources.registers if kernel.resources else None,
        }
        for kernel in program.kernels
    ]


def _figures(case: Case, times: dict[str, Times], ceilings: Ceilings | None) -> Row:
    """Rates of eqsat, its share of the ceiling if that is known, and its speed relative to the fastest peer."""
    own = times[OURS].median
    peers = {name: taken.median for name, taken in times.items() if name not in (OURS, WARPGROUPS)}
    best = min(peers, key=peers.__getitem__) if peers else None
    return {
        "times": {
            name: {
                "us": 1e6 * taken.median,
                "quartiles us": [1e6 * taken.low, 1e6 * taken.high],
                "samples": taken.samples,
            }
            for name, taken in times.items()
        },
        "TFLOP/s": case.flops / own / 1e12,
        "GB/s": case.nbytes / own / 1e9,
        "of ceiling": ceilings.floor_s(case.flops_of_halves, case.nbytes) / own if ceilings else None,
        "best peer": best,
        "ratio": peers[best] / own if best else None,
    }
