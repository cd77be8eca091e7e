"""Output of the commands `eqsat explain`, `eqsat explore` and `eqsat show`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from eqsat.explanation.explore import Exploration
from eqsat.explanation.kernel_by_name import Wanted
from eqsat.explanation.screen import print_fitting, wrap_text
from ir.diagnostics import EqsatError, Kind, fail
from ir.serde import to_builtins

if TYPE_CHECKING:
    from eqsat.explanation.drawing import Drawing
    from eqsat.explanation.profile import Profile
    from eqsat.runtime.program import Program
    from ir.tiny.graph import Graph

EXPLORED = {
    "target": "auto",
    "exactness": "rounding",
    "tf32": False,
    "rules": None,
    "extractor": "pareto",
    "cost_model": "roofline",
    "budget": None,
}
"""The defaults of the keywords of `explore` that `eqsat explore` has as options."""


def kernel_argument(word: str | None) -> str | int | None:
    """A kernel named on a command line: a number is its place, other words are names."""
    return int(word) if word is not None and word.lstrip("-").isdecimal() else word


def explain(program: Program, kernel: Wanted | None, pair: Sequence[Wanted | None] | None, as_json: bool) -> None:
    """Print an explanation of all kernels, of one, or why a pair was not fused."""
    if pair is not None:
        first, second = (kernel for kernel in pair if kernel is not None)
        answer = program.why_not(first, second)
        print(json.dumps(to_builtins(answer), indent=2) if as_json else wrap_text(str(answer)))
    elif as_json:
        print(json.dumps(program.explained(kernel), indent=2))
    else:
        print_fitting(program.explanation(kernel))


def explore_model(model: str, part: str | None = None, **keywords: Any) -> dict[str, Exploration]:
    """The explorations of all parts of a model, or of a saved program, by name; of one part if `part` names it."""
    from eqsat.api import load
    from eqsat.explanation.explore import explore, explore_parts
    from eqsat.runtime.store import is_saved

    saved = load(model) if is_saved(Path(model)) else None
    if part is not None:
        return {part: explore(model, part=part, **keywords) if saved is None else saved.explore(part)}
    return explore_parts(model, **keywords) if saved is None else saved.explorations()


def tiny_text(model: str, dims: Mapping[str, int]) -> str:
    """A model, or a saved program, as Tiny text. Without sizes a Tiny program is shown as written, if it needs some.

    Raises:
        EqsatError: UnboundDim, if a model of another form needs sizes, or if too few are given.
    """
    from eqsat.model import TinyModel, read_model
    from eqsat.runtime.store import is_saved

    if is_saved(Path(model)):
        return str(_saved_graph(model))
    read = read_model(model, dims=dims)
    try:
        return str(read.bind(read.infer({}), strict=False).graph)
    except EqsatError as error:
        if error.kind is Kind.UNBOUND_DIM and isinstance(read, TinyModel) and not dims:
            return str(read.source)
        raise


def drawings(model: str, dims: Mapping[str, int]) -> list[Drawing]:
    """A model, or a saved program, as a drawing of its uops."""
    from eqsat.explanation.graph_to_drawing import graph_to_drawing
    from eqsat.model import read_model
    from eqsat.runtime.store import is_saved

    if is_saved(Path(model)):
        return [graph_to_drawing(_saved_graph(model), Path(model).name)]
    read = read_model(model, dims=dims)
    return [graph_to_drawing(read.bind(read.infer({}), strict=False).graph, Path(model).name)]


def kernel_drawings(model: str, **keywords: Any) -> list[Drawing]:
    """The kernels of a model, or of a saved program, before and after optimization. keywords: of `explore`."""
    from eqsat.explanation.graph_to_drawing import kernels_after, kernels_before

    runs = explore_model(model, **keywords)
    pairs = {name: (kernels_before(run), kernels_after(run)) for name, run in runs.items()}
    return [drawing for name, pair in pairs.items() for drawing in titled(name if len(pairs) > 1 else "", pair)]


def titled(name: str, drawn: Sequence[Drawing]) -> list[Drawing]:
    """The drawings with a name before their titles, if there is one."""
    return (
        [msgspec.structs.replace(drawing, title=f"{name}, {drawing.title}") for drawing in drawn]
        if name
        else list(drawn)
    )


def drawing_text(drawn: Sequence[Drawing], is_svg: bool) -> str:
    """The drawings as SVG or DOT."""
    from eqsat.explanation.drawing_to_dot import drawings_to_dot
    from eqsat.explanation.drawing_to_svg import drawings_to_svg

    return drawings_to_svg(drawn) if is_svg else drawings_to_dot(drawn)


def _saved_graph(model: str) -> Graph:
    from eqsat.api import load
    from ir.tiny.bind import load as load_tiny

    return load_tiny(load(model).dump("tiny", as_json=True))[0]


def measured_kernels(model: str, **keywords: Any) -> Profile:
    """The measured kernels of a model, or of a saved program, on random inputs. keywords: of `explore`."""
    from eqsat.api import load, optimize_and_compile
    from eqsat.runtime.store import is_saved

    program = load(model) if is_saved(Path(model)) else optimize_and_compile(model, **keywords)
    return program.profile(program.random_inputs())


def write_egraph_of(runs: Mapping[str, Exploration], path: Path, around: str | None = None, steps: int = 0) -> None:
    """Write the e-graph of the run, or the part around a class, a kernel or a uop. Raises EqsatError, InvalidOption,
    for the runs of several parts."""
    run = _only(runs, "a file holds the e-graph of one part")
    run.write_egraph(path, kernel_argument(around), steps)


def _only(runs: Mapping[str, Exploration], message: str) -> Exploration:
    """The run, if there is only one."""
    if len(runs) > 1:
        fail(Kind.INVALID_OPTION, "explore", message, hint=f"--part {' or '.join(runs)}")
    return next(iter(runs.values()))


def show(runs: Mapping[str, Exploration], others: Mapping[str, Exploration], as_json: bool) -> None:
    """Print the run of every part, or its comparison with another run of the part."""
    if as_json:
        data = {name: _run_data(run, others.get(name)) for name, run in runs.items()}
        print(json.dumps({"parts": data} if len(data) > 1 else data.popitem()[1], indent=2))
        return
    for name, run in runs.items():
        if len(runs) > 1:
            print(f"part {name}\n")
        print_fitting(run.compare(others[name]).view() if name in others else run.view())


def _run_data(run: Exploration, other: Exploration | None) -> dict[str, Any]:
    if other is None:
        return run.data()
    return {"run": run.data(), "without": other.data(), "comparison": to_builtins(run.compare(other))}
