"""Counts the instructions in a kernel's PTX or SASS that determine its speed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

PTX: Mapping[str, str] = MappingProxyType(
    {
        "mma": r"\bmma\.sync",
        "ldmatrix": r"\bldmatrix\.",
        "cp_async_16": r"\bcp\.async\.cg\.shared\.global\S* \[[^]]*\], \[[^]]*\], 16\b",
        "cp_async": r"\bcp\.async\.c[ag]\.",
        "barrier": r"\bbar(?:rier)?\.sync",
        "ld_global_16": r"\bld\.global\S*\.v4\.[bfsu]32|\bld\.global\S*\.v2\.[bfsu]64",
        "st_global_16": r"\bst\.global\.v4\.[bfsu]32|\bst\.global\.v2\.[bfsu]64",
        "local": r"\b(?:ld|st)\.local",
    }
)
"""Instruction → its pattern in PTX."""
SASS: Mapping[str, str] = MappingProxyType(
    {
        "mma": r"\bHMMA\.",
        "ldmatrix": r"\bLDSM\.",
        "cp_async_16": r"\bLDGSTS\.E\.\S*128",
        "cp_async": r"\bLDGSTS\.",
        "barrier": r"\bBAR\.SYNC",
        "ld_global_16": r"\bLDG\.E\.\S*128",
        "st_global_16": r"\bSTG\.E\.\S*128",
        "local": r"\b(?:LDL|STL)\b",
    }
)
"""The same in SASS."""


def ptx_counts(ptx: str) -> dict[str, int]:
    """Instruction → how often it stands in the PTX."""
    return _counts(ptx, PTX)


def sass_counts(sass: str) -> dict[str, int]:
    """Instruction → how often it stands in the SASS."""
    return _counts(sass, SASS)


def disassembler() -> str | None:
    """The `nvdisasm` of PATH or of NVIDIA's wheel, if there is one."""
    result = shutil.which("nvdisasm")
    if result:
        return result
    try:
        import nvidia
    except ImportError:
        return None
    places = (
        folder / major / "bin" / "nvdisasm" for folder in map(Path, nvidia.__path__) for major in ("cu13", "cu12")
    )
    return next((str(path) for path in places if path.is_file()), None)


def sass(cubin: bytes, command: str) -> str:
    """The SASS of a cubin, by the `nvdisasm` that `command` names."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([command, "-c", file.name], capture_output=True, text=True, check=True)
    return done.stdout


def _counts(text: str, patterns: Mapping[str, str]) -> dict[str, int]:
    return {name: len(re.findall(pattern, text)) for name, pattern in patterns.items()}


class MainLoop(NamedTuple):
    """The loop of a kernel's SASS with the most products: the instructions on its shortest path, the mma, and the
    instructions from the barrier of a turn to its first mma (0 without a barrier)."""

    instructions: int
    mma: int
    before_mma: int


def main_loop(sass: str) -> MainLoop | None:
    """The main loop of the SASS of one kernel; None where no loop has an mma."""
    instructions, places = list[str](), dict[str, int]()
    for line in sass.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            places[label[1]] = len(instructions)
        elif instruction := re.match(r"\s*/\*[0-9a-f]{4,5}\*/\s+(.*);", line):
            instructions.append(instruction[1])
    targets = [re.search(r"BRA.*`\((\.L_x_\d+)\)", instruction) for instruction in instructions]
    jumps = [None if target is None else places[target[1]] for target in targets]
    results = [
        _loop(instructions, jumps, start, end) for end, start in enumerate(jumps) if start is not None and start <= end
    ]
    return max((loop for loop in results if loop.mma), key=lambda loop: loop.mma, default=None)


def _loop(instructions: Sequence[str], jumps: Sequence[int | None], start: int, end: int) -> MainLoop:
    """The loop from instruction `start` to the branch `end`. jumps: where each instruction may branch to."""
    left = {end: 1}
    for number in range(end - 1, start - 1, -1):
        to = jumps[number]
        ways = [left[to]] if to is not None and number < to <= end else []
        if to is None or instructions[number].startswith("@"):
            ways.append(left[number + 1])
        left[number] = 1 + min(ways, default=end)
    body = instructions[start : end + 1]
    products = [number for number, instruction in enumerate(body) if "HMMA" in instruction]
    barriers = [number for number, instruction in enumerate(body) if "BAR.SYNC" in instruction]
    before = 0
    if products and barriers:
        first = next((number for number in products if number > barriers[0]), products[0] + len(body))
        before = first - barriers[0] - 1
    return MainLoop(left[start], len(products), before)
