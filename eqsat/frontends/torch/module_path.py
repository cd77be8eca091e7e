"""The module of a torch model that a node of an FX graph belongs to, by the metadata of Dynamo and `torch.export`."""

from __future__ import annotations

import re
from typing import Any

from eqsat.frontends.module_tag import module_tag

_ROOT = re.compile(r"\AL\['\w+'\]\.?")
_ITEM = re.compile(r"\.?\[(?:'([^']*)'|(\d+))\]")
BACKWARD = " backward"
"""Ends the tags of nodes that compute gradients."""


def tag_of(node: Any) -> str:
    """`layer1.0.bn1` for a node of that layer, `layer1.0.add` for an addition in the block `layer1.0`; with `BACKWARD`
    for nodes of their gradients. A node without such metadata has its own name, without a number."""
    forward, backward = node.meta.get("nn_module_stack"), node.meta.get("fwd_nn_module_stack")
    path, owner = next(reversed((forward or backward or {"": ("", "")}).values()))
    module = _ITEM.sub(r".\1\2", _ROOT.sub("", str(path))).removeprefix(".")
    class_name = owner if isinstance(owner, str) else f"{owner.__module__}.{owner.__qualname__}"
    return module_tag(module, class_name, node.name) + (BACKWARD if backward and not forward else "")
