"""The thread pool, mostly under ThreadSanitizer: host threads that share it, loops inside tasks, forks while loops run,
the end of the process while loops run, and libraries that are unloaded."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from codegen.compile.library import pool_source
from codegen.compile.toolchain import find_compiler
from tests.stress.sanitized import ENVIRONMENT

MODES = ("hosts", "forks", "exit", "unload")
SECONDS = 120
_FLAGS = ("-g1", "-O1", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-pthread")
_WATCHED = ("-fsanitize=thread",)

_LIBRARY = """
typedef struct { int64_t *hits; int32_t n, threads, depth; } job;

static void task(void *ctx, int32_t i, int32_t thread) {
  const job *j = ctx;
  if (!j->depth) {
    j->hits[i]++;
    return;
  }
  job inner = {j->hits + (int64_t)i * j->n, j->n, j->threads, j->depth - 1};
  eq_parallel_for(task, &inner, j->n, j->threads);
}

/* hits: n of them, or n * n with loops inside tasks */
__attribute__((visibility("default"))) void loops(int64_t *hits, int32_t n, int32_t threads, int32_t nested) {
  eq_run run;
  eq_run_begin(&run, nested);
  job j = {hits, n, threads, nested};
  eq_parallel_for(task, &j, n, threads);
  eq_run_end(&run);
}
"""

_MAIN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOSTS = 6, N = 9 };
typedef void (*loops_fn)(int64_t *, int32_t, int32_t, int32_t);
static loops_fn loops;
static int repeats;

static int fails(int seed, int count) {
  int64_t hits[N * N] = {0};
  int nested = seed % 2;
  for (int r = 0; r < count; r++) loops(hits, N, 2 + seed % 3, nested);
  for (int i = 0; i < (nested ? N * N : N); i++)
    if (hits[i] != count) return 1;
  return 0;
}

static void *host(void *p) { return (void *)(intptr_t)fails((int)(intptr_t)p, repeats); }
static void *host_forever(void *p) {
  for (;;) fails((int)(intptr_t)p, 10);
}

static int joined(pthread_t *thread) {
  int bad = 0;
  for (int i = 0; i < HOSTS; i++) {
    void *found;
    pthread_join(thread[i], &found);
    bad |= found != NULL;
  }
  return bad;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  const char *mode = argv[2];
  repeats = atoi(argv[3]);
  if (!strcmp(mode, "unload")) {
    for (int r = 0; r < repeats; r++) {
      void *dll = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
      if (!dll || !(loops = (loops_fn)dlsym(dll, "loops"))) return 3;
      if (fails(r, 3)) return 4;
      if (r % 2) usleep(500); /* the workers sleep */
      dlclose(dll);
    }
    return 0;
  }
  void *dll = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!dll || !(loops = (loops_fn)dlsym(dll, "loops"))) return 3;
  pthread_t thread[HOSTS];
  int endless = !strcmp(mode, "exit");
  for (intptr_t i = 0; i < HOSTS; i++)
    if (pthread_create(thread + i, NULL, endless ? host_forever : host, (void *)i)) return 5;
  if (endless) {
    usleep(1000 * repeats);
    exit(0); /* while the hosts run */
  }
  int bad = 0;
  if (!strcmp(mode, "forks"))
    for (int r = 0; r < 10; r++) {
      pid_t child = fork();
      if (child == 0) _exit(fails(r, 5) || fails(r + 1, 5) ? 6 : 0);
      int status = 0;
      if (child < 0 || waitpid(child, &status, 0) != child || status) bad = 1;
    }
  return bad | joined(thread) ? 4 : 0;
}
"""


def build(folder: Path, mode: str) -> tuple[Path, Path]:
    """The program, and the library with a pool that it loads. Forks run without ThreadSanitizer: a child inherits the
    locks of its allocator as other threads held them, and may wait for them for ever."""
    main, library = folder / "main", folder / "pool.so"
    flags = () if mode == "forks" else _WATCHED
    _compile(folder / "pool.c", pool_source() + _LIBRARY, library, "-shared", *flags)
    _compile(folder / "main.c", _MAIN, main, "-ldl", *flags)
    return main, library


def complaint(mode: str, folder: Path, repeats: int) -> str:
    """What the program or ThreadSanitizer says of a mode, or that a task did not run once; empty where all is well."""
    main, library = build(folder, mode)
    command = [str(main), str(library), mode, str(repeats)]
    environment = {**os.environ, **ENVIRONMENT}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        return f"{mode} does not end\n{(error.stderr or b'').decode(errors='replace')[:4000]}"
    return f"{mode} ends with {done.returncode}\n{done.stderr[:6000]}" if done.returncode or done.stderr else ""


def _compile(source: Path, text: str, binary: Path, *flags: str) -> None:
    source.write_text(text)
    subprocess.run([*find_compiler().command, *_FLAGS, str(source), "-o", str(binary), *flags], check=True)
