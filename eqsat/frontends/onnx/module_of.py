"""The module of a torch model that a node was exported from, by the metadata that `torch.onnx.export` writes."""

from __future__ import annotations

import ast
from typing import Any

from eqsat.frontends.module_tag import module_tag

_SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"


def module_of(node: Any) -> str:
    """The tag of a node; "" for a node without such metadata."""
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    scopes, classes = _names_in(metadata.get(_SCOPES)), _names_in(metadata.get(_CLASSES))
    if len(scopes) < 2 or len(classes) != len(scopes):
        return ""
    return module_tag(scopes[-2], classes[-2], scopes[-1])


def _names_in(text: str | None) -> list[str]:
    """The list of strings that a text holds as Python writes it; an empty list if it holds none."""
    try:
        names = ast.literal_eval(text or "[]")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []
