"""C text → the bytes of a shared object: translation units compiled side by side, then linked."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from codegen.compile.toolchain import Compiler, link_flags, link_libraries, plain_environment
from ir.diagnostics import Kind, fail
from ir.host.process_folder import process_folder

_STAGE = "compile"
_CRASH = "internal compiler error"
_LESS_OPTIMISATION = ("-O1",)
"""Flags for a second try where the compiler crashed on a unit (gcc 12 fails in partial redundancy elimination)."""
_NO_ROOM = ("No space left on device", "File too large", "Disk quota exceeded", "File size limit exceeded")
_NO_MEMORY = ("Killed signal", "Cannot allocate memory", "virtual memory exhausted", "out of memory")
"""Messages of compilers that fail for want of disk space, or of memory."""
_ROOM_HINT = "point TMPDIR at a folder with room"
_SHOWN_ERRORS = 5
_SHOWN_LOG = 4000
"""Characters of a compiler's log that a diagnostic shows, at most."""


@dataclass(frozen=True)
class Units:
    """Translation units: `sources` by name. `rejected`: the folder for the text of units that the compiler rejects.
    `common`: the names of units that many libraries contain; a process compiles their text once."""

    sources: Mapping[str, str]
    compiler: Compiler
    flags: tuple[str, ...]
    rejected: Path
    common: frozenset[str] = frozenset()

    def shared_object(self, jobs: int) -> bytes:
        """The linked library; at most `jobs` compilers run at a time.

        Raises:
            EqsatError: CompileFailed where the compiler rejects a unit or cannot link them: the diagnostic names the
                unit, shows the lines and says where the text lies. NoCompiler where it does not start.
        """
        try:
            with tempfile.TemporaryDirectory(dir=process_folder()) as name:
                return self._link(Path(name), jobs)
        except OSError as error:
            fail(Kind.COMPILE_FAILED, _STAGE, f"no place to compile in: {error}", hint=_ROOM_HINT)

    def _link(self, folder: Path, jobs: int) -> bytes:
        def compile_unit(item: tuple[int, str]) -> str:
            number, name = item
            return self._compile(name, folder / f"unit{number}.c")

        with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
            objects = list(pool.map(compile_unit, enumerate(sorted(self.sources))))
        library = folder / "library.so"
        log = self._run([*link_flags(), *objects, *link_libraries(), "-o", str(library)], folder)
        if log is not None:
            paths = [self._keep(name) for name in sorted(self.sources)]
            fail(
                Kind.COMPILE_FAILED,
                _STAGE,
                f"{self.compiler} cannot link the kernels",
                log=log[:_SHOWN_LOG],
                sources=paths,
            )
        return library.read_bytes()

    def _compile(self, name: str, source: Path) -> str:
        unit_object = str(source.with_suffix(".o"))
        if name in self.common:
            alone = _common_object(name, self.sources[name], self.compiler, self.flags, self.rejected.parent / name)
            Path(unit_object).write_bytes(alone)
            return unit_object
        source.write_text(self.sources[name], encoding="utf-8")
        wanted = [*self.flags, "-c", str(source), "-o", unit_object]
        log = self._run(wanted, source.parent)
        if log is not None and _CRASH in log:
            log = self._run([*wanted, *_LESS_OPTIMISATION], source.parent)
        if log is not None:
            self._reject(name, source.name, log)
        return unit_object

    def _run(self, arguments: Sequence[str], folder: Path) -> str | None:
        """The log of a compiler that failed; None if it succeeded. Its temporary files are in `folder`."""
        command = [*self.compiler.command, *arguments]
        environment = {**plain_environment(), "TMPDIR": str(folder)}
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, env=environment
            )
        except OSError as error:
            fail(Kind.NO_COMPILER, _STAGE, f"{self.compiler} does not start: {error}")
        if not answer.returncode:
            return None
        log = answer.stderr or answer.stdout or f"exit status {answer.returncode}"
        if any(text in log for text in _NO_ROOM):
            fail(Kind.COMPILE_FAILED, _STAGE, "no room to compile in", hint=_ROOM_HINT, log=log[:_SHOWN_LOG])
        if any(text in log for text in _NO_MEMORY):
            hint = "leave more memory to the compiler"
            fail(Kind.COMPILE_FAILED, _STAGE, "the compiler ran out of memory", hint=hint, log=log[:_SHOWN_LOG])
        return log

    def _reject(self, name: str, file: str, log: str) -> NoReturn:
        """Report the first errors with the lines of C they concern."""
        lines = self.sources[name].splitlines()
        errors = re.findall(rf"{re.escape(file)}:(\d+):\d+: (?:fatal )?error: (.*)", log)[:_SHOWN_ERRORS]
        shown = [f"line {at}: {text}: {lines[int(at) - 1].strip()}" for at, text in errors if int(at) <= len(lines)]
        fail(
            Kind.COMPILE_FAILED,
            _STAGE,
            f"{self.compiler} rejects the C text {name!r}",
            at=name,
            hint="this is a defect of eqsat's emitter: please report it with the file `source`",
            errors=shown or log[:_SHOWN_LOG],
            source=self._keep(name),
            flags=" ".join(self.flags),
        )

    def _keep(self, name: str) -> str:
        """Stores the unit's text for people who look into the failure; the path."""
        path = self.rejected / (re.sub(r"\W", "_", name) + ".c")
        with contextlib.suppress(OSError):
            os.makedirs(path.parent, exist_ok=True)
            path.write_text(self.sources[name], encoding="utf-8")
            return str(path)
        return "could not be written"


@functools.lru_cache(maxsize=4)
def _common_object(name: str, text: str, compiler: Compiler, flags: tuple[str, ...], rejected: Path) -> bytes:
    """The object of one translation unit."""
    with tempfile.TemporaryDirectory(dir=process_folder()) as folder:
        source = Path(folder) / "unit.c"
        return Path(Units({name: text}, compiler, flags, rejected)._compile(name, source)).read_bytes()
