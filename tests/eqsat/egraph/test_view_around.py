"""A part of an e-graph is a valid e-graph: every node has its operands, and a root has a finite cost."""

from __future__ import annotations

import pytest

from eqsat import EqsatError
from eqsat.egraph.view_to_serialized import view_to_serialized
from eqsat.explanation.explore import Exploration, explore
from tests.support.programs import graphs


@pytest.fixture(scope="module")
def run() -> Exploration:
    return explore(graphs.attention(length=8, width=8), target="cpu")


@pytest.mark.parametrize(("around", "steps"), [(None, 0), ("kernel", 0), ("buffer", 1), ("n8", 2), (5, 1), (5, 99)])
def test_parts_are_what_egraph_serialize_reads(run: Exploration, around: str | int | None, steps: int) -> None:
    """The checks are the crate's: fields, their types, ids that exist, and what bottom-up extraction needs."""
    named = {"kernel": run.kernels[0].name, "buffer": run.kernels[-1].writes[0]}
    view = run.egraph(named.get(around, around) if isinstance(around, str) else around, steps)
    data = view_to_serialized(view, list(view.tiny)[-1:])
    nodes = data["nodes"]
    classes = {node["eclass"] for node in nodes.values()}
    assert {*data["root_eclasses"]} <= classes == {*data["class_data"]}
    for node in nodes.values():
        assert {name: type(value) for name, value in node.items()} == {
            "op": str,
            "children": list,
            "eclass": str,
            "cost": float,
            "subsumed": bool,
        }
        assert nodes.keys() >= {*node["children"]}
    reached: set[str] = set()
    while (
        more := {
            node["eclass"]
            for node in nodes.values()
            if {nodes[child]["eclass"] for child in node["children"]} <= reached
        }
        - reached
    ):
        reached |= more
    assert reached == classes


def test_more_steps_show_more_up_to_the_whole(run: Exploration) -> None:
    sizes = [sum(map(len, run.egraph("n8", steps).classes.values())) for steps in (0, 1, 2, 99)]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == sum(map(len, run.egraph().classes.values()))
    with pytest.raises(EqsatError, match="no class, kernel or uop"):
        run.egraph("nothing")
