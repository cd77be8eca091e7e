"""The messages between a process that serves calls and a worker process that optimizes a program for it.

A message is the length of its bytes in 8 bytes, least first, and the JSON text of one of the nouns below.
"""

from __future__ import annotations

from typing import IO, Any, TypeVar, cast

import msgspec

from eqsat.options import Options, Running
from eqsat.runtime.artifact import Artifact
from ir.diagnostics import Diagnostic
from ir.serde import from_json, to_json
from ir.target import Target

T = TypeVar("T")


class BuildJob(msgspec.Struct, frozen=True, tag=True):
    """A program to optimize and to compile. tiny: the bound graph's JSON. constants: their names. folder: the cache."""

    tiny: dict[str, Any]
    constants: tuple[str, ...]
    target: Target
    options: Options
    running: Running
    folder: str


class CoverJob(msgspec.Struct, frozen=True, tag=True):
    """A part of a program to choose kernels for. tiny: its graph's JSON. The other fields of the part are those of
    `eqsat.looping.parts.Part`. edges: as for `eqsat.cover_part.cover_part`. target: its peaks are those of the whole
    program."""

    name: str
    tiny: dict[str, Any]
    reads: dict[str, str]
    constants: tuple[str, ...]
    given: tuple[str, ...]
    edges: tuple[str, ...]
    target: Target
    options: Options


class CoverAnswer(msgspec.Struct, frozen=True):
    """A worker's message about a part: the pickled CoveredPart without its part, and the prices of regions; nothing
    where there was an error, which the process that asks will meet as well."""

    pickled: bytes = b""


class BuildAnswer(msgspec.Struct, frozen=True):
    """A message of a worker about its job: first the name of every stage as the stage begins; then the artifact, or why
    there is none."""

    stage: str = ""
    artifact: Artifact | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


Job = BuildJob | CoverJob
"""What a worker may be asked for."""


def send(noun: msgspec.Struct, to: IO[bytes]) -> None:
    """Write one message. Raises OSError where nobody reads it."""
    data = to_json(noun).encode()
    to.write(len(data).to_bytes(8, "little") + data)
    to.flush()


def receive(kind: type[T], source: IO[bytes]) -> T | None:
    """The next message; None at the end, also where a message is cut short."""
    head = source.read(8)
    size = int.from_bytes(head, "little")
    data = source.read(size) if len(head) == 8 else b""
    return from_json(data, kind) if len(head) == 8 and len(data) == size else None


def receive_job(source: IO[bytes]) -> Job | None:
    """The next job; None at the end."""
    return receive(cast("type[Job]", Job), source)
