"""Record what every device function gives on this GPU: `python -m bench.record_device_functions [--to FOLDER]`.

The file goes to `tests/fixtures/device_functions/`, where a test holds the emulator against it. Where this GPU and the
emulator differ by more than the functions' definitions leave open, the differences are listed and the exit status is 1;
the file is written all the same: hardware is right.
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

SHOWN = 40


def record(
    device: Device, about: Mapping[str, Any], folder: Path = FOLDER, tried: list[Probe] | None = None
) -> list[str]:
    """Writes what the functions give on the device; returns how the emulator differs."""
    tried = probes() if tried is None else tried
    found = run(device, tried)
    print(f"{len(found)} functions: {write(about, found, folder)}")
    return differences(run(EmulatedDevice(), tried), found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=FOLDER, help="the folder of the file")
    options = parser.parse_args()
    facts = device_facts(require_device())
    told = record(CudaDevice(), facts, options.to)
    print(*told[:SHOWN], sep="\n")
    if told:
        sys.exit(f"{len(told)} functions differ from the emulator")


if __name__ == "__main__":
    main()
