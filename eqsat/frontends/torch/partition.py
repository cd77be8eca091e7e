"""An FX graph with operators that eqsat lacks → a module that runs the other parts in eqsat's kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqsat.frontends.torch.backend_options import BackendOptions
from eqsat.frontends.torch.compiled_graph import CompiledGraph
from eqsat.frontends.torch.graph_results import outputs_of
from eqsat.frontends.torch.memory_order import keep_orders
from eqsat.frontends.torch.survey import TorchSurvey


def compile_supported_parts(module: Any, options: BackendOptions, survey: TorchSurvey) -> Any:
    """The GraphModule with each connected part of supported nodes as one program; eager runs the rest.

    survey: says which nodes are supported.
    """
    import torch
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    class LowerableNodes(OperatorSupportBase):  # type: ignore[misc]
        def is_node_supported(self, submodules: Mapping[str, Any], node: Any) -> bool:
            return node.op == "call_function" and survey.reason_against(node) is None

    class FusedPart(torch.nn.Module):  # type: ignore[misc]
        """A part of the graph, which returns one value or a tuple as the part's own module does."""

        def __init__(self, part: Any) -> None:
            super().__init__()
            (output,) = (node for node in part.graph.nodes if node.op == "output")
            self._has_many = isinstance(output.args[0], tuple | list)
            keep_orders(outputs_of(part))
            self.graph = CompiledGraph(part, options)

        def forward(self, *arguments: Any) -> Any:
            results = self.graph(*arguments)
            return tuple(results) if self._has_many else results[0]

    partitioner = CapabilityBasedPartitioner(module, LowerableNodes(), allows_single_node_partition=True)
    fused = partitioner.partition_and_fuse(prefix=PREFIX)
    for name, part in list(fused.named_children()):
        if name.startswith(PREFIX):
            setattr(fused, name, FusedPart(part))
    fused.recompile()
    return fused


PREFIX = "eqsat_"
"""The names of the parts' modules begin so."""
