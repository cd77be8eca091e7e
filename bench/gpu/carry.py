"""Gathers what a bare GPU machine lacks: `python -m bench.gpu.carry [--to .whl] [--python 3.12] [--limit-mib 64]`.

Downloads wheels of the packages of `ABSENT`, in the versions that are installed here, for Linux on x86-64; checks that
they fit into the limit together with the working tree; and prints the command for the machine. The folder `.whl` is
ignored by git.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from bench.facts import ROOT

ABSENT = (
    "black",
    "egglog",
    "graphviz",
    "islpy",
    "msgspec",
    "opentelemetry-api",
    "platformdirs",
    "pytokens",
)
"""Packages that eqsat and its tests need and that a machine with PyTorch, CuPy and pytest does not have."""
NOT_IMPORTED = ("anywidget",)
"""Requirements of egglog for notebooks alone, which eqsat never imports."""
PRESENT = (
    *("click", "cloudpickle", "cupy-cuda13x", "filelock", "hypothesis", "jinja2", "ml-dtypes", "mypy-extensions"),
    *("networkx", "numpy", "nvidia-cuda-nvrtc", "packaging", "pathspec", "pytest", "pytest-xdist", "rich", "scipy"),
    *("typer", "typing-extensions"),
)
"""Packages that eqsat and its tests need and that the machine has."""
_GLIBC = range(17, 36)
"""Minor versions of glibc 2 whose wheels are taken: pip compares them exactly."""
_MIB = 1 << 20
COMMAND = """python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \\
  --target /tmp/site {folder}/*.whl && export PYTHONPATH=/tmp/site PYTHONUNBUFFERED=1 || exit
python3 -m bench.gpu --all --minutes 9 --to $OUT"""


class TooLargeError(Exception):
    """The wheels and the working tree do not fit; the text names the largest files."""


def download(folder: Path, python: str) -> list[Path]:
    """The wheels of `ABSENT` for a version of Python, as "3.12", in the folder; other wheels there are deleted.

    Raises:
        CalledProcessError: if pip finds no wheel.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for wheel in folder.glob("*.whl"):
        wheel.unlink()
    platforms = ("manylinux1_x86_64", "manylinux2014_x86_64", *(f"manylinux_2_{n}_x86_64" for n in _GLIBC))
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--implementation", "cp", "--python-version", python, "-d", str(folder)]
    command += [word for platform in platforms for word in ("--platform", platform)]
    subprocess.run([*command, *(f"{name}=={version(name)}" for name in ABSENT)], check=True)
    return sorted(folder.glob("*.whl"))


def check_size(wheels: list[Path], tree: list[Path], limit: int) -> int:
    """The bytes of all files together.

    Raises:
        TooLargeError: if they exceed the limit.
    """
    sizes = {path: path.stat().st_size for path in {*wheels, *tree} if path.is_file()}
    total = sum(sizes.values())
    if total > limit:
        largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:5]
        named = ", ".join(f"{path.name} {sizes[path] / _MIB:.1f}" for path in largest)
        raise TooLargeError(f"{total / _MIB:.1f} MiB are more than {limit / _MIB:.0f}; the largest: {named}")
    return total


def working_tree() -> list[Path]:
    """The files of the working tree that travel: tracked ones, and untracked ones that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    named = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [ROOT / name for name in named.split("\0") if name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=ROOT / ".whl", help="the folder of the wheels")
    parser.add_argument("--python", default="3.12", help="the machine's version of Python")
    parser.add_argument("--limit-mib", type=float, default=64, help="of the wheels and the working tree together")
    options = parser.parse_args()
    try:
        wheels = download(options.to, options.python)
        total = check_size(wheels, working_tree(), int(options.limit_mib * _MIB))
    except TooLargeError as error:
        raise SystemExit(str(error)) from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"pip found no wheel, as it says above (status {error.returncode})") from None
    print(*(f"{wheel.stat().st_size / _MIB:6.1f} MiB {wheel.name}" for wheel in wheels), sep="\n")
    print(f"{total / _MIB:6.1f} MiB with the working tree\n\nOn the machine, with {options.to.name} carried:\n")
    folder = options.to.relative_to(ROOT) if options.to.is_relative_to(ROOT) else options.to
    print(COMMAND.format(folder=folder))


if __name__ == "__main__":
    main()
