"""The tag of an operator in a torch model: its module, and the operator's own name where the module is no layer."""

from __future__ import annotations

import re

_LAYERS = "torch.nn."
_CONTAINERS = "torch.nn.modules.container."
_NUMBER = re.compile(r"_\d+\Z")


def module_tag(module: str, class_name: str, operator: str) -> str:
    """`layer1.0.bn1` for an operator of that layer, `layer1.0.add` for an addition in the block `layer1.0`.

    class_name: of the module, with its Python module. operator: a name that may end with a number, as `add_5`.
    """
    if module and class_name.startswith(_LAYERS) and not class_name.startswith(_CONTAINERS):
        return module
    return ".".join(filter(None, (module, _NUMBER.sub("", operator))))
