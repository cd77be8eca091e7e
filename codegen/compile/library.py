"""C text → a loaded shared library, built once per text, compiler and CPU."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

from codegen.compile.machine import Machine
from codegen.compile.toolchain import Compiler, compile_flags, find_compiler, link_flags, link_libraries
from ir.atomic_file import write_atomically
from ir.diagnostics import Diagnostic, Kind, Severity, fail, note

_STAGE = "library"
_CRASH = "internal compiler error"
_LESS = ("-O1",)
"""What a compiler that crashed over a unit is asked for instead (gcc 12 fails in partial redundancy elimination)."""

_VECTOR_HEADERS = ("base", "memory", "cast", "ops", "reduce", "vmath", "transpose")


@functools.cache
def vector_prelude() -> str:
    """The vector functions of `prelude/`, as text to stand at the top of a translation unit."""
    return "".join(map(_header, _VECTOR_HEADERS))


POOL_THREADS = 256
"""The most threads that the pool starts: EQ_MAX_THREADS of its source."""


def pool_declarations() -> str:
    """What a translation unit needs to call `eq_parallel_for`."""
    return _header("pool")


def pool_source() -> str:
    """The thread pool: one translation unit of each library that calls it."""
    return "#define EQ_POOL_IMPLEMENTATION\n" + _header("pool")


@functools.cache
def _header(name: str) -> str:
    return (resources.files("codegen.text") / "prelude" / f"{name}.h").read_text(encoding="utf-8")


class Library:
    """A loaded shared library. `diagnostics` says if a damaged stored object had to be built again."""

    def __init__(self, path: Path, diagnostics: Sequence[Diagnostic] = ()) -> None:
        self.path = path
        self.diagnostics = tuple(diagnostics)
        try:
            self._dll = ctypes.CDLL(str(path))
        except OSError as error:
            fail(Kind.INPUT_MISMATCH, _STAGE, f"{path} is no library for this machine: {error}")

    def function(self, name: str, argtypes: Sequence[Any] = (), restype: Any = None) -> Callable[..., Any]:
        """The C function `name` as a ctypes function, which releases the GIL while it runs."""
        try:
            found = self._dll[name]  # a function object of its own, so that argtypes are not shared
        except AttributeError:
            fail(Kind.INPUT_MISMATCH, _STAGE, f"{self.path.name} has no function {name!r}", at=name)
        found.argtypes = list(argtypes)
        found.restype = restype
        return found

    def entry(self, name: str) -> Callable[[int], None]:
        """The C function `void name(void **table)`: the fast path, called with a `PointerTable.address`."""
        return self.function(name, (ctypes.c_void_p,))


class PointerTable:
    """A `void **` that is filled once and passed by its address; call i's buffers are set by `table[i] = address`."""

    def __init__(self, length: int) -> None:
        self._slots = (ctypes.c_size_t * max(length, 1))()
        self.address: int = ctypes.addressof(self._slots)

    def __setitem__(self, index: int, address: int) -> None:
        self._slots[index] = address

    def __getitem__(self, index: int) -> int:
        return self._slots[index]


def build(
    sources: Mapping[str, str],
    machine: Machine,
    *,
    compiler: Compiler | None = None,
    contract: bool = False,
    cache: Path | None = None,
) -> Library:
    """The library of `sources` (kernel's name → C text, one translation unit each), from the cache or built.

    Units are compiled in parallel and linked. EqsatError NoCompiler if there is no compiler, or if it rejects a
    unit: then the diagnostic names the kernel and shows the lines.
    """
    compiler = compiler or find_compiler()
    flags = compile_flags(compiler, machine, contract=contract)
    key = _key(sources, compiler, flags, machine)
    folder = (cache or cache_dir()) / key[:2]
    target = folder / f"{key}.so"
    with _locked(folder, key):
        state = _stored_state(target)
        if state != "whole":
            _store(target, _compiled(sources, compiler, flags, machine.cores))
    found = [_damaged(target)] if state == "damaged" else []
    return Library(target, found)


def load_library(code: bytes) -> Library:
    """The library of a shared object's bytes: kept in the cache under their hash, and loaded from there."""
    cache, found = writable_cache()
    target = cache / "loaded" / f"{hashlib.sha256(code).hexdigest()}.so"
    if not target.exists() or target.read_bytes() != code:
        write_atomically(target, code)
    return Library(target, found)


