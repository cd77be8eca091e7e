"""The house: who may import whom, how large a file may be, and what `import eqsat` may load."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

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


def imported(tree: ast.AST, known: dict[str, Path]) -> Iterator[Path]:
    """The files that a file imports, wherever in it the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (known[alias.name] for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner, outer = f"{node.module}.{alias.name}", node.module or ""
                yield from [known[name] for name in (inner, outer) if name in known][:1]


def cycles(graph: nx.DiGraph) -> list[str]:
    """A cycle of each group of files that import each other, as `a → b → a`."""
    found = []
    for group in nx.strongly_connected_components(graph):
        if len(group) > 1:
            edges = nx.find_cycle(graph.subgraph(group), min(group))
            found.append(" → ".join(map(str, [*(edge[0] for edge in edges), edges[0][0]])))
    return sorted(found)


def imports(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_house(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    folder = name.split("/")[0]
    allowed = MAY_IMPORT[folder] | ({"codegen"} if name in SEES_CODEGEN else set())
    foreign = {module for module in imports(ast.parse(path.read_text())) if module in MAY_IMPORT} - allowed
    assert not foreign, f"{name} imports {sorted(foreign)}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_is_one_idea(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_arguments_of_terms_are_asked_for_by_name(path: Path) -> None:
    """`term.field("map")` and `node.map`: the places of arguments stand in `ir/term/language.py` alone."""
    name = str(path.relative_to(ROOT))
    if not name.startswith(TERMS) or name == "eqsat/egraph/enode.py":
        return
    parts = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Subscript)]
    lines = [part.lineno for part in parts if isinstance(part.value, ast.Attribute) and part.value.attr == "args"]
    assert not lines, f"{name} takes arguments by their places in lines {lines}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_libraries_are_imported_inside_functions(path: Path) -> None:
    top = ast.Module([node for node in ast.parse(path.read_text()).body if not isinstance(node, ast.If)], [])
    shallow: list[ast.stmt] = [node for node in top.body if isinstance(node, ast.Import | ast.ImportFrom)]
    allowed = {"typer"} if path.name == "cli.py" else set()
    heavy = HEAVY & set(imports(ast.Module(shallow, []))) - allowed
    assert not heavy, f"{path.name} imports {sorted(heavy)} at the top"


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
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert not {name: files for name, files in homes.items() if len(files) > 1}
