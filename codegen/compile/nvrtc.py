"""Kernels' text → cubins by NVRTC, through CuPy's binding: no driver and no GPU are needed, and no header is included.

A cubin is stored in the cache under the hash of all its inputs. CuPy memoises modules by path, so a path must never
stand for two modules.
"""

from __future__ import annotations

import functools
import hashlib
import re
from importlib import resources as package_files
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from codegen.compile.cache import damage_note, lock, recall, store
from codegen.compile.nvrtc_log import errors, resources
from ir.diagnostics import Diagnostic, Kind, fail
from ir.host.cache_folder import writable_cache
from ir.kernel.resources import KernelResources
from ir.serde import from_json, to_json

_STAGE = "nvrtc"
_FILE = "kernels.cu"
_HEADERS = ("base", "scalar", "plain", "random", "memory", "warp", "warpgroup")
_HINT = "`pip install 'eqsat[cuda]'` (CuPy and NVRTC as wheels; neither needs a GPU)"
_NO_CUPY = "NVRTC is called through CuPy, which is not installed; NVRTC's own wheel is not enough"
_FIRST_ARCH = 80
_FIRST_WITH_CACHE = (12, 9)
"""NVRTC's first version with a cache of its own (NVRTC's documentation, "Caching")."""
_SHOWN_ERRORS = 5
_SHOWN_LOG = 4000
"""Characters of the log that a diagnostic shows, at most."""
_ENTRY = re.compile(r'^extern "C" EQ_KERNEL\(.*?\) void (\w+)\(', re.MULTILINE)


