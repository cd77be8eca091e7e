"""The module of a torch model that a node was exported from, by the metadata that `torch.onnx.export` writes."""

from __future__ import annotations

import ast
import re
from typing import Any

_SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"
_LAYERS = "torch.nn."
_CONTAINERS = "torch.nn.modules.container."
_NUMBER = re.compile(r"_\d+\Z")


def module_of(node: Any) -> str:
    """`layer1.0.bn1` for a node of that layer, `layer1.0.add` for an addition in the block `layer1.0`; "" for a node
    without such metadata."""
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    scopes, classes = _names_in(metadata.get(_SCOPES)), _names_in(metadata.get(_CLASSES))
    if len(scopes) < 2 or len(classes) != len(scopes):
        return ""
    module, owner = scopes[-2], classes[-2]
    if module and owner.startswith(_LAYERS) and not owner.startswith(_CONTAINERS):
        return module
    return ".".join(filter(None, (module, _NUMBER.sub("", scopes[-1]))))


def _names_in(text: str | None) -> list[str]:
    """The list of strings that a text holds as Python writes it; an empty list if it holds none."""
    try:
        names = ast.literal_eval(text or "[]")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []
