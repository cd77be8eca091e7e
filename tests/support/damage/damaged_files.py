"""Damages saved programs and cache entries, and checks the outcome.

A trial damages one thing. It corrects checksums where they would hide the damage. A trial succeeds if it ends in an
EqsatError, or in a program with right results: the same bits as the undamaged program's, or the results of the graph in
the file. As a process of its own, it announces each trial before it starts, so that a crash is also a finding:

    python -m tests.support.damage.damaged_files FOLDER MODE SEED COUNT
"""

from __future__ import annotations

import copy
import hashlib
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import eqsat
from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.runtime import artifact
from eqsat.runtime.artifact import Artifact
from ir.diagnostics import EqsatError
from ir.host.checked_file import write_checked
from ir.serde import from_json, to_builtins

GONE = object()
ODD: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 3, 2**31, 2**63, 2**200, -(2**70), 0.5, 1e308, -0.0),
    *("", "x", "fp64", "eq_none", "\u0000", "[3] -> [i0]", [], [0], [[]], {}, {"x": 1}),
    GONE,
)
"""What a field becomes."""
X = np.random.default_rng(3).standard_normal((6, 40)).astype(np.float32)
QUESTIONS: tuple[Callable[[Program], Any], ...] = (
    repr,
    lambda program: program.explain(),
    lambda program: program.source(),
    lambda program: program.dump("module", as_json=True),
    lambda program: program.profile(X, repeats=1),
)
Parts = dict[str, bytes]
Path_ = tuple[Any, ...]


class Trial(NamedTuple):
    """What is damaged, in words, and the bytes of the damaged file."""

    said: str
    data: bytes


def model() -> list[t.Tensor]:
    """Products with a packed constant, a folded constant, an intermediate value, a scan, two results of one type."""
    rng = np.random.default_rng(0)
    w, b = (t.constant(rng.standard_normal(shape).astype("f"), name=n) for n, shape in (("w", (40, 24)), ("b", (24,))))
    y = (t.input("x", (6, 40)) @ w + (b * b + 1)).relu()
    z = (y - y.max(1, keepdims=True)).exp().cumsum(0)
    return [y, z, z.sum()]


def compiled(target: str) -> Program:
    return optimize_and_compile(model(), target=target, emulate=target != "cpu", threads=1)


# saved files


def unpacked(data: bytes) -> Parts:
    import io

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: Parts) -> bytes:
    import io

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()


def with_checksums(parts: Parts) -> bytes:
    """The file of these parts, with checksums and names that fit them where the manifest can be read."""
    parts = dict(parts)
    names = {name: f"parts/{hashlib.sha256(data).hexdigest()}" for name, data in parts.items() if "/" in name}
    model = parts["model.json"].decode()
    for old, new in names.items():
        model = model.replace(old, new)
    parts = {names.get(name, name): data for name, data in parts.items()} | {"model.json": model.encode()}
    manifest = json.loads(parts["manifest.json"])
    if isinstance(manifest, dict) and isinstance(manifest.get("sha256"), dict):
        manifest["sha256"] = {n: hashlib.sha256(d).hexdigest() for n, d in parts.items() if n != "manifest.json"}
    return packed(parts | {"manifest.json": json.dumps(manifest).encode()})


def flipped(whole: bytes, rng: np.random.Generator) -> Trial:
    """A byte that is another, bytes that are gone, or bytes that stand twice; checksums as they were."""
    at, span = int(rng.integers(len(whole))), int(rng.integers(1, 200))
    match int(rng.integers(4)):
        case 0:
            return Trial(f"cut at {at}", whole[:at])
        case 1:
            return Trial(f"{span} bytes gone at {at}", whole[:at] + whole[at + span :])
        case 2:
            return Trial(f"{span} bytes twice at {at}", whole[: at + span] + whole[at:])
    bit = 1 << int(rng.integers(8))
    return Trial(f"bit {bit} flipped at {at}", whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])


def changed_part(whole: bytes, rng: np.random.Generator, sealed: bool) -> Trial:
    """A field of one of a file's JSON parts is another. `sealed`: the artifact's contract fits what it now says."""
    parts = unpacked(whole)
    stored = json.loads(parts["model.json"])["variants"][0]
    names = ["manifest.json", "model.json", *([stored["artifact"]] * 4), *(c["part"] for c in stored["constants"])]
    name = stored["artifact"] if sealed else names[int(rng.integers(len(names)))]
    if name in [constant["part"] for constant in stored["constants"]]:
        trial = flipped(parts[name], rng)
        return Trial(f"constant: {trial.said}", with_checksums({**parts, name: trial.data}))
    document, said = changed(json.loads(parts[name]), rng)
    if sealed:
        document = resealed(document)
    label = name if "." in name else "artifact"
    return Trial(f"{label}: {said}", with_checksums({**parts, name: json.dumps(document).encode()}))


def resealed(document: Any) -> Any:
    """The artifact with the contract of what it now says, as a forged one has; as it is, where it is no artifact."""
    try:
        result = from_json(json.dumps(document), Artifact)
        return to_builtins(artifact.seal(result))
    except Exception:
        return document


# fields of JSON