class Cubin(msgspec.Struct, frozen=True):
    """A module for one architecture, at `path`; at `ptx` the same module as PTX, which newer architectures run too.
    `kernels`: the resources of its functions. `diagnostics`: problems with the cache."""

    path: Path
    ptx: Path
    arch: str
    kernels: tuple[KernelResources, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


class NvrtcResult(msgspec.Struct, frozen=True):
    """The result of one run of NVRTC: the module, its PTX, and the log of both."""

    cubin: bytes
    ptx: str
    log: str


@functools.cache
def cuda_prelude() -> str:
    """The device functions for a GPU, as text to stand above kernels."""
    folder = package_files.files("codegen.text") / "prelude" / "cuda"
    return "".join((folder / f"{name}.h").read_text(encoding="utf-8") for name in _HEADERS)


def nvrtc_version() -> tuple[int, int]:
    """NVRTC's (major, minor).

    Raises:
        EqsatError: NoCompiler where CuPy or NVRTC is not installed.
    """
    major, minor = _binding().getVersion()
    return int(major), int(minor)


def build(text: str, arch: str) -> Cubin:
    """The cubin of kernels' text for `arch` ("sm_80", "sm_90a"; "sm80" is "sm_80"), from the cache or compiled.

    Raises:
        EqsatError: NoCompiler where NVRTC is not installed, CompileFailed if it rejects the text (the diagnostic names
            the kernel and shows its lines) or nothing can be stored.
    """
    options = _options(arch)
    folder, notes = writable_cache()
    key = _key(text, options)
    target = folder / "cuda" / key[:2] / f"{key}.cubin"
    with lock(target) as (target, more):
        notes = (*notes, *more)
        report = target.with_name(f"{key}-resources.json")
        ptx = target.with_name(f"{key}-text.ptx")
        report_state, stored = recall(report)
        states = {report_state, recall(target)[0], recall(ptx)[0]}
        known = _report(stored, text) if states == {"whole"} else None
        if known is not None:
            return Cubin(target, ptx, arch, known, notes)
        assembled = assemble(text, arch)
        kernels = resources(assembled.log)
        _, report_notes = store(report, to_json(kernels).encode())
        ptx, ptx_notes = store(ptx, assembled.ptx.encode())
        target, more = store(target, assembled.cubin)
        notes = (*notes, *(more or ptx_notes or report_notes))
        if states == {"whole"} or "damaged" in states:
            notes = (*notes, damage_note(target))
    return Cubin(target, ptx, arch, kernels, notes)


def _report(stored: bytes, text: str) -> tuple[KernelResources, ...] | None:
    """The stored resources of the text's kernels; None where they are damaged or of another text."""
    try:
        kernels = from_json(stored, tuple[KernelResources, ...])
    except (ValueError, msgspec.DecodeError):
        return None
    return kernels if all(kernel.name in text and kernel.registers >= 0 for kernel in kernels) else None


def assemble(text: str, arch: str) -> NvrtcResult:
    """As `build`, but always compiled and not stored."""
    nvrtc = _binding()
    source = f'{cuda_prelude()}\n#line 1 "{_FILE}"\n{text}'
    program = nvrtc.createProgram(source, _FILE, (), ())
    try:
        try:
            nvrtc.compileProgram(program, _options(arch))
        except nvrtc.NVRTCError as error:
            _reject(text, arch, nvrtc.getProgramLog(program) or str(error))
        ptx = nvrtc.getPTX(program)
        text_of_ptx = ptx if isinstance(ptx, str) else ptx.decode()
        return NvrtcResult(_whole(bytes(nvrtc.getCUBIN(program))), text_of_ptx, nvrtc.getProgramLog(program))
    finally:
        nvrtc.destroyProgram(program)


def _whole(cubin: bytes) -> bytes:
    """The cubin with its last byte. CuPy (14.2) drops it as the end of a string; cubins end in zeros, aligned to 8."""
    return cubin + b"\0" if len(cubin) % 8 == 7 else cubin


def _options(arch: str) -> tuple[str, ...]:
    """NVRTC's options. Warning 177 is about functions of the prelude that a kernel does not call. Where a driver is
    installed, NVRTC keeps a cache of its own, and a text from that cache has no report of registers in its log."""
    own_cache = ("--no-cache",) if nvrtc_version() >= _FIRST_WITH_CACHE else ()
    return (
        f"-arch=sm_{arch.removeprefix('sm').removeprefix('_')}",
        "-std=c++17",
        "--ptxas-options=-v",
        "-diag-suppress=177",
        *own_cache,
    )


@functools.cache
def nvrtc_targets() -> tuple[str, ...]:
    """The architectures from sm_80 on that NVRTC compiles for: "sm_80", "sm_90", …

    Raises:
        EqsatError: NoCompiler where CuPy or NVRTC is not installed.
    """
    return tuple(f"sm_{arch}" for arch in sorted(map(int, _binding().getSupportedArchs())) if arch >= _FIRST_ARCH)


@functools.cache
def _binding() -> Any:
    try:
        from cupy_backends.cuda.libs import nvrtc
    except ModuleNotFoundError:
        fail(Kind.NO_COMPILER, _STAGE, _NO_CUPY, hint=_HINT)
    except (ImportError, OSError) as error:
        fail(Kind.NO_COMPILER, _STAGE, f"CuPy, through which NVRTC is called, cannot be loaded: {error}", hint=_HINT)
    try:
        nvrtc.getVersion()
    except (ImportError, RuntimeError, OSError) as error:
        fail(Kind.NO_COMPILER, _STAGE, f"there is no NVRTC on this machine: {error}", hint=_HINT)
    return nvrtc


def _key(text: str, options: tuple[str, ...]) -> str:
    major, minor = nvrtc_version()
    digest = hashlib.sha256()
    for part in (f"nvrtc {major}.{minor}", *options, cuda_prelude(), text):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _reject(text: str, arch: str, log: str) -> NoReturn:
    """Report the first errors with their lines and their kernel."""
    lines = text.splitlines()
    located = errors(log, _FILE)[:_SHOWN_ERRORS]
    shown = [f"line {at}: {message}: {lines[at - 1].strip()}" for at, message in located if at <= len(lines)]
    kernel = _kernel_at(text, located[0][0]) if located else None
    fail(
        Kind.COMPILE_FAILED,
        _STAGE,
        f"NVRTC rejects the text of {kernel or 'the kernels'} for {arch}",
        at=kernel,
        hint="this is a defect of eqsat's emitter: please report it" if located else f"is {arch} an architecture?",
        errors=shown or log[:_SHOWN_LOG],
    )


def _kernel_at(text: str, line: int) -> str | None:
    """The kernel whose text holds this line."""
    starts = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in _ENTRY.finditer(text)]
    return next((name for start, name in reversed(starts) if start <= line), None)
