"""Counts the instructions in a kernel's PTX or SASS that determine its speed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

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
    found = shutil.which("nvdisasm")
    if found:
        return found
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
