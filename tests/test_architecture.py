"""The house: who may import whom, how large a file may be, and what `import eqsat` may load."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "ir": {"ir"},
    "rules": {"rules", "ir"},
    "codegen": {"codegen", "ir"},
    "eqsat": {"eqsat", "rules", "ir"},
}
SEES_CODEGEN = {
    f"eqsat/{name}.py"
    for name in (
        *(
            "api",
            "build_code",
            "compile_model",
            "find_target",
            "load_compiled",
            "load_program",
            "make_artifact",
            "pipeline",
            "replan_kernels",
        ),
        *("planning/replanning", "planning/target_pricer", "studies/covers"),
    )
}
HEAVY = {"islpy", "egglog", "networkx", "onnx", "onnxruntime", "torch", "scipy", "cupy", "rich", "typer", "jinja2"}
FILES = sorted(path for folder in MAY_IMPORT for path in (ROOT / folder).rglob("*.py"))
TERMS = ("rules/", "eqsat/egraph/", "eqsat/extraction/", "eqsat/assembly/", "eqsat/explanation/")
"""Folders whose files read terms and e-nodes."""


def modules(*folders: str) -> dict[str, Path]:
    """The files of these folders by the name of their module, paths from the root."""
    paths = [path.relative_to(ROOT) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements inside a node, at any depth."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, field, ()):
            yield inner
            yield from statements(inner)


def imported(tree: ast.AST, known: dict[str, Path]) -> Iterator[Path]:
    """The files that a file imports, wherever in it the import stands."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (known[alias.name] for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner, outer = f"{node.module}.{alias.name}", node.module or ""
                yield from [known[name] for name in (inner, outer) if name in known][:1]


def cycles(graph: nx.DiGraph) -> list[str]:
    """A cycle of each group of files that import each other, as `a → b → a`."""
    results = []
    for group in nx.strongly_connected_components(graph):
        if len(group) > 1:
            edges = nx.find_cycle(graph.subgraph(group), min(group))
            results.append(" → ".join(map(str, [*(edge[0] for edge in edges), edges[0][0]])))
    return sorted(results)


def imports(nodes: Iterable[ast.AST]) -> set[str]:
    """The packages that these nodes import."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


@dataclass(frozen=True)
class Source:
    """What one file of ours is asked for. top: the packages that it imports at the top. places: the lines that take an
    argument of a term by its place."""

    lines: int
    packages: frozenset[str]
    top: frozenset[str]
    classes: tuple[str, ...]
    places: tuple[int, ...]

    @classmethod
    def read(cls, text: str) -> Source:
        """The source of this text."""
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        parts = [node for node in nodes if isinstance(node, ast.Subscript)]
        return cls(
            lines=len(text.splitlines()),
            packages=frozenset(imports(nodes)),
            top=frozenset(imports(tree.body)),
            classes=tuple(node.name for node in nodes if isinstance(node, ast.ClassDef)),
            places=tuple(n.lineno for n in parts if isinstance(n.value, ast.Attribute) and n.value.attr == "args"),
        )


@functools.cache
def sources() -> dict[str, Source]:
    """The files of the four folders, by path from the root."""
    return {str(path.relative_to(ROOT)): Source.read(path.read_text()) for path in FILES}


def test_imports_follow_the_house() -> None:
    foreign = {}
    for name, source in sources().items():
        allowed = MAY_IMPORT[name.split("/")[0]] | ({"codegen"} if name in SEES_CODEGEN else set())
        foreign[name] = sorted((source.packages & MAY_IMPORT.keys()) - allowed)
    assert not {name: packages for name, packages in foreign.items() if packages}


def test_a_file_is_one_idea() -> None:
    assert not {name: source.lines for name, source in sources().items() if source.lines > 500}


def test_arguments_of_terms_are_asked_for_by_name() -> None:
    """`term.field("map")` and `node.map`: the places of arguments stand in `ir/term/language.py` alone."""
    readers = {name: s for name, s in sources().items() if name.startswith(TERMS) and name != "eqsat/egraph/enode.py"}
    assert not {name: source.places for name, source in readers.items() if source.places}


def test_heavy_libraries_are_imported_inside_functions() -> None:
    heavy = {name: source.top & HEAVY for name, source in sources().items()}
    commands = {name for name in heavy if Path(name).name == "cli.py"}
    heavy.update({name: heavy[name] - {"typer"} for name in commands})
    assert not {name: sorted(packages) for name, packages in heavy.items() if packages}


def test_each_fact_of_a_file_is_read() -> None:
    text = """
import torch.nn
if TYPE_CHECKING:
    import onnx
class Outer:
    def late(self, term):
        from codegen.run import device
        return term.args[2], term.args, term.other[1]
"""
    source = Source.read(text)
    assert source == Source(8, frozenset({"torch", "onnx", "codegen"}), frozenset({"torch"}), ("Outer",), (8,))


def test_import_eqsat_stays_light() -> None:
    code = f"import sys, eqsat; print(sorted(set({sorted(HEAVY)!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_import_eqsat_imports_none_of_its_rooms() -> None:
    code = "import sys, eqsat; print(sorted({'numpy', 'ir', 'rules', 'codegen', 'eqsat.api'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_a_package_that_shadows_one_of_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "__init__.py").touch()
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import eqsat"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert f"eqsat's package 'rules' is shadowed by {tmp_path}" in done.stderr


def test_no_files_import_each_other_in_a_circle() -> None:
    known = modules(*MAY_IMPORT, "bench", "tests", "docs")
    graph = nx.DiGraph()
    for path in known.values():
        graph.add_edges_from((path, other) for other in imported(ast.parse((ROOT / path).read_text()), known))
    assert not cycles(graph)


def test_a_circle_is_told_file_by_file() -> None:
    graph = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")])
    assert cycles(graph) == ["b → c → b"]


def test_every_import_counts_in_circles() -> None:
    text = """
import eqsat.clock
def late():
    from eqsat import options
if TYPE_CHECKING:
    from ir.region.region import Region
"""
    known = modules("eqsat", "ir")
    expected = {Path("eqsat/clock.py"), Path("eqsat/options.py"), Path("ir/region/region.py")}
    assert {*imported(ast.parse(text), known)} == expected


def test_class_names_are_distinct() -> None:
    homes: dict[str, list[str]] = {}
    for name, source in sources().items():
        for class_name in source.classes:
            homes.setdefault(class_name, []).append(name)
    assert not {name: files for name, files in homes.items() if len(files) > 1}