def cache_dir() -> Path:
    """$EQSAT_CACHE_DIR, or the user's cache folder."""
    chosen = os.environ.get("EQSAT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("eqsat"))


def writable_cache() -> tuple[Path, tuple[Diagnostic, ...]]:
    """`cache_dir`; where it cannot be written, a folder that lasts as long as this process, and a warning."""
    wanted = cache_dir()
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted, ()
    except OSError as error:
        warning = note(
            Kind.INPUT_MISMATCH,
            _STAGE,
            f"the cache cannot be written, nothing is kept for the next run: {error}",
            at=str(wanted),
            severity=Severity.WARNING,
        )
        return Path(_process_folder().name), (warning,)


@functools.cache
def _process_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="eqsat-")


def _key(sources: Mapping[str, str], compiler: Compiler, flags: Sequence[str], machine: Machine) -> str:
    parts = [compiler.version, *flags, *link_flags(), *link_libraries(), machine.arch, *machine.features]
    parts += [part for name in sorted(sources) for part in (name, sources[name])]
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@contextlib.contextmanager
def _locked(folder: Path, key: str) -> Iterator[None]:
    """One builder at a time for this key, among threads and processes."""
    from filelock import FileLock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{key}.lock")
        lock.acquire()
    except OSError as error:
        fail(
            Kind.NO_COMPILER,
            _STAGE,
            f"kernels cannot be stored in {folder}: {error}",
            hint="set EQSAT_CACHE_DIR to a folder you may write",
        )
    try:
        yield
    finally:
        lock.release()


def _stored_state(target: Path) -> str:
    """ "whole", "absent", or "damaged" where the object is not what its checksum says."""
    try:
        data = target.read_bytes()
    except FileNotFoundError:
        return "absent"
    try:
        expected = _checksum_path(target).read_text()
    except FileNotFoundError:
        return "damaged"
    return "whole" if hashlib.sha256(data).hexdigest() == expected else "damaged"


def _damaged(target: Path) -> Diagnostic:
    return note(
        Kind.INPUT_MISMATCH,
        _STAGE,
        f"the stored object {target.name} was damaged and has been built again",
        severity=Severity.WARNING,
        folder=str(target.parent),
    )


def _store(target: Path, data: bytes) -> None:
    write_atomically(target, data)
    write_atomically(_checksum_path(target), hashlib.sha256(data).hexdigest().encode())


def _checksum_path(target: Path) -> Path:
    return target.with_suffix(".sha256")


def _compiled(sources: Mapping[str, str], compiler: Compiler, flags: Sequence[str], jobs: int) -> bytes:
    with tempfile.TemporaryDirectory(prefix="eqsat-") as name:
        folder = Path(name)

        def compile_unit(item: tuple[int, tuple[str, str]]) -> Path:
            number, (kernel, text) = item
            source, made = folder / f"unit{number}.c", folder / f"unit{number}.o"
            source.write_text(text, encoding="utf-8")
            command = [*compiler.command, *flags, "-c", str(source), "-o", str(made)]
            log = _run(command)
            if log is not None and _CRASH in log:
                log = _run([*command, *_LESS])
            if log is not None:
                _reject(compiler, kernel, text, source.name, log)
            return made

        with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
            objects = list(pool.map(compile_unit, enumerate(sorted(sources.items()))))
        library = folder / "library.so"
        inputs = [str(each) for each in objects]
        log = _run([*compiler.command, *link_flags(), *inputs, *link_libraries(), "-o", str(library)])
        if log is not None:
            fail(Kind.NO_COMPILER, _STAGE, f"{compiler} cannot link the kernels", log=log[:4000])
        return library.read_bytes()


def _run(command: Sequence[str]) -> str | None:
    """What a failing command said, None if it succeeded."""
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return (answer.stderr or answer.stdout or f"exit status {answer.returncode}") if answer.returncode else None


def _reject(compiler: Compiler, kernel: str, text: str, file: str, log: str) -> None:
    """Report the first errors with the lines of C they concern."""
    lines = text.splitlines()
    found = re.findall(rf"{re.escape(file)}:(\d+):\d+: (?:fatal )?error: (.*)", log)[:5]
    shown = [f"line {at}: {message}: {lines[int(at) - 1].strip()}" for at, message in found if int(at) <= len(lines)]
    fail(
        Kind.NO_COMPILER,
        _STAGE,
        f"{compiler} rejects the C text of kernel {kernel!r}",
        at=kernel,
        errors=shown or log[:4000],
        hint="this is a defect of eqsat's emitter: please report it with the text of this kernel",
    )
