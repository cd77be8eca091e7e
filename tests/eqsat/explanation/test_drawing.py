"""Drawings of programs and of their kernels: boxes, arrows, frames, and their text as DOT and SVG."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from bench.programs import programs
from eqsat.explanation.drawing import Box, Drawing, Frame
from eqsat.explanation.drawing_to_dot import drawings_to_dot
from eqsat.explanation.drawing_to_svg import drawings_to_svg
from eqsat.explanation.explore import explore
from eqsat.explanation.graph_to_drawing import graph_to_drawing, kernels_after, kernels_before
from ir.tiny.bind import load

TEXT = """
%x: fp32[4, 8] = input()
%e = exp(%x)
%s: fp32[4] = reduce(%e, axes=[1], op=SUM)
%r = add(%s, 1e-05)
return %r, %e
"""
ODD = Drawing('a "b" <c>', {"%": Box(("é\n<&>", "\0"), "#ffffff"), "b": Box(("",), "#ffffff", True)}, (("%", "b"),))
SVG = "{http://www.w3.org/2000/svg}"


def test_the_uops_of_a_graph() -> None:
    drawing = graph_to_drawing(load(TEXT)[0], "a model")
    assert [box.lines for box in drawing.boxes.values()] == [
        ("x", "fp32[4, 8]"),
        ("e = exp", "fp32[4, 8]"),
        ("s = sum", "fp32[4]"),
        ("r = add 1e-05", "fp32[4]"),
    ]
    assert drawing.edges == (("x", "e"), ("e", "s"), ("s", "r"))
    assert [name for name, box in drawing.boxes.items() if box.is_output] == ["e", "r"]


@pytest.mark.parametrize("name", ["rms norm+linear", "softmax", "conv block"])
def test_kernels_frame_the_uops_that_they_compute(name: str) -> None:
    run = explore(programs()[name](), target="cpu")
    before, after = kernels_before(run), kernels_after(run)
    assert len(before.boxes) == run.uops
    assert before.title == f"before: {run.kernels_before} kernels, one per uop"
    assert [len(frame.boxes) for frame in after.frames] == [len(set(kernel.uops)) or 1 for kernel in run.kernels]
    framed = {box for frame in after.frames for box in frame.boxes}
    assert len(framed) == sum(len(frame.boxes) for frame in after.frames)
    assert {box.removeprefix("in:") for box in after.boxes.keys() - framed} == {
        name for call in run.calls for name in call.reads if name not in {w for c in run.calls for w in c.writes}
    }
    for place, frame in enumerate(after.frames):
        sources = {a for a, b in after.edges if b in frame.boxes and a not in frame.boxes}
        assert len(sources) == len(set(run.calls[place].reads))


def test_dot_has_a_cluster_for_every_frame() -> None:
    run = explore(programs()["rms norm+linear"](), target="cpu")
    after = kernels_after(run)
    text = drawings_to_dot([kernels_before(run), after])
    assert text.count("subgraph cluster_") == 2 + len(after.frames)
    assert text.count("fillcolor") == run.uops + len(after.boxes)
    assert text.count("{") == text.count("}")
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tplain"], input=text, text=True, capture_output=True, check=True)


@pytest.mark.parametrize("name", ["rms norm+linear", "conv block"])
def test_svg_keeps_boxes_in_their_frames_and_apart(name: str) -> None:
    run = explore(programs()[name](), target="cpu")
    for drawing in (kernels_before(run), kernels_after(run)):
        root = ElementTree.fromstring(drawings_to_svg([drawing], with_dot=False))
        (group,) = root.findall(f"{SVG}g")
        rects = [(rect.get("class"), _corners(rect)) for rect in group.findall(f"{SVG}rect")]
        boxes = [corners for kind, corners in rects if kind != "frame"]
        frames = [corners for kind, corners in rects if kind == "frame"]
        assert (len(boxes), len(frames)) == (len(drawing.boxes), len(drawing.frames))
        assert len(group.findall(f"{SVG}polyline")) == len(drawing.edges)
        for place, box in enumerate(boxes):
            assert not any(_meet(box, other) for other in boxes[place + 1 :])
            assert sum(_meet(box, frame) for frame in frames) <= 1
        assert sum(_is_within(box, frame) for box in boxes for frame in frames) == sum(
            len(frame.boxes) for frame in drawing.frames
        )
        width, height = float(root.get("width") or 0), float(root.get("height") or 0)
        assert all(x0 >= 0 and x1 <= width and y1 <= height for x0, _, x1, y1 in boxes + frames)


def test_an_arrow_is_not_hidden_behind_boxes() -> None:
    boxes = {name: Box((name,), "#ffffff") for name in "abcde"}
    edges = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("e", "d"), ("e", "c"))
    drawing = Drawing("a chain", boxes, edges, (Frame("k", tuple("abcd")),))
    root = ElementTree.fromstring(drawings_to_svg([drawing], with_dot=False))
    (group,) = root.findall(f"{SVG}g")
    placed = [_corners(rect) for rect in group.findall(f"{SVG}rect") if rect.get("class") != "frame"]
    lines = [_points(line) for line in root.iter(f"{SVG}polyline")]
    assert len(lines) == len(edges)
    for line in lines:
        for one, other in pairwise(line):
            middle = [one[0] + (other[0] - one[0]) * k / 16 for k in range(17)]
            heights = [one[1] + (other[1] - one[1]) * k / 16 for k in range(17)]
            for x0, y0, x1, y1 in placed:
                assert not any(
                    x0 + 1 < x < x1 - 1 and y0 + 1 < y < y1 - 1 for x, y in zip(middle, heights, strict=True)
                )


def test_arrows_end_at_frames_and_lead_back_to_their_own() -> None:
    boxes = {name: Box((name,), "#ffffff", note="by & rule", is_dashed=True) for name in "abc"}
    frames = (Frame("k", ("a", "b"), "#eeeeee", "K"), Frame("l", ("c",), "#eeeeee", "L"))
    drawing = Drawing("a cycle", boxes, (("a", "K"), ("b", "L"), ("c", "K")), frames)
    text = drawings_to_svg([drawing], with_dot=False)
    root = ElementTree.fromstring(text)
    own, down, up = (_points(line) for line in root.iter(f"{SVG}polyline"))
    assert down[0][1] < down[-1][1]
    assert up[0][1] > up[-1][1]
    assert len(own) == 5
    assert text.count("<title>by &amp; rule</title>") == 3
    dot = drawings_to_dot([drawing])
    assert "d0_2 -> d0_0 [lhead=cluster_0_0];" in dot
    assert dot.count("dashed") == 3


def test_any_text_can_be_drawn() -> None:
    root = ElementTree.fromstring(drawings_to_svg([ODD]))
    assert 'a "b" <c>' in [text.text for text in root.iter(f"{SVG}text")]
    assert r'label="a \"b\" <c>"' in drawings_to_dot([ODD])


def _points(line: ElementTree.Element) -> list[tuple[float, float]]:
    pairs = [point.split(",") for point in (line.get("points") or "").split()]
    return [(float(x), float(y)) for x, y in pairs]


def _corners(rect: ElementTree.Element) -> tuple[float, float, float, float]:
    x, y, width, height = (float(rect.get(key) or "nan") for key in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _is_within(box: tuple[float, ...], frame: tuple[float, ...]) -> bool:
    return frame[0] <= box[0] and box[2] <= frame[2] and frame[1] <= box[1] and box[3] <= frame[3]
