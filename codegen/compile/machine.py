"""The CPU the kernels run on: instruction set, cores, caches."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from pathlib import Path

import msgspec

from ir.diagnostics import Kind, fail
from ir.host.cores import usable_cores
from ir.target import LANES

_AVX2 = ("avx2", "fma", "f16c")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512vl", "avx512dq")
_MATRIX_FEATURES = ("amx_tile", "amx_bf16", "amx_int8")
_NEEDS: dict[str, tuple[str, ...]] = {
    "sse2": (),
    "avx2": _AVX2,
    "avx2_vnni": (*_AVX2, "avx_vnni"),
    "avx512": _AVX512,
    "avx512_vnni": (*_AVX512, "avx512_vnni"),
    "avx512_bf16": (*_AVX512, "avx512_vnni", "avx512_bf16"),
    "amx": (*_AVX512, "avx512_vnni", "avx512_bf16", *_MATRIX_FEATURES),
}
"""The features that each instruction set needs, the least set first."""
ARCHES = tuple(_NEEDS)
"""Instruction sets of x86-64; any other CPU is "generic"."""
_VECTOR_BYTES = {arch: 4 * lanes for arch, lanes in LANES.items()}
_FEATURES = (*_NEEDS["amx"], "avx512_fp16", "avx_vnni")
_HALVED = ("AuthenticAMD", "25")
"""Vendor and family of the cores that compute a register of 64 bytes in two halves, one after the other: Zen 4 (AMD,
"Software Optimization Guide for the AMD Zen4 Microarchitecture", 2.11)."""


class Machine(msgspec.Struct, frozen=True):
    """A CPU. arch: one of `ARCHES`, or "generic". features: Linux's names of the instruction sets that code may use, in
    a fixed order. cores: the cores that this process may use. Cache sizes are in bytes: L1 and L2 of one core, L3 of
    the machine. halved: its units compute a register of 64 bytes in two halves."""

    arch: str
    vector_bytes: int
    features: tuple[str, ...]
    cores: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cpu: str
    halved: bool = False

    @property
    def fma_per_cycle(self) -> int:
        """The vector multiply-adds that a core starts in a cycle."""
        return 1 if self.halved and self.vector_bytes == 64 else 2

    @property
    def lanes(self) -> int:
        """EQ_VL of the C prelude: lanes of a register, the same for all dtypes."""
        return self.vector_bytes // 4


def machine() -> Machine:
    """This machine, restricted to the instruction set $EQSAT_ISA (one of `ARCHES`) where that is set."""
    machine = _detect()
    wanted = os.environ.get("EQSAT_ISA")
    return restrict(machine, wanted) if wanted else machine


def arches_of(whole: Machine) -> list[str]:
    """The instruction sets that a machine has, the least first."""
    if whole.arch not in ARCHES:
        return [whole.arch]
    return [arch for arch, features in _NEEDS.items() if set(features) <= set(whole.features)]


def restrict(whole: Machine, arch: str) -> Machine:
    """`whole` as a machine of the lesser instruction set `arch`. EqsatError UnknownTarget if it has no such set."""
    known = arches_of(whole)
    if arch not in known:
        fail(
            Kind.UNKNOWN_TARGET,
            "machine",
            f"this machine has no instruction set {arch!r}",
            hint="a target's arch or EQSAT_ISA is one of " + ", ".join(known),
        )
    if arch == whole.arch:
        return whole
    features = tuple(feature for feature in whole.features if feature in _NEEDS[arch])
    return msgspec.structs.replace(whole, arch=arch, vector_bytes=_VECTOR_BYTES[arch], features=features)


@functools.cache
def _detect() -> Machine:
    info = _cpuinfo()
    flags = set(info.get("flags", "").split())
    arch = _arch(flags)
    usable = flags if arch == "amx" else flags - set(_MATRIX_FEATURES)
    features = tuple(feature for feature in _FEATURES if feature in usable)
    l1, l2, l3 = _cache_bytes()
    return Machine(
        arch=arch,
        vector_bytes=_VECTOR_BYTES[arch],
        features=features if _NEEDS.get(arch) else (),
        cores=usable_cores(),
        l1_bytes=l1,
        l2_bytes=l2,
        l3_bytes=l3,
        cpu=" ".join(info.get(key, "") for key in ("model name", "cpu family", "model")).strip()
        or platform.processor()
        or platform.machine(),
        halved=(info.get("vendor_id"), info.get("cpu family")) == _HALVED,
    )


def _arch(flags: set[str]) -> str:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return "generic"
    arches = (arch for arch in reversed(ARCHES) if flags.issuperset(_NEEDS[arch]))
    return next(arch for arch in arches if arch != "amx" or _has_matrix_state())


_ARCH_PRCTL, _REQUEST_STATE, _MATRIX_STATE = 158, 0x1023, 18


def _has_matrix_state() -> bool:
    """Whether Linux lets this process use AMX's matrix registers: their 8 KiB are kept only for processes that ask, by
    arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) (Documentation/arch/x86/xstate.rst)."""
    return sys.platform == "linux" and not ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_STATE, _MATRIX_STATE)


def _cpuinfo() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo, by name; empty where there is no such file."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _cache_bytes() -> tuple[int, int, int]:
    """Sizes of the data caches of levels 1, 2 and 3, in bytes; common sizes where the system does not say them."""
    sizes = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        if kind in ("Data", "Unified") and int(level) in sizes:
            sizes[int(level)] = _parse_size(size)
    return sizes[1], sizes[2], sizes[3]


def _parse_size(text: str) -> int:
    """ "48K" → 49152."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * unit
