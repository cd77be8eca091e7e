"""Values between parts may have any order of axes, where no loop and no caller sees them."""

from collections.abc import Sequence

from eqsat import tensor
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.looping.edges import PartGroup, edges_of_equals, part_groups
from eqsat.looping.split import split
from eqsat.tensor import Tensor
from ir.tiny.bind import load
from tests.eqsat.looping.test_repeated_blocks import given, network, residual


def groups_of(outputs: Tensor | Sequence[Tensor]) -> list[PartGroup]:
    graph = load(tensor_to_tiny(outputs)[0])[0]
    return list(part_groups(split(graph, ()), graph.outputs))


def test_values_between_layers_are_edges() -> None:
    (group,) = groups_of(network(residual, 5))
    written = [ref for part in group.parts for ref in part.graph.outputs]
    assert group.edges == frozenset(written[:-1])


def test_outputs_of_the_program_are_no_edges() -> None:
    value, outputs = given("x", 6, 8), []
    for place in range(4):
        value = residual(value, f"layer{place}")
        outputs.append(value)
    (group,) = groups_of(outputs)
    assert len(group.parts) > 1
    assert not group.edges


def test_what_a_loop_reads_and_leaves_is_no_edge() -> None:
    start = (given("x", 4, 4) @ given("w", 4, 4)).exp()

    def step(state: Tensor, _: None) -> tuple[Tensor, None]:
        return (state @ start).tanh(), None

    last, _ = tensor.scan(step, start, length=3)
    groups = groups_of(last @ start)
    assert len(groups) == 2
    assert all(not group.edges for group in groups)


def test_equal_parts_have_the_edges_of_all() -> None:
    """The last layer's result is an output of the program, that of other layers an edge."""
    (group,) = groups_of(network(residual, 5))
    blocks = [part for part in group.parts if part.name.startswith("block")]
    assert {*blocks[-1].graph.outputs}.isdisjoint(group.edges)
    assert {*blocks[-1].graph.outputs} < {*edges_of_equals([blocks[-1], *blocks[:-1]], group.edges)}
