"""The thread pool: every task once, whoever runs it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from codegen.compile.library import Library, build, pool_declarations, pool_source
from codegen.compile.machine import machine

_EXPORT = '__attribute__((visibility("default")))'
_TASKS = (
    "#include <time.h>\n"
    + pool_declarations()
    + f"""
typedef struct {{ int64_t *hits; int32_t n, threads, depth; int64_t spin; int32_t *users; int64_t *bad; }} job;

static void task(void *ctx, int32_t i, int32_t thread) {{
  job *j = ctx;
  if (thread < 0 || thread >= j->threads) j->bad[0]++;
  if (j->users && __atomic_fetch_add(&j->users[thread], 1, __ATOMIC_SEQ_CST)) j->bad[0]++;
  for (volatile int64_t s = 0; s < j->spin; s++) {{}}
  if (j->depth) {{
    job inner = *j;
    int64_t block = 1;
    for (int32_t d = 0; d < j->depth; d++) block *= j->n;
    inner.depth--, inner.hits += i * block, inner.users = 0;
    eq_parallel_for(task, &inner, j->n, j->threads);
  }} else {{
    j->hits[i]++;
  }}
  if (j->users) __atomic_fetch_sub(&j->users[thread], 1, __ATOMIC_SEQ_CST);
}}

{_EXPORT} void loops(int64_t *hits, int32_t n, int32_t threads, int32_t depth, int64_t spin, int32_t repeat,
                     int64_t *bad) {{
  int32_t users[256] = {{0}};
  for (int32_t r = 0; r < repeat; r++) {{
    job j = {{hits, n, threads, depth, spin, users, bad}};
    eq_parallel_for(task, &j, n, threads);
  }}
}}

/* Whether the count comes to what is wanted, within 20 s. */
static int32_t wait_for(int32_t *count, int32_t wanted) {{
  time_t end = time(NULL) + 20;
  while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < wanted)
    if (time(NULL) >= end) return 0;
  return 1;
}}

/* Each of two tasks waits until the other has come. */
static void meet_task(void *ctx, int32_t i, int32_t thread) {{
  int32_t *come = ctx;
  __atomic_fetch_add(&come[0], 1, __ATOMIC_SEQ_CST);
  if (wait_for(&come[0], 2)) __atomic_fetch_add(&come[1], 1, __ATOMIC_SEQ_CST);
}}
{_EXPORT} int32_t meet(void) {{
  int32_t come[2] = {{0}};
  eq_parallel_for(meet_task, come, 2, 2);
  return come[1];
}}

typedef struct {{ int32_t n, threads, come, done, *first; }} shares;
/* A thread's first task waits for all threads; that of the last thread also for all other tasks. */
static void share_task(void *ctx, int32_t i, int32_t thread) {{
  shares *s = ctx;
  if (s->first[thread] < 0) {{
    s->first[thread] = i;
    __atomic_fetch_add(&s->come, 1, __ATOMIC_SEQ_CST);
    wait_for(&s->come, s->threads);
    if (thread == s->threads - 1) wait_for(&s->done, s->n - 1);
  }}
  __atomic_fetch_add(&s->done, 1, __ATOMIC_SEQ_CST);
}}
{_EXPORT} int32_t share(int32_t *first, int32_t n, int32_t threads) {{
  shares s = {{n, threads, 0, 0, first}};
  time_t start = time(NULL);
  eq_parallel_for(share_task, &s, n, threads);
  return time(NULL) - start < 20 ? s.done : -1;
}}

