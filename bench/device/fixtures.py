"""Files with the results of device functions on hardware, and the comparison of other results with them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.device.facts import device_key
from bench.device.probes import Recorded
from bench.facts import ROOT
from ir.host.atomic_file import write_atomically
from ir.kernel.gpu.device_functions import DEVICE_FUNCTIONS, WARPGROUP_EFFECTS

FOLDER = ROOT / "tests" / "fixtures" / "device_functions"
_ABOUT = "about"
_GIVEN = ".given"
APPROXIMATE_ULPS = 4
"""Both sides are within 2 ulp of the function; sigmoid within 4 (`ir/kernel/gpu/device_functions.py`)."""
_APPROXIMATE = {"exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rsqrt", "pow"}
_TANH_BOUND = 2.0**-11
"""Relative, of tanh.approx; both sides may use it up."""
_PRODUCT_TOLERANCE = 2.0**-18
"""Relative to the largest element: tensor cores do not add products one by one in fp32."""


def write(about: Mapping[str, Any], results: Mapping[str, Recorded], folder: Path = FOLDER) -> Path:
    """Writes the compressed file of a device, `about["device"]`, and CUDA, `about["cuda"]`; returns its path."""
    arrays: dict[str, np.ndarray] = {_ABOUT: np.array(json.dumps(about))}
    for name, recorded in results.items():
        arrays[name], arrays[name + _GIVEN] = recorded.result, np.array(recorded.given, np.uint32)
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)  # type: ignore[arg-type]
    path = folder / f"{device_key(about)}.npz"
    write_atomically(path, data.getvalue())
    return path


def read(path: Path) -> tuple[dict[str, Any], dict[str, Recorded]]:
    """The facts and results that `write` wrote."""
    with np.load(path, allow_pickle=False) as file:
        names = [name for name in file.files if name != _ABOUT and not name.endswith(_GIVEN)]
        results = {name: Recorded(file[name], int(file[name + _GIVEN])) for name in names}
        return json.loads(str(file[_ABOUT])), results


def differences(results: Mapping[str, Recorded], recorded: Mapping[str, Recorded]) -> list[str]:
    """A line for every function whose results differ by more than its definition allows, that was recorded on other
    arguments, or that only one side has; not every device has warpgroups."""
    alone = sorted(name for name in results.keys() ^ recorded.keys() if not _is_of_warpgroups(name))
    lines = [f"{name} is in one of them alone" for name in alone]
    for name in sorted(results.keys() & recorded.keys()):
        here, there = results[name], recorded[name]
        if here.given != there.given:
            lines.append(f"{name} was recorded on other arguments: record it again")
        elif (reason := _difference(name, here.result, there.result)) is not None:
            lines.append(f"{name}: {reason}")
    return lines


def _is_of_warpgroups(name: str) -> bool:
    return DEVICE_FUNCTIONS[name.partition("<")[0]].effect in WARPGROUP_EFFECTS


def _difference(name: str, here: np.ndarray, there: np.ndarray) -> str | None:
    if here.shape != there.shape or here.dtype != there.dtype:
        return f"{here.dtype}{here.shape} beside {there.dtype}{there.shape}"
    if here.dtype.kind != "f":
        wrong = here != there
    else:
        wrong = ~((here == there) | (np.isnan(here) & np.isnan(there)))
        finite = np.isfinite(here) & np.isfinite(there)
        a, b = (np.where(finite, values, 0).astype(np.float64) for values in (here, there))
        kind = name.split("_")[1]
        if name.startswith("eq_tanh_approx"):
            wrong &= ~(finite & (np.abs(a - b) <= 2 * _TANH_BOUND * np.abs(b)))
        elif kind in _APPROXIMATE or kind == "sigmoid":
            ulps = 2 * APPROXIMATE_ULPS if kind == "sigmoid" else APPROXIMATE_ULPS
            allowed = ulps * np.spacing(np.maximum(np.abs(a), np.abs(b)).astype(here.dtype))
            wrong &= ~(finite & (np.abs(a - b) <= allowed.astype(np.float64)))
        elif kind == "mma" or _is_of_warpgroups(name):
            wrong &= ~(finite & (np.abs(a - b) <= _PRODUCT_TOLERANCE * np.abs(b).max()))
    if not wrong.any():
        return None
    at = int(np.flatnonzero(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} differ, first at {at}: {here[at]} beside {there[at]}"
