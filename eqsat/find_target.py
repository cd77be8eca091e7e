"""The target that a name stands for on this machine."""

from __future__ import annotations

from codegen.compile.machine import machine, restrict
from codegen.measure.calibration import find_calibration
from codegen.run.device import Device, find_device
from eqsat.cost.targets import GPUS, cpu_target, device_target, gpu_target, nominal_cpu
from ir.diagnostics import Kind, fail
from ir.target import Target


def find_target(wanted: str | Target) -> Target:
    """The target by name; "auto" is this machine's GPU, or its CPU where it has none that kernels are written for.

    Raises:
        EqsatError: UnknownTarget for an unknown name, for an instruction set that this machine lacks, and for a GPU
            without clock_hz, issue or shared_bytes; NoCompiler where "calibrated" has to be measured without one.
    """
    if isinstance(wanted, Target):
        _require_known(wanted)
        return wanted
    if isinstance(wanted, str) and wanted.lower().replace("_", "") in GPUS:
        return gpu_target(wanted)
    match wanted:
        case "auto":
            device = find_device()
            return (device and target_of(device)) or _nominal_target()
        case "cpu":
            return _nominal_target()
        case "calibrated":
            return calibrated_target()
        case _:
            hint = f"auto, cpu, calibrated, {', '.join(GPUS)}, or a Target"
            fail(Kind.UNKNOWN_TARGET, "target", f"there is no target {wanted!r}", hint=hint)


def _require_known(target: Target) -> None:
    """Raises an EqsatError where kernels cannot be planned for the target."""
    if not target.is_gpu:
        restrict(machine(), target.arch)
    elif not (target.clock_hz and target.issue and target.shared_bytes):
        message = f"the target {target.name} states no clock_hz, issue or shared_bytes"
        fail(Kind.UNKNOWN_TARGET, "target", message, hint="change a known target with msgspec.structs.replace")


def _nominal_target() -> Target:
    """This machine's CPU with nominal figures."""
    here = machine()
    return nominal_cpu(
        arch=here.arch,
        cores=here.cores,
        lanes=here.lanes,
        fma_per_cycle=here.fma_per_cycle,
        l1_bytes=here.l1_bytes,
        l2_bytes=here.l2_bytes,
        l3_bytes=here.l3_bytes,
        source=f"{here.cpu}, nominal",
    )


def target_of(device: Device) -> Target | None:
    """The target of a present GPU; None for a generation that no kernels are written for."""
    return device_target(
        device.name,
        device.arch,
        device.units,
        clock_hz=device.clock_hz,
        bandwidth=device.bandwidth,
        l2_bytes=device.l2_bytes,
    )


def calibrated_target(*, again: bool = False) -> Target:
    """This machine's CPU with figures that were measured on it: those that `eqsat doctor` or an earlier call kept, else
    (or `again`) measured now, in a few seconds. Another measurement is another target, and may give another cover.

    Raises:
        EqsatError: NoCompiler where there is none.
    """
    calibration = find_calibration(again=again)
    here, memory = calibration.machine, calibration.memory
    cycle = calibration.cycle_ns
    bf16 = calibration.peaks.bf16_flops.get(here.cores, 0.0) * 2 / here.fma_per_cycle
    return cpu_target(
        name="cpu calibrated",
        arch=here.arch,
        cores=here.cores,
        lanes=here.lanes,
        clock_hz=1e9 / cycle,
        fma_per_cycle=here.fma_per_cycle,
        bandwidth=memory.memory,
        cache_bandwidth=memory.l3,
        l2_bandwidth=memory.l2,
        unit_bandwidth=memory.alone,
        launch_ns=memory.call_ns + memory.fork_ns,
        call_ns=memory.call_ns,
        l1_bytes=here.l1_bytes,
        l2_bytes=here.l2_bytes,
        l3_bytes=here.l3_bytes,
        native={"bf16": bf16, "i8": 2 * bf16, "u8": 2 * bf16} if bf16 else {},
        weights=calibration.weights,
        vector_cycles=memory.vector_ns / cycle,
        lane_cycles=memory.lane_ns / cycle,
        far_cycles=memory.far_ns / cycle,
        source=f"{here.cpu}, measured, {calibration.compiler}",
    )
