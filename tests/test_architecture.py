"""The house: who may import whom, how large a file may be, and what `import eqsat` may load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "ir": {"ir"},
    "rules": {"rules", "ir"},
    "codegen": {"codegen", "ir"},
    "eqsat": {"eqsat", "rules", "ir"},
}
SEES_CODEGEN = {
    f"eqsat/{name}.py" for name in ("api", "find_target", "load_program", "pipeline", "planning/target_pricer")
}
HEAVY = {"islpy", "egglog", "networkx", "onnx", "onnxruntime", "torch", "scipy", "cupy", "rich", "typer", "jinja2"}
FILES = sorted(path for folder in MAY_IMPORT for path in (ROOT / folder).rglob("*.py"))


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
def test_heavy_libraries_are_imported_inside_functions(path: Path) -> None:
    top = ast.Module([node for node in ast.parse(path.read_text()).body if not isinstance(node, ast.If)], [])
    shallow = [node for node in top.body if isinstance(node, ast.Import | ast.ImportFrom)]
    allowed = {"typer"} if path.name == "cli.py" else set()
    heavy = HEAVY & set(imports(ast.Module(shallow, []))) - allowed
    assert not heavy, f"{path.name} imports {sorted(heavy)} at the top"


def test_import_eqsat_stays_light() -> None:
    code = f"import sys, eqsat; print(sorted(set({sorted(HEAVY)!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
