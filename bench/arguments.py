"""What the benches take on their command line. An argument that stands for nothing ends a bench with status 2 before
anything is measured, and tells what there is."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable

LIGHT = (
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50"),
    *("shufflenet", "squeezenet", "vgg19", "zfnet512"),
)
"""The light models of the `onnx` package."""


def count(text: str) -> int:
    """A number from 1 on, as argparse's `type`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def containing(parser: argparse.ArgumentParser, text: str, names: Iterable[str]) -> list[str]:
    """The names that contain the text of `--only`; all if it is empty."""
    known = list(names)
    found = [name for name in known if text in name]
    if not found:
        parser.error(f"--only: no name contains {text!r}: {', '.join(known)}")
    return found


def among(parser: argparse.ArgumentParser, option: str, text: str, known: Collection[str]) -> tuple[str, ...]:
    """The words of an option, separated by commas; each is known."""
    words = tuple(word for word in map(str.strip, text.split(",")) if word)
    for word in words:
        if word not in known:
            parser.error(f"{option}: {word!r} is none of {', '.join(known)}")
    return words