typedef struct {{ float tiny; float *out; }} flush;
static void flush_task(void *ctx, int32_t i, int32_t thread) {{
  flush *f = ctx;
  volatile float x = f->tiny;
  f->out[i] = x * 2.0f;
  for (volatile int s = 0; s < 20000; s++) {{}}
}}
{_EXPORT} void denormals(float *out, int32_t n, int32_t threads, int32_t on) {{
  eq_run run;
  eq_run_begin(&run, on);
  flush f = {{1e-40f, out}};
  eq_parallel_for(flush_task, &f, n, threads);
  eq_run_end(&run);
}}
{_EXPORT} float after(void) {{ volatile float x = 1e-40f; return x * 2.0f; }}
"""
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return build({"tasks": _TASKS, "pool": pool_source()}, machine(), cache=tmp_path_factory.mktemp("pool"))


def _loops(
    library: Library, n: int, threads: int, *, depth: int = 0, spin: int = 0, repeat: int = 1
) -> NDArray[np.int64]:
    """How often each task ran."""
    hits = np.zeros(max(n, 1) ** (depth + 1), np.int64)
    bad = np.zeros(1, np.int64)
    i32, i64, pointer = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
    run = library.function("loops", (pointer, i32, i32, i32, i64, i32, pointer))
    run(hits.ctypes.data, n, threads, depth, spin, repeat, bad.ctypes.data)
    assert bad[0] == 0, "two running tasks shared a thread number"
    return hits


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 3, 17, 1000])
def test_each_task_runs_once(library: Library, n: int, threads: int) -> None:
    assert (_loops(library, n, max(threads, 1), spin=50) == 1).all()


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_start_with_tasks_of_their_own_and_help_others(library: Library, threads: int) -> None:
    first, n = np.full(256, -1, np.int32), 8 * threads
    share = library.function("share", (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32), ctypes.c_int32)
    assert share(first.ctypes.data, n, threads) == n, "a thread did not take the tasks of a thread that waits"
    assert first[:threads].tolist() == [8 * thread for thread in range(threads)]


@pytest.mark.parametrize("n", [0, -1])
def test_no_tasks(library: Library, n: int) -> None:
    assert (_loops(library, n, 4) == 0).all()


def test_many_loops_in_a_row(library: Library) -> None:
    assert (_loops(library, 5, 2, repeat=20_000) == 20_000).all()
    assert (_loops(library, 7, 4, repeat=2_000, spin=10) == 2_000).all()


def test_after_sleep(library: Library) -> None:
    for _ in range(5):
        time.sleep(0.005)
        assert (_loops(library, 9, 2, spin=1000) == 1).all()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone says where threads may run")
def test_workers_wake_apart_from_the_caller_and_may_run_where_it_may(library: Library) -> None:
    """Apart only while they wake: a worker that was kept from a processor for good would miss it later."""
    allowed = os.sched_getaffinity(0)
    tasks = Path("/proc/self/task")
    others = {int(task.name) for task in tasks.iterdir()}
    fresh = build({"tasks": _TASKS + "/* a pool of its own */", "pool": pool_source()}, machine())
    for _ in range(5):
        assert (_loops(fresh, 9, 3, spin=20_000) == 1).all()
        time.sleep(0.005)
    workers = {int(task.name) for task in tasks.iterdir()} - others
    assert len(workers) == 2
    end = time.monotonic() + 20
    while any(os.sched_getaffinity(worker) != allowed for worker in workers) and time.monotonic() < end:
        assert (_loops(fresh, 9, 3, spin=20_000) == 1).all()
        time.sleep(0.02)
    assert all(os.sched_getaffinity(worker) == allowed for worker in workers)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        time.sleep(0.01)
        assert (_loops(fresh, 9, 3, spin=1000) == 1).all()
    finally:
        os.sched_setaffinity(0, allowed)


def test_two_threads_run_at_once(library: Library) -> None:
    assert library.function("meet", (), ctypes.c_int32)() == 2


def test_a_loop_inside_a_task(library: Library) -> None:
    assert (_loops(library, 6, 3, depth=2) == 1).all()


def test_many_host_threads(library: Library) -> None:
    wrong: list[str] = []

    def host(seed: int) -> None:
        for _ in range(30):
            n = seed + 1
            if not (_loops(library, n, 2, spin=100, repeat=20) == 20).all():
                wrong.append(f"thread {seed}")

    threads = [threading.Thread(target=host, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_denormals_are_flushed_only_when_told(library: Library) -> None:
    run = library.function("denormals", (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32))
    after = library.function("after", (), ctypes.c_float)
    kept = np.float32(2 * np.float32(1e-40))
    for on, want in ((1, np.float32(0)), (0, kept), (1, np.float32(0))):
        for threads in (1, 2):
            out = np.ones(16, np.float32)
            run(out.ctypes.data, 16, threads, on)
            assert (out == want).all()
            assert after() == kept, "the caller's mode is its own"


def test_a_forked_child_has_a_pool_of_its_own(library: Library) -> None:
    assert (_loops(library, 8, 2, spin=100) == 1).all()
    child = os.fork()
    if child == 0:
        fine = all((_loops(library, 8, 2, spin=100, repeat=50) == 50).all() for _ in range(3))
        os._exit(0 if fine else 1)
    assert _wait(child) == 0
    assert (_loops(library, 8, 2, spin=100) == 1).all()


def _wait(child: int, seconds: float = 20) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


_UNLOAD = """
import ctypes, _ctypes, sys, time
import numpy as np
hits, bad = np.zeros(8, np.int64), np.zeros(1, np.int64)
for _ in range(20):
    dll = ctypes.CDLL(sys.argv[1])
    dll.loops.argtypes = [ctypes.c_void_p] + [ctypes.c_int32] * 3 + [ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p]
    dll.loops(hits.ctypes.data, 8, 3, 0, 10, 1, bad.ctypes.data)
    if len(sys.argv) > 2: time.sleep(0.003)
    handle = dll._handle
    del dll
    _ctypes.dlclose(handle)
assert (hits == 20).all() and bad[0] == 0
print("fine")
"""


@pytest.mark.parametrize("asleep", [False, True])
def test_unloading_joins_the_workers(library: Library, tmp_path: Path, asleep: bool) -> None:
    script = tmp_path / "unload.py"
    script.write_text(_UNLOAD)
    command = [sys.executable, str(script), str(library.path), *(["asleep"] if asleep else [])]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (answer.returncode, answer.stdout.strip()) == (0, "fine"), answer.stderr
