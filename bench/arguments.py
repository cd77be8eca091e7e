"""The command lines of the benches. A wrong argument ends a bench with status 2 before anything is measured, and lists
the valid ones."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable

LIGHT = (
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50"),
    *("shufflenet", "squeezenet", "vgg19", "zfnet512"),
)
"""The light models in the `onnx` package."""


def count(text: str) -> int:
    """A positive integer, as argparse's `type`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def containing(parser: argparse.ArgumentParser, text: str, names: Iterable[str]) -> list[str]:
    """The names that contain the text of `--only`; all if the text is empty."""
    known = list(names)
    matches = [name for name in known if text in name]
    if not matches:
        parser.error(f"--only: no name contains {text!r}: {', '.join(known)}")
    return matches


def among(parser: argparse.ArgumentParser, option: str, text: str, known: Collection[str]) -> tuple[str, ...]:
    """The words of an option, separated by commas, all of them in `known`."""
    words = tuple(word for word in map(str.strip, text.split(",")) if word)
    for word in words:
        if word not in known:
            parser.error(f"{option}: {word!r} is none of {', '.join(known)}")
    return words
