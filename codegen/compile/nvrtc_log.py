"""Reads the log of NVRTC and its assembler: resources of kernels, lints, and errors with their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ir.kernel.resources import KernelResources

_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")
_LINT = re.compile(r"\((C7\d{3})\)\s*(.*)")
_FUNCTION = re.compile(r"function '(\w+)'")
_ALL_BARRIERS = 16
"""A kernel that is said to use all of them has a barrier whose number the assembler could not see."""


def resources(log: str) -> tuple[KernelResources, ...]:
    """Of each kernel in the log of a successful compilation, in order."""
    sections = _ENTRY.split(log)
    return tuple(_of(name, said, log) for name, said in zip(sections[1::2], sections[2::2], strict=True))


def _of(name: str, said: str, log: str) -> KernelResources:
    stack = _STACK.search(said)
    frame, stores, loads = map(int, stack.groups()) if stack else (0, 0, 0)
    barriers = _number(_BARRIERS, said)
    lints = [text for kernel, text in _lints(log) if kernel in ("", name)]
    if barriers == _ALL_BARRIERS:
        lints.append(f"all {_ALL_BARRIERS} barriers are taken: the number of one is not a constant")
    shared, registers = _number(_SHARED, said), _number(_USED, said)
    return KernelResources(name, registers, frame, stores, loads, barriers, shared, tuple(lints))


def errors(log: str, file: str) -> tuple[tuple[int, str], ...]:
    """(line, message) of each error in this file."""
    errors = re.findall(rf"^{re.escape(file)}\((\d+)\): (?:catastrophic )?error: (.*)$", log, re.MULTILINE)
    return tuple((int(line), message) for line, message in errors)


def _lints(log: str) -> Iterator[tuple[str, str]]:
    """(kernel, remark); the kernel is "" where the remark names none."""
    for code, text in dict.fromkeys(_LINT.findall(log)):
        kernel = _FUNCTION.search(text)
        yield (kernel[1] if kernel else ""), f"{code}: {text.strip()}"


def _number(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return int(match[1]) if match else 0
