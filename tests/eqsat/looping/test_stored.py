"""Which values lie in memory in almost every choice of kernels."""

from __future__ import annotations

from eqsat import tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.looping.stored import StoredValues
from eqsat.tensor import Tensor
from ir.tiny.bind import load
from tests.eqsat.looping.test_repeated_blocks import given


def stored_dtypes(outputs: Tensor) -> list[str]:
    """The dtypes of the values that several accumulators read and that kernels store, outputs and inputs apart."""
    values = StoredValues(load(tensor_to_tiny(outputs)[0])[0])
    refs = [node.id for node in values.nodes if node.uop != "INPUT" and node.id not in values.graph.outputs]
    stored = [ref for ref in refs if values.is_stored(ref) and values.accumulators_after(ref) > 1]
    return [values.graph.types[ref].dtype.name for ref in stored]


def test_results_of_products_that_several_uops_read() -> None:
    hidden = (given("x", 4, 8) @ given("w", 8, 8)).relu()
    assert stored_dtypes(hidden @ given("a", 8, 8) + hidden.sum(0)) == ["fp32"]


def test_bytes_are_stored_and_not_what_is_computed_from_them() -> None:
    product = given("x", 4, 8) @ given("w", 8, 8)
    stored = tensor.clip((product * 10).round(), -128, 127).astype("i8")
    hidden = stored.astype("fp32") * 0.1
    assert stored_dtypes(hidden @ given("a", 8, 8) + hidden.sum(0)) == ["i8"]
