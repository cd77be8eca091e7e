"""Caches that were damaged in every way: programs still give right numbers, with a note, and mend what they can."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from eqsat import optimize_and_compile
from ir.diagnostics import EqsatError
from tests.stress.child import programs
from tests.stress.processes import files_below

KEPT = (".json", ".so", ".sha256")
"""What decides which numbers come out; the rest is locks."""
Damage = Callable[[Path, list[Path], random.Random], None]


def _truncated(path: Path, others: list[Path], rng: random.Random) -> None:
    data = path.read_bytes()
    _replace(path, data[: rng.randrange(len(data) + 1) if data else 0])


def _emptied(path: Path, others: list[Path], rng: random.Random) -> None:
    _replace(path, b"")


def _flipped(path: Path, others: list[Path], rng: random.Random) -> None:
    data = bytearray(path.read_bytes() or b"\0")
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    _replace(path, bytes(data))


def _random_bytes(path: Path, others: list[Path], rng: random.Random) -> None:
    _replace(path, rng.randbytes(rng.choice((1, 65, 5000))))


def _lengthened(path: Path, others: list[Path], rng: random.Random) -> None:
    _replace(path, path.read_bytes() + b"\0" * rng.choice((1, 4096)))


def _gone(path: Path, others: list[Path], rng: random.Random) -> None:
    path.unlink()


def _folder(path: Path, others: list[Path], rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path, others: list[Path], rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _to_nothing(path: Path, others: list[Path], rng: random.Random) -> None:
    path.unlink()
    path.symlink_to("/dev/null" if rng.random() < 0.5 else path.with_name("nobody"))


def _to_itself(path: Path, others: list[Path], rng: random.Random) -> None:
    path.unlink()
    path.symlink_to(path)


def _linked(path: Path, others: list[Path], rng: random.Random) -> None:
    path.unlink()
    path.symlink_to(rng.choice(others))


def _swapped(path: Path, others: list[Path], rng: random.Random) -> None:
    """With another object, and each with its checksum: both are whole."""
    other = rng.choice(others)
    for suffix in {path.suffix} | ({".so", ".sha256"} if path.suffix in (".so", ".sha256") else set()):
        one, two = path.with_suffix(suffix), other.with_suffix(suffix)
        if one.is_file() and two.is_file():
            data = one.read_bytes()
            _replace(one, two.read_bytes())
            _replace(two, data)


def _forbidden(path: Path, others: list[Path], rng: random.Random) -> None:
    path.chmod(0)


DAMAGES: tuple[Damage, ...] = (
    _truncated, _emptied, _flipped, _random_bytes, _lengthened, _gone, _folder, _pipe, _to_nothing, _to_itself,
    _linked, _swapped, _forbidden,
)  # fmt: skip


def damaged_caches(rounds: int, seed: int, several: bool = False) -> list[str]:
    """So many rounds: a whole cache, one file of it damaged, or `several`; the programs compiled twice. Complaints."""
    rng, complaints = random.Random(seed), []
    with tempfile.TemporaryDirectory(prefix="eqsat-caches-") as name:
        whole, used = Path(name) / "whole", Path(name) / "used"
        used_before = os.environ.get("EQSAT_CACHE_DIR")
        try:
            os.environ["EQSAT_CACHE_DIR"] = str(whole)
            failure, notes = _outcome()
            assert not failure, failure
            assert not notes, notes
            os.environ["EQSAT_CACHE_DIR"] = str(used)
            for number in range(rounds):
                shutil.copytree(whole, used)
                kinds = _damage(used, rng, several, number)
                complaints += [f"round {number}, {', '.join(kinds)}: {complaint}" for complaint in _complaints(kinds)]
                shutil.rmtree(used)
        finally:
            if used_before is None:
                del os.environ["EQSAT_CACHE_DIR"]
            else:
                os.environ["EQSAT_CACHE_DIR"] = used_before
    return complaints


def _damage(folder: Path, rng: random.Random, several: bool, number: int) -> list[str]:
    """Damage files of a cache; which, and how."""
    notes_of_run = []
    files = files_below(folder)
    for path in rng.sample(files, rng.randint(2, len(files))) if several else [rng.choice(files)]:
        others = [file for file in files if file.suffix == path.suffix and file != path and file.is_file()]
        damage = rng.choice(DAMAGES) if several else DAMAGES[number % len(DAMAGES)]
        if others and os.path.lexists(path) and (path.is_file() or damage in (_gone, _folder, _pipe)):
            damage(path, others, rng)
            notes_of_run.append(f"{damage.__name__.strip('_')} {path.suffix}")
    return notes_of_run


def _complaints(kinds: list[str]) -> list[str]:
    failure, notes = _outcome()
    if failure:
        return [failure]
    # where nothing lies nothing is amiss; root reads all
    silent = ("gone .so", "gone .json", "to_nothing", "forbidden")
    kept_kinds = [kind for kind in kinds if kind.endswith(KEPT) and not kind.startswith(silent)]
    result = [] if notes or not kept_kinds else ["no note"]
    failure, notes = _outcome()
    mended = not any(kind.startswith("folder") or kind.endswith(".lock") for kind in kinds)  # nobody mends these
    return [*result, *([failure] if failure else []), *([f"not mended: {notes}"] if notes and mended else [])]


def _outcome() -> tuple[str, list[str]]:
    """Why the programs' numbers are wrong or missing, and the notes of the cache."""
    given = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    notes: list[str] = []
    for number, (y, meaning) in enumerate(programs(3)):
        try:
            program = optimize_and_compile(y, target="cpu", threads=2)
            result = program(given)
        except EqsatError as error:
            return f"program {number} is refused: {error}", notes
        except Exception as error:
            return f"program {number}: {type(error).__name__}: {error}", notes
        notes += [diagnostic.message for diagnostic in program.diagnostics if diagnostic.stage == "cache"]
        if not np.allclose(result, meaning(given), rtol=1e-5, atol=1e-5):
            return f"program {number} gives wrong numbers", notes
    return "", notes


def _replace(path: Path, data: bytes) -> None:
    """Other content in another file: what is loaded from the old one stays whole."""
    new = path.with_name("new")
    new.write_bytes(data)
    os.replace(new, path)
