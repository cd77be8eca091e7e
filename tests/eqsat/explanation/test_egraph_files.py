"""E-graphs as drawings: classes are frames, also in cycles, and too large ones are refused with the way to a part."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eqsat import EqsatError
from eqsat.explanation import egraph_files
from eqsat.explanation.egraph_to_drawing import egraph_to_drawing
from eqsat.explanation.explore import Exploration, explore
from eqsat.explanation.layered_layout import lay_out
from ir.term.language import GIVEN
from tests.support.programs import graphs

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run() -> Exploration:
    return explore(graphs.gemm_bias_relu(), target="cpu")


@pytest.mark.parametrize("around", [None, "kernel"])
def test_every_class_is_a_frame_and_every_argument_an_arrow(run: Exploration, around: str | None) -> None:
    view = run.egraph(around and run.kernels[0].name)
    drawing = egraph_to_drawing(view, run.setting.bound.graph.outputs)
    inside = {number: nodes for number, nodes in view.classes.items() if nodes[0].ctor != GIVEN.name}
    assert [frame.name for frame in drawing.frames] == [f"class {number}" for number in inside]
    assert (len(inside) < len(view.classes)) == (around is not None)
    assert len(drawing.edges) == sum(len({*node.children}) for nodes in inside.values() for node in nodes)
    assert {name for name, box in drawing.boxes.items() if box.is_dashed} == {
        f"{number}.{place}"
        for number, nodes in inside.items()
        for place, node in enumerate(nodes)
        if node in view.rules
    }
    assert any("Contract fp32 [8]" in box.lines[0] and ", by " in box.note for box in drawing.boxes.values())
    assert any(box.is_output for box in drawing.boxes.values())


def test_files_without_graphviz(run: Exploration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for suffix in egraph_files.SUFFIXES:
        run.write_egraph(tmp_path / f"e{suffix}")
    assert json.loads((tmp_path / "e.json").read_text())["root_eclasses"]
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tplain", tmp_path / "e.dot"], capture_output=True, check=True)
    monkeypatch.setenv("PATH", "")
    run.write_egraph(tmp_path / "e.svg")
    root = ElementTree.parse(tmp_path / "e.svg").getroot()
    frames = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "frame"]
    assert len(frames) == run.classes
    monkeypatch.setattr(egraph_files, "DRAWN_NODES", {".svg": 3})
    with pytest.raises(EqsatError, match=r"(?s)drawing; \.svg has 3 at most.*--around KERNEL") as caught:
        run.write_egraph(tmp_path / "e.svg")
    assert str(caught.value.kind) == "ResourceExceeded"
    with pytest.raises(EqsatError, match=r"'\.png' is none of \.json, \.dot, \.svg"):
        run.write_egraph(tmp_path / "e.png")


@pytest.mark.parametrize("seed", range(20))
def test_the_layered_layout_of_any_graph(seed: int) -> None:
    """Nodes are apart, and an edge of any cycle passes between the nodes of the layers that it crosses."""
    draw = random.Random(seed)
    names = [f"n{k}" for k in range(draw.randint(1, 14))]
    sizes = {name: (float(draw.randint(10, 90)), float(draw.choice([20, 50]))) for name in names}
    edges = {(a, b) for a in names for b in names if a != b and draw.random() < 0.15}
    result = lay_out(sizes, sorted(edges))
    assert result.routes.keys() == edges
    rects = {
        name: (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        for name, (w, h) in sizes.items()
        for x, y in [result.centres[name]]
    }
    for name, (a0, b0, a1, b1) in rects.items():
        assert a0 >= 0 <= b0
        assert (a1 <= result.width) & (b1 <= result.height)
        assert not any(
            a0 < c1 and c0 < a1 and b0 < d1 and d0 < b1 for other, (c0, d0, c1, d1) in rects.items() if other != name
        )
    for (a, b), route in result.routes.items():
        assert route[0][0] == result.centres[a][0]
        assert route[-1][0] == result.centres[b][0]
        for one, other in pairwise(route):
            for k in range(1, 8):
                x, y = one[0] + (other[0] - one[0]) * k / 8, one[1] + (other[1] - one[1]) * k / 8
                assert not any(x0 < x < x1 and y0 < y < y1 for x0, y0, x1, y1 in rects.values())
