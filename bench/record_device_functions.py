"""Records the results of every device function on this GPU: `python -m bench.record_device_functions [--to FOLDER]`.

The file goes to `tests/fixtures/device_functions/`, where a test compares the emulator with it. If this GPU and the
emulator differ by more than the functions' definitions allow, the differences are listed and the exit status is 1. The
file is written in any case: hardware is right.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.device.facts import device_facts, require_device
from bench.device.fixtures import FOLDER, differences, write
from bench.device.launch import CudaDevice, Device, EmulatedDevice
from bench.device.probes import probes, run
from bench.device.samples import Probe

SHOWN = 40  # most differences that are printed


def record(
    device: Device, about: Mapping[str, Any], folder: Path = FOLDER, tried: list[Probe] | None = None
) -> list[str]:
    """Writes the functions' results on the device; returns their differences from the emulator's."""
    tried = probes() if tried is None else tried
    results = run(device, tried)
    print(f"{len(results)} functions: {write(about, results, folder)}")
    return differences(run(EmulatedDevice(), tried), results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=FOLDER, help="the folder of the file")
    options = parser.parse_args()
    facts = device_facts(require_device())
    different = record(CudaDevice(), facts, options.to)
    print(*different[:SHOWN], sep="\n")
    if different:
        sys.exit(f"{len(different)} functions differ from the emulator")


if __name__ == "__main__":
    main()
