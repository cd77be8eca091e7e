"""What the worker of the GPU bench answers. (Not in `__main__`, whose functions a spawned process does not find.)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bench.gpu.worker import Answer


class Request(NamedTuple):
    """A request to a worker: the name of the case, seconds of samples, and the peers to leave out with the reasons.
    `ceilings` is empty if they were not measured."""

    case: str
    seconds: float
    ceilings: Mapping[str, float]
    autotune: bool = False
    left_out: Mapping[str, str] | None = None


def answers() -> Answer:
    """Runs in the worker: returns the function that answers "ceilings" and `Request`s by this machine's GPU."""
    from bench.device.ceilings import Ceilings, measure_ceilings
    from bench.device.clock import EventClock
    from bench.device.launch import CudaDevice
    from bench.gpu.cases import cases
    from bench.gpu.lab import cuda_lab
    from bench.gpu.measure import measure_case
    from codegen.plan.gpu.contraction_work import MMA_SYNC
    from eqsat.find_target import target_of

    device = CudaDevice()
    gpu = device.gpu
    target = target_of(gpu)
    if target is None:
        raise ValueError(f"no kernels are written for {gpu.name} ({gpu.arch})")
    lab, clock, known = cuda_lab(target), EventClock(), cases()

    def answer(request: str | Request) -> dict[str, Any]:
        if isinstance(request, str):
            sheet_flops = target.peak_flops["bf16"] if target.arch in MMA_SYNC else 0.0
            return measure_ceilings(device, clock, 2 * gpu.units, sheet_flops=sheet_flops)._asdict()
        case, ceilings = known[request.case], Ceilings(**request.ceilings) if request.ceilings else None
        try:
            return measure_case(
                case, lab, clock, ceilings, request.seconds, request.left_out, autotune=request.autotune
            )
        finally:
            lab.release()

    return answer
