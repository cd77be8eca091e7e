"""Processes killed at random moments of compiling, saving and writing the cache: whoever comes next has right numbers,
and the folders do not grow."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from tests.stress.processes import Answer, Place, answer, files_below, killed, started


def after_kills(folder: Path, kills: int, seed: int, whole_seconds: float | None = None) -> tuple[list[str], Answer]:
    """Kill that many processes that share a cache, then let one end. Complaints, and the last one's answer.

    `whole_seconds`: what a process needs that is not killed; measured where it is None."""
    rng, place, complaints = random.Random(seed), Place.below(folder), []
    if whole_seconds is None:
        began = time.perf_counter()
        first = answer(started(Place.below(folder / "apart")))
        whole_seconds = time.perf_counter() - began
        complaints += _bad("not killed", first)
    for number in range(kills):
        several = [started(place) for _ in range(rng.choice((1, 1, 2)))]
        time.sleep(rng.uniform(0.2, 1.1) * whole_seconds * len(several))
        for process in several:
            killed(process, alone=rng.random() < 0.5)
        if number % 5 == 4:
            complaints += _bad(f"after {number + 1} kills", answer(started(place)))
    age(folder)
    for path in files_below(place.cache):
        if path.suffix in (".json", ".so"):
            path.unlink()  # whoever writes nothing removes nothing
    last = answer(started(place))
    return complaints + _bad("at last", last), last


def _bad(when: str, said: Answer) -> list[str]:
    return [f"{when}: {said.failure or said.refusal}"] if said.failure or said.refusal else []


def age(folder: Path) -> None:
    """Let two hours pass for every file."""
    then = time.time() - 7200
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (then, then), follow_symlinks=False)


def garbage(folder: Path) -> list[Path]:
    """What no process has a use for: temporary files, and unfinished files in the cache."""
    place = Place.below(folder)
    return [*files_below(place.temporary), *place.cache.rglob(".new-*"), *folder.glob(".new-*")]
