"""The speeds of a device, from the attributes that its driver reports."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from codegen.run import device
from codegen.run.device import Device, _attribute, _speeds, runs_cubins
from ir.diagnostics import EqsatError

ATTRIBUTES = {13: 1_410_000, 36: 1_593_000, 37: 5120, 38: 40 << 20}
"""Of an A100 of 80 GB: clocks in kHz, the width of its memory in bits, bytes of its cache."""


def test_attributes_tell_clock_bandwidth_and_cache() -> None:
    result = _speeds(ATTRIBUTES.__getitem__)
    assert result["clock_hz"] == 1.41e9
    assert result["bandwidth"] == pytest.approx(2.039e12, rel=1e-3)
    assert result["l2_bytes"] == 40 << 20


def test_an_attribute_that_the_driver_refuses_is_0() -> None:
    def refuse(number: int, device: int) -> int:
        raise RuntimeError("cudaErrorInvalidValue")

    assert _attribute(SimpleNamespace(deviceGetAttribute=refuse), 0, 36) == 0
    assert _attribute(SimpleNamespace(deviceGetAttribute=lambda number, device: 7), 0, 36) == 7
    assert _speeds(lambda number: 0)["bandwidth"] == 0


@pytest.mark.parametrize(
    ("capability", "arch", "runs"),
    [
        ("80", "sm_80", True),
        ("86", "sm80", True),
        ("80", "sm_86", False),
        ("90", "sm_80", False),
        ("90", "sm_90a", True),
        ("91", "sm_90", True),
        ("91", "sm_90a", False),
        ("100", "sm_100a", True),
        ("103", "sm_100a", False),
    ],
)
def test_cubins_run_on_later_minor_versions_unless_they_are_of_one_architecture(
    capability: str, arch: str, runs: bool
) -> None:
    assert runs_cubins(capability, arch) == runs


@pytest.mark.parametrize(("capability", "arch"), [("90", "sm_80"), ("100", "sm_90"), ("120", "sm80")])
def test_newer_devices_run_the_ptx(capability: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = Device("a newer one", capability, 100, 1 << 30, 13000)
    monkeypatch.setattr(device, "find_device", lambda: newer)
    assert device.device_for(arch) is newer
    assert not runs_cubins(capability, arch)
    for refused in ("sm_130", "sm_80a"):
        with pytest.raises(EqsatError, match=f"the program is for {refused}"):
            device.device_for(refused)
