"""Artifact → machine code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codegen.backends.backend_of import backend_of
from eqsat.options import Options, Running
from eqsat.runtime.artifact import Artifact
from ir.target import Target


def reporter_of(target: Target, options: Options, running: Running) -> str:
    """The source of corrections to plans: a compiler's report, or the device that autotuning measures; "" if none."""
    backend = backend_of(target, running.emulate)
    return backend.device(target.arch) if options.autotune else backend.reporter()


def build_code(artifact: Artifact, running: Running, folder: Path) -> Any:
    """The machine code of an artifact (`ir.module.executable.Code`), from the cache in `folder` or compiled."""
    return backend_of(artifact.target, running.emulate).build(artifact.units, artifact.target.arch, folder)