def places(document: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Every field of a document, by the keys that lead to it."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


def get(document: Any, at: Path_) -> Any:
    for key in at:
        document = document[key]
    return document


def changed(document: Any, rng: np.random.Generator) -> tuple[Any, str]:
    """The document with one field changed, and the field. Every kind of field is equally likely, not every field."""
    document = copy.deepcopy(document)
    every = list(places(document))
    depth = int(rng.integers(1, 1 + max(map(len, every))))
    chosen = [way for way in every if len(way) == depth]
    first: dict[Path_, list[Path_]] = {}
    for way in chosen:
        first.setdefault(tuple(key for key in way if isinstance(key, str)), []).append(way)
    alike = list(first.values())[int(rng.integers(len(first)))]
    *above, key = alike[int(rng.integers(len(alike)))]
    holder = get(document, tuple(above))
    said = ".".join(map(str, (*above, key)))
    others = [other for other in (holder if isinstance(holder, dict) else range(len(holder))) if other != key]
    match int(rng.integers(4)):
        case 0 if others:
            other = others[int(rng.integers(len(others)))]
            holder[key], holder[other] = holder[other], holder[key]
            return document, f"{said} and {other} swapped"
        case 1 if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
            return document, f"{said} stands twice"
        case 2 if isinstance(holder[key], int | float):
            factor = (-1, 2, 0.5, 1000)[int(rng.integers(4))]
            holder[key] = type(holder[key])(holder[key] * factor) + (1 if factor == 2 else 0)
            return document, f"{said} = {holder[key]}"
    value = ODD[int(rng.integers(len(ODD)))]
    if value is GONE:
        del holder[key]
    else:
        holder[key] = copy.deepcopy(value)
    return document, f"{said} = {'gone' if value is GONE else repr(value)[:40]}"


# what comes of it


def judged(load: Callable[[], Program], expected: tuple[np.ndarray, ...]) -> str:
    """What became of a trial: "refused", "right", or what is wrong."""
    try:
        program = load()
    except EqsatError:
        return "refused"
    except Exception as error:
        return f"WRONG: {type(error).__name__}: {error}"
    for ask in QUESTIONS:
        try:
            ask(program)
        except EqsatError:
            pass
        except Exception as error:
            return f"WRONG: a question: {type(error).__name__}: {error}"
    try:
        results = program(X)
        same = len(results) == len(expected)
        if same and all(a.tobytes() == b.tobytes() for a, b in zip(results, expected, strict=True)):
            return "right"
        program.verify(X)
        return "right"
    except EqsatError as error:
        return f"refused: {error.kind}"
    except Exception as error:
        return f"WRONG: a call: {type(error).__name__}: {error}"


def trials_of_files(
    folder: Path, mode: str, target: str, rng: np.random.Generator
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Damaged saved programs. mode: "bytes", "fields", "sealed", or "recompile" (fields of a file to recompile)."""
    program = compiled(target)
    program.save(folder / "whole")
    whole, expected, path = (folder / "whole").read_bytes(), program(X), folder / "damaged"
    while True:
        actual = flipped(whole, rng) if mode == "bytes" else changed_part(whole, rng, mode == "sealed")
        path.write_bytes(actual.data)

        def load() -> Program:
            return eqsat.load(path, threads=1, emulate=target != "cpu", recompile=mode == "recompile")

        yield actual.said, lambda: judged(load, expected)


def trials_of_entries(
    folder: Path, mode: str, target: str, rng: np.random.Generator
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Damaged entries of the cache: of programs, and of objects with their checksums."""
    import eqsat.make_artifact as make_artifact

    expected = compiled(target)(X)
    (entry,) = (folder / "cache" / "programs").iterdir()
    whole = entry.read_bytes()
    body = whole.partition(b"\n")[2]
    actual = from_json(body, Artifact)
    vars(make_artifact)["optimize"] = lambda *_: actual  # an entry is made again in no time
    objects = [path for path in (folder / "cache").rglob("*") if path.suffix in (".so", ".sha256")]
    kept = {path: path.read_bytes() for path in objects}
    while True:
        for path, data in {**kept, entry: whole}.items():
            _replaced(path, data)
        if mode == "bytes":
            victim = [entry, *objects][int(rng.integers(1 + len(objects)))]
            trial = flipped(victim.read_bytes(), rng)
            _replaced(victim, trial.data)
            said = f"{victim.suffix}: {trial.said}"
        else:
            document, said = changed(json.loads(body), rng)
            if mode == "sealed":
                document = resealed({**document, **_only_the_code_knows(whole)})
            write_checked(entry, json.dumps(document).encode())
        yield said, lambda: judged(lambda: compiled(target), expected)


def _only_the_code_knows(entry: bytes) -> dict[str, Any]:
    """The launches of an entry as they are. A sealed entry is compiled anew, with the contract of what it now says, so
    that nothing shows how much memory its kernels need (`ir.module.launch_verify`)."""
    return {"table": json.loads(entry.partition(b"\n")[2])["table"]}


def _replaced(path: Path, data: bytes) -> None:
    """Another file in the place of one that may be a library in use."""
    if not path.exists() or path.read_bytes() != data:
        path.unlink(missing_ok=True)
        path.write_bytes(data)


def main(folder: Path, mode: str, seed: int, count: int) -> None:
    """`mode`: files or entries, what is damaged, and the target, as "files-fields-cpu"."""
    where, what, target = mode.split("-")
    of = {"files": trials_of_files, "entries": trials_of_entries}[where]
    trials = of(folder, what, target, np.random.default_rng(seed))
    for number in range(count):
        said, judge = next(trials)
        print(f"{number}: {said}", end=" -> ", flush=True)
        print(judge(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
