"""Serving: sizes built side by side, once and ahead of calls; what answers while a size is built."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import Buckets, Program, optimize_and_compile
from eqsat.serving import background
from eqsat.serving.buckets import buckets_of
from eqsat.serving.preparation import Preparation
from eqsat.serving.variants import Variants
from ir.diagnostics import EqsatError, Kind

ROWS = "%x: fp32[M, 4] = input()\n%w: fp32[4] = input()\n%a = reshape(%w, result_shape=[1, 4])\n"
ROWS += "%b: fp32[M, 4] = expand(%a)\n%c = mul(%x, %b)\n%y = relu(%c)"
PLANE = "%x: fp32[M, N] = input()\n%y = relu(%x)"
LAST = '%x: fp32[M, 4] = input()\n%y: fp32[2] = view(%x, result_shape=[2], index_map=["M - 1", "i0"])'
TOTAL = "%x: fp32[M, 4] = input()\n%y: fp32[4] = reduce(%x, axes=[0], op=SUM, dtype=fp32)"
W = np.array([1, -2, 3, 0.5], np.float32)
SECONDS = 20.0
"""How long a test waits for another thread before it fails."""


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, 4), dtype=np.float32)


def program(**keywords: Any) -> Program:
    return optimize_and_compile(ROWS, constants={"w": W}, target="cpu", threads=1, **keywords)


def right(program_: Program, count: int) -> None:
    x = rows(count)
    np.testing.assert_array_equal(program_(x), np.maximum(x * W, 0))


class Gate:
    """Builds that wait until the test lets them go on."""

    def __init__(self, build: Callable[[Mapping[str, int]], Any]) -> None:
        self.build, self.begun, self.open = build, threading.Semaphore(0), threading.Event()
        self.sizes: list[dict[str, int]] = []

    def __call__(self, dims: Mapping[str, int]) -> Any:
        self.sizes.append(dict(dims))
        self.begun.release()
        assert self.open.wait(SECONDS)
        return self.build(dims)


@pytest.fixture
def gate() -> Iterator[Gate]:
    result = Gate(lambda dims: dims["M"])
    yield result
    result.open.set()


def held_back(program_: Program) -> Gate:
    """The gate before all later builds of a program."""
    gate = Gate(program_._variants._specialise)
    program_._variants._specialise = gate
    return gate


def test_two_sizes_are_built_side_by_side(gate: Gate) -> None:
    variants: Any = Variants(gate, {})
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(variants, {"M": size}) for size in (1, 2)]
        assert gate.begun.acquire(timeout=SECONDS)
        assert gate.begun.acquire(timeout=SECONDS), "the second size waited for the first"
        gate.open.set()
        assert [future.result() for future in results] == [1, 2]


def test_a_size_that_two_calls_want_is_built_once(gate: Gate) -> None:
    variants: Any = Variants(gate, {})
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(variants, {"M": 1}) for _ in range(2)]
        gate.begun.acquire(timeout=SECONDS)
        gate.open.set()
        assert [future.result() for future in results] == [1, 1]
    assert gate.sizes == [{"M": 1}]


def test_a_size_that_is_ready_waits_for_no_build(gate: Gate) -> None:
    known: Any = {(("M", 1),): "ready"}
    variants: Any = Variants(gate, known)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(variants, {"M": 2})
        gate.begun.acquire(timeout=SECONDS)
        assert variants({"M": 1}) == "ready"
        gate.open.set()
        assert other.result() == 2


def test_an_error_reaches_all_that_wait_and_the_next_call_tries_again() -> None:
    tries: list[int] = []

    def build(dims: Mapping[str, int]) -> Any:
        tries.append(1)
        time.sleep(0.05)
        if len(tries) == 1:
            raise ValueError("no")
        return "built"

    variants: Any = Variants(build, {})
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(variants, {"M": 1}) for _ in range(2)]
        assert sum(future.exception() is not None for future in results) >= 1
    assert variants({"M": 1}) == "built"


def test_who_waits_for_an_interrupted_build_builds_it() -> None:
    begun, waits = threading.Event(), threading.Event()

    def build(dims: Mapping[str, int]) -> Any:
        if not begun.is_set():
            begun.set()
            waits.wait(SECONDS)
            raise KeyboardInterrupt
        return "built"

    variants: Any = Variants(build, {})
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(variants, {"M": 1})
        begun.wait(SECONDS)
        second = pool.submit(variants, {"M": 1})
        waits.set()
        with pytest.raises(KeyboardInterrupt):
            first.result()
        assert second.result() == "built"


def test_a_call_takes_over_a_build_that_no_thread_has_begun(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Callable[[], None]] = []
    monkeypatch.setattr("eqsat.serving.variants.in_background", waiting.append)
    gate.open.set()
    variants: Any = Variants(gate, {})
    build = variants.start({"M": 1})
    assert variants({"M": 1}) == 1
    assert build.result.result() == 1
    waiting[0]()
    assert gate.sizes == [{"M": 1}]


def test_prepared_sizes_are_not_dropped_by_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.serving.variants.MOST_VARIANTS", 2)
    built: Any = lambda dims: dims["M"]  # noqa: E731
    variants: Any = Variants(built, {})
    Preparation(variants, [{"M": size} for size in range(5)], ("M",)).wait()
    for size in (10, 11, 12):
        variants({"M": size})
    assert [dict(key)["M"] for key in variants.held] == [0, 1, 2, 3, 4, 11, 12]


def test_the_background_limits_its_threads_and_they_end() -> None:
    most, running, lock = [0], [0], threading.Lock()
    done = threading.Semaphore(0)

    def task() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1
        done.release()

    for _ in range(10):
        background.in_background(task)
    assert all(done.acquire(timeout=SECONDS) for _ in range(10))
    assert most[0] <= background.MOST_THREADS


def test_buckets_are_sorted_and_print_and_copy() -> None:
    assert repr(Buckets(8, 1, 2, 2)) == "Buckets(1, 2, 8)"
    assert pickle.loads(pickle.dumps(Buckets(1, 2))) == copy.deepcopy(Buckets(1, 2)) == Buckets(1, 2)
    assert buckets_of(range(64, 257, 64)) == buckets_of([64, 128, 192, 256]) == Buckets(64, 128, 192, 256)
    assert [Buckets(2, 4).above(size) for size in (1, 2, 3, 5)] == [2, 2, 4, 5]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Buckets(),
        lambda: Buckets(1, -1),
        lambda: Buckets(True),
        lambda: program(dims={"M": []}),
        lambda: program(dims={"Q": [1, 2]}),
        lambda: program(dims={"M": [1, "2"]}),
        lambda: program(when_missing="never"),
        lambda: program(when_missing={"Q": "pad"}),
        lambda: program(dims={"M": 3}, when_missing={"M": "pad"}),
        lambda: program().prepare(),
        lambda: program().prepare(Q=1),
        lambda: program().prepare(M="1"),
        lambda: program().prepare([1, 2]),  # type: ignore[arg-type]
        lambda: program().prepare(M=1, background="yes"),  # type: ignore[arg-type]
    ],
)
def test_wrong_sizes_and_words_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(EqsatError) as caught:
        wrong()
    assert caught.value.kind is Kind.INVALID_OPTION


@pytest.mark.slow
def test_prepare_builds_every_combination_and_tells_of_each() -> None:
    stages: list[str] = []
    actual = optimize_and_compile(PLANE, target="cpu", threads=1, dims={"N": [3, 2]})
    assert actual.buckets == {"N": Buckets(2, 3)}
    done = actual.prepare(M=[4, 1], progress=stages.append)
    wanted = [{"M": 1, "N": 2}, {"M": 1, "N": 3}, {"M": 4, "N": 2}, {"M": 4, "N": 3}]
    assert done.ready == done.sizes == wanted
    assert sorted(map(str, actual.variants)) == sorted(map(str, wanted))
    assert stages[-1].endswith("ready, 4 of 4")
    assert repr(done) == "Preparation(4 of 4 sizes ready)"
    actual._variants._specialise = lambda dims: pytest.fail("built twice")
    assert actual.prepare({"M": 4}, N=2).is_done


def test_errors_of_prepared_sizes_are_all_raised() -> None:
    result = optimize_and_compile("%x: fp32[M] = input()\n%y = shrink(%x, lo=[2], hi=[4])", target="cpu", threads=1)
    # the sizes contradict the program, which is known before a build begins
    with pytest.raises(EqsatError) as caught:
        result.prepare(M=[1, 3, 4])
    assert caught.value.kind is Kind.AXIS_SIZE_MISMATCH

    def fails(dims: Mapping[str, int]) -> Any:
        raise EqsatError(caught.value.diagnostics)

    result._variants._specialise = fails
    begun = result.prepare(M=[4, 5], background=True)
    with pytest.raises(EqsatError) as both:
        begun.wait()
    assert [one.details["sizes"] for one in both.value.diagnostics] == [{"M": 4}, {"M": 5}]
    assert "2 errors" in repr(begun)


@pytest.mark.slow
def test_preparation_in_the_background_can_be_waited_for_and_cancelled() -> None:
    result = program()
    gate = held_back(result)
    begun = result.prepare(M=range(1, 2 + background.MOST_THREADS), background=True)
    for _ in range(background.MOST_THREADS):
        assert gate.begun.acquire(timeout=SECONDS)
    assert not begun.wait(timeout=0.01).is_done
    begun.cancel()
    gate.open.set()
    begun.wait(timeout=SECONDS)
    assert len(begun.ready) == background.MOST_THREADS
    right(result, 1 + background.MOST_THREADS)


@pytest.mark.slow
def test_a_call_is_padded_to_a_ready_size_while_its_own_is_built() -> None:
    result = program(dims={"M": [2, 4, 8]}, when_missing="pad")
    result.prepare(M=8)
    gate = held_back(result)
    right(result, 3)
    assert gate.begun.acquire(timeout=SECONDS)
    right(result, 3)
    right(result, 8)
    assert result.variants == [{"M": 8}]
    out = np.empty((3, 4), np.float32)
    x = rows(3)
    assert result(x, out=out) is out
    np.testing.assert_array_equal(out, np.maximum(x * W, 0))
    assert result(x).flags.c_contiguous
    gate.open.set()
    result.prepare(M=4)
    assert gate.sizes == [{"M": 4}], "the bucket is built, not the size of the call"
    right(result, 3)
    assert {"M": 3} not in result.variants


@pytest.mark.slow
def test_without_buckets_the_own_size_is_built() -> None:
    result = program(when_missing="pad")
    right(result, 8)
    gate = held_back(result)
    right(result, 5)
    gate.open.set()
    result.prepare(M=5)
    assert result.variants == [{"M": 8}, {"M": 5}] or result.variants == [{"M": 5}, {"M": 8}]
    right(result, 5)


def test_numpy_answers_while_the_code_is_built() -> None:
    result = program(when_missing="eager")
    gate = held_back(result)
    right(result, 3)
    assert result.variants == []
    gate.open.set()
    result.prepare(M=3)
    right(result, 3)
    assert gate.sizes == [{"M": 3}]


def test_a_build_that_failed_in_the_background_is_told_by_the_next_call() -> None:
    result = program(when_missing="eager")

    def fails(dims: Mapping[str, int]) -> Any:
        raise RuntimeError("broken")

    result._variants._specialise = fails
    right(result, 3)
    while result._variants._building:
        time.sleep(0.001)
    with pytest.raises(EqsatError, match="broken"):
        result(rows(3))


def test_padding_that_reaches_results_is_refused_with_the_uop() -> None:
    with pytest.raises(EqsatError) as caught:
        optimize_and_compile(LAST, target="cpu", threads=1, dims={"M": [4, 8]}, when_missing="pad")
    assert caught.value.kind is Kind.UNSUPPORTED_OP
    assert caught.value.diagnostics[0].at == "y"
    late = optimize_and_compile(TOTAL, target="cpu", threads=1, when_missing="pad")
    np.testing.assert_allclose(late(rows(4)), rows(4).sum(0), rtol=1e-5)
    with pytest.raises(EqsatError, match="the reduction combines them"):
        late(rows(3))


@pytest.mark.slow
def test_only_the_named_dims_are_padded() -> None:
    result = optimize_and_compile(PLANE, target="cpu", threads=1, when_missing={"M": "pad"})
    result.prepare(M=4, N=4)
    gate = held_back(result)
    x = rows(2)
    np.testing.assert_array_equal(result(x), np.maximum(x, 0))
    assert gate.begun.acquire(timeout=SECONDS)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(result, np.ascontiguousarray(x[:, :3]))
        assert gate.begun.acquire(timeout=SECONDS), "N is not padded, so this call waits for its own size"
        gate.open.set()
        np.testing.assert_array_equal(waits.result(), np.maximum(x[:, :3], 0))


def saved_and_pickled(program_: Program, folder: Path) -> list[Program]:
    """The program from a file, from a pickle, and from a file of the loaded one."""
    program_.save(folder / "program")
    once = eqsat.load(folder / "program")
    once.save(folder / "again")
    return [once, pickle.loads(pickle.dumps(program_)), eqsat.load(folder / "again")]


@pytest.mark.slow
def test_saved_and_pickled_programs_have_the_prepared_sizes(tmp_path: Path) -> None:
    result = program(dims={"M": [2, 4]})
    result.prepare()
    for again in saved_and_pickled(result, tmp_path):
        assert again.variants == result.variants
        assert again.buckets == {"M": Buckets(2, 4)}
        right(again, 4)
        assert again.prepare().ready == [{"M": 2}, {"M": 4}]
        for call, given in ((again.prepare, {"M": 3}), (again, {"x": rows(3)})):
            with pytest.raises(EqsatError) as caught:
                call(given)
            assert caught.value.kind is Kind.UNBOUND_DIM


def test_saved_and_pickled_programs_pad(tmp_path: Path) -> None:
    result = program(dims={"M": [2, 4]}, when_missing="pad")
    result.prepare()
    for again in saved_and_pickled(result, tmp_path):
        for size in (1, 3, 4, 2, 0):
            right(again, size)
        assert sorted(sizes["M"] for sizes in again.variants) == [2, 4]
        with pytest.raises(EqsatError) as caught:
            again(rows(5))
        assert caught.value.kind is Kind.UNBOUND_DIM


def test_a_saved_program_with_buckets_that_were_not_built_pads_to_those_that_were(tmp_path: Path) -> None:
    result = program(dims={"M": [2, 4]}, when_missing="pad")
    result.prepare(M=4)
    for again in saved_and_pickled(result, tmp_path):
        right(again, 1)
        right(again, 2)
        with pytest.raises(EqsatError) as caught:
            again.prepare()
        assert caught.value.kind is Kind.UNBOUND_DIM


def test_a_saved_program_with_constants_pads(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).random((8, 3), np.float32)
    text = """
