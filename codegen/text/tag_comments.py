"""The texts of kernels that people read, each with a comment that names the parts of the model that it computes."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.text.comment import comment_text
from ir.backend import function_name
from ir.module.module import Module
from ir.module.tag_text import tag_text

MOST_CALLS = 8
"""Calls of one kernel that its comment names."""


def with_tags(texts: Mapping[str, str], module: Module) -> dict[str, str]:
    """The texts by function, below comments with the tags of the calls of that function."""
    tags: dict[str, list[str]] = {}
    for call in module.running:
        if call.tags:
            tags.setdefault(function_name(call.region), []).append(tag_text(call.tags))
    return {name: _comment(tags[name]) + text if name in tags else text for name, text in texts.items()}


def _comment(calls: list[str]) -> str:
    more = [f"and {len(calls) - MOST_CALLS} more"] if len(calls) > MOST_CALLS else []
    return comment_text("\n".join([*calls[:MOST_CALLS], *more])) + "\n"
