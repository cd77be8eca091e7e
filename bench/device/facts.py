"""Facts about a measurement on a GPU, and the message if there is no GPU."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from bench.facts import commit
from codegen.compile.nvrtc import nvrtc_version
from codegen.run.device import Device, find_device, has_driver
from eqsat.runtime.artifact_cache import source_digest
from ir.diagnostics import EqsatError

NO_DEVICE = "there is no CUDA device here that CuPy and NVRTC can use ({}): nothing was run, nothing is written"
PACKAGES = ("torch", "triton", "flash-attn", "cupy-cuda13x", "numpy")


def require_device() -> Device:
    """The GPU; without one the process prints a message and ends with status 2."""
    device = find_device()
    if device is None:
        print(NO_DEVICE.format(" ".join(_reason().split())), file=sys.stderr)
        sys.exit(2)
    return device


def _reason() -> str:
    """Why `find_device` finds none."""
    if not has_driver():
        return "libcuda is missing or sees no GPU"
    try:
        import cupy

        nvrtc_version()
        cupy.cuda.Device().synchronize()
    except (ImportError, RuntimeError, EqsatError) as error:
        return f"{type(error).__name__}: {error}"
    return "the device does not tell its properties"


def device_key(facts: Mapping[str, Any]) -> str:
    """By what results are kept: the device and CUDA's major version, such as "nvidia_h100_80gb_hbm3_cuda13"."""
    device = re.sub(r"[^a-z0-9]+", "_", str(facts["device"]).lower()).strip("_")
    return f"{device}_cuda{facts['cuda']}"


def device_facts(device: Device) -> dict[str, Any]:
    """The device, its driver, the versions of all packages involved, the commit, and a digest of eqsat's source."""
    major, minor = nvrtc_version()
    versions = {name: _version(name) for name in PACKAGES}
    return {
        "device": device.name,
        "capability": device.capability,
        "multiprocessors": device.units,
        "memory": device.memory,
        "driver": _smi("driver_version"),
        "driver's CUDA": device.driver,
        "cuda": device.driver // 1000,
        "power limit": _smi("power.limit"),
        "greatest clock": _smi("clocks.max.sm"),
        "versions": {"python": platform.python_version(), "nvrtc": f"{major}.{minor}", **versions},
        "commit": commit(),
        "source": source_digest()[:16],
        "date": time.strftime("%Y-%m-%d"),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


@functools.cache
def _smi(query: str) -> str:
    """An answer of nvidia-smi; "" if it is not installed."""
    command = ["nvidia-smi", "--id=0", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