%x: fp32[M, 8] = input()
%w: fp32[8, 3] = input()
%a = reshape(%x, result_shape=[M, 8, 1])
%b = reshape(%w, result_shape=[1, 8, 3])
%c: fp32[M, 8, 3] = expand(%a)
%d: fp32[M, 8, 3] = expand(%b)
%e = mul(%c, %d)
%y: fp32[M, 3] = reduce(%e, axes=[1], op=SUM, dtype=fp32)
"""
    result = optimize_and_compile(
        text, target="cpu", threads=1, constants={"w": weights}, dims={"M": [4]}, when_missing="pad"
    )
    result.prepare()
    x = np.random.default_rng(1).random((3, 8), np.float32)
    for again in saved_and_pickled(result, tmp_path):
        np.testing.assert_allclose(again(x), x @ weights, rtol=1e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_builds_what_the_parent_was_building(gate: Gate) -> None:
    variants: Any = Variants(gate, {})
    thread = threading.Thread(target=variants, args=({"M": 1},))
    thread.start()
    gate.begun.acquire(timeout=SECONDS)
    child = os.fork()
    if child == 0:
        variants._specialise = lambda dims: 7
        os._exit(0 if variants({"M": 1}) == 7 else 2)
    assert os.waitpid(child, 0)[1] == 0
    gate.open.set()
    thread.join()
