"""Holds the systems of `bench.peers` to AVX2, so that a machine with AVX-512 tells how fast they are without it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_SETTINGS = {
    "EQSAT_ISA": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    "TORCHINDUCTOR_CACHE_DIR": str(Path(tempfile.gettempdir()) / "torchinductor_avx2"),
}
"""Variables of the environment of eqsat; of torch and inductor; of MKL and oneDNN, which torch and OpenVINO call; and
of XLA. Some kernels of OpenVINO are not oneDNN's, and take AVX-512. Graphs in inductor's cache that were compiled for
AVX-512 compute wrong results with AVX2, so that the cache is one of its own."""
_FREE = ("onnxruntime",)
"""Systems that no setting holds to AVX2."""


def hold_to_avx2() -> None:
    """Holds this process and the processes that it starts, before a system is imported."""
    os.environ.update(_SETTINGS)


def can_take_part(system: str) -> bool:
    """Whether a system has the instructions of the others: always, unless they are held to AVX2."""
    return system not in _FREE or not _SETTINGS.items() <= os.environ.items()
