"""The tags of a kernel's uops as one line: `layer1.0.conv2 + bn2 + relu`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

_PART = re.compile(r"[^./]*[./]?")


def tag_text(tags: Iterable[str]) -> str:
    """The tags in order. A tag is without the beginning that it shares with the tag before it, unless only a number
    would be left."""
    shown, before = [], ""
    for tag in tags:
        parts = zip(_PART.findall(before), _PART.findall(tag), strict=False)
        rest = tag[sum(len(part) for _, part in takewhile(lambda pair: pair[0] == pair[1], parts)) :]
        shown.append(tag if rest.isdecimal() or not rest else rest)
        before = tag
    return " + ".join(shown)
