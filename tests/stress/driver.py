"""The C text that runs a module's kernels on memory whose every byte beyond a tensor is out of bounds.

The runtime lays tensors side by side, where an access beyond one of them falls into another and nobody sees it. Here
each tensor has an allocation of its own, as large as the tensor; each launch has workspaces of its own, in which the
gaps between the kernel's scratch buffers are poisoned. AddressSanitizer ends the run at the first wrong byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from codegen.text.cpu_to_c import ENTRY
from ir.dtype import DTYPES
from ir.kernel.cpu.kernel import CpuKernel, Scratch

GAP = 128
"""Bytes between two scratch buffers of a kernel."""
_LINE = 64


class Memory(NamedTuple):
    """A tensor of `nbytes`, an element `itemsize`. The driver reads the bytes of what is `given`, and writes those of
    a `result`. Memory of eqsat's own is `aligned` to a cache line; that of a caller may start at any element."""

    nbytes: int
    itemsize: int
    given: bool
    result: bool
    aligned: bool


class Step(NamedTuple):
    """One call of a kernel: the places of its arguments among the memories; `flush`: denormals count as 0."""

    kernel: CpuKernel
    args: tuple[int, ...]
    flush: bool


def with_gaps(kernel: CpuKernel) -> CpuKernel:
    """The kernel with a buffer that nobody uses behind each of its scratch buffers."""
    return msgspec.structs.replace(kernel, shared=_spaced(kernel.shared), private=_spaced(kernel.private))


def _spaced(buffers: Sequence[Scratch]) -> tuple[Scratch, ...]:
    gaps = (Scratch(f"gap{number}_{buffer.name}", "u8", GAP) for number, buffer in enumerate(buffers))
    return tuple(array for pair in zip(buffers, gaps, strict=True) for array in pair)


def driver_text(memories: Sequence[Memory], steps: Sequence[Step]) -> str:
    """`main`, which takes the file of given bytes, that of results, the number of threads, the byte that fills what
    is not given, and the number of elements by which a caller's memory is shifted. `steps` have kernels with gaps."""
    kernels = {step.kernel.name: step.kernel for step in steps}
    return "\n".join([_HEAD, *_tables(memories, steps, kernels), _MAIN])


def _tables(memories: Sequence[Memory], steps: Sequence[Step], kernels: Mapping[str, CpuKernel]) -> Iterator[str]:
    fields = (f"{{{m.nbytes}, {m.itemsize}, {m.given:d}, {m.result:d}, {m.aligned:d}}}" for m in memories)
    yield _array("static const memory memories[]", fields)
    for name, kernel in kernels.items():
        yield f"{ENTRY.format(name=name)};"
        for kind, buffers in (("shared", kernel.shared), ("private", kernel.private)):
            yield _array(f"static const range {name}_{kind}[]", _gaps(buffers))
    args = [place for step in steps for place in step.args]
    yield _array("static const int32_t arguments[]", map(str, args))
    yield _array("static const step steps[]", map(_step, steps))


def _step(step: Step) -> str:
    kernel, space = step.kernel, step.kernel.workspace
    gaps = [
        f"{kernel.name}_{kind}, {sum(1 for _ in _gaps(buffers))}"
        for kind, buffers in (("shared", kernel.shared), ("private", kernel.private))
    ]
    return f"{{{kernel.name}, {step.flush:d}, {len(step.args)}, {space.shared}, {space.private}, {', '.join(gaps)}}}"


def _gaps(buffers: Sequence[Scratch]) -> Iterator[str]:
    """The bytes of a workspace behind each buffer, up to where the next one starts."""
    start = 0
    for used, gap in zip(buffers[::2], buffers[1::2], strict=True):
        first = start + used.elements * DTYPES[used.dtype].bytes
        start += used.nbytes + gap.nbytes
        yield f"{{{first}, {start - first}}}"


def _array(head: str, items: Iterable[str]) -> str:
    return f"{head} = {{{', '.join(items) or '0'}}};"


_HEAD = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

typedef struct { size_t nbytes, itemsize; int given, result, aligned; } memory;
typedef struct { size_t start, nbytes; } range;
typedef struct {
  void (*kernel)(void *const *, int32_t);
  int32_t flush, n_args;
  size_t shared, private;
  const range *shared_gaps; int32_t n_shared_gaps;
  const range *private_gaps; int32_t n_private_gaps;
} step;
"""

DEALING_POOL = """\
#include <pthread.h>
/* Neighbouring tasks always run on different threads, so that ThreadSanitizer sees every pair that touches the same
   byte, whoever comes first. */
typedef struct { eq_task fn; void *ctx; int32_t n_tasks, n_threads, thread; } dealt;
static void *eq_deal(void *p) {
  dealt *d = p;
  for (int32_t task = d->thread; task < d->n_tasks; task += d->n_threads) d->fn(d->ctx, task, d->thread);
  return NULL;
}
void eq_parallel_for(eq_task fn, void *ctx, int32_t n_tasks, int32_t n_threads) {
  if (n_threads > n_tasks) n_threads = n_tasks;
  if (n_threads < 1) return;
  pthread_t thread[n_threads];
  dealt part[n_threads];
  for (int32_t i = 0; i < n_threads; i++) {
    part[i] = (dealt){fn, ctx, n_tasks, n_threads, i};
    if (pthread_create(thread + i, NULL, eq_deal, part + i)) __builtin_trap();
  }
  for (int32_t i = 0; i < n_threads; i++) pthread_join(thread[i], NULL);
}
void eq_run_begin(eq_run *run, int flush) { run->fp_mode = flush; }
void eq_run_end(const eq_run *run) { (void)run; }
"""

_MAIN = """\
static int fill;

static void *line_aligned(size_t nbytes) {
  void *p;
  if (posix_memalign(&p, 64, nbytes)) abort();
  memset(p, fill, nbytes);
  return p;
}

static char *workspace(size_t nbytes, const range *gaps, int32_t n) {
  char *p = line_aligned(nbytes);
  for (int32_t i = 0; i < n; i++) ASAN_POISON_MEMORY_REGION(p + gaps[i].start, gaps[i].nbytes);
  return p;
}

static void discard(char *p, size_t nbytes) {
  ASAN_UNPOISON_MEMORY_REGION(p, nbytes);
  free(p);
}

static void take(const step *each, const int32_t *args, char *const *at, int32_t threads) {
  void *buf[each->n_args + 1];
  char *space[1 + threads];
  for (int32_t i = 0; i < each->n_args; i++) buf[i] = at[args[i]];
  space[0] = workspace(each->shared, each->shared_gaps, each->n_shared_gaps);
  for (int32_t i = 1; i <= threads; i++) space[i] = workspace(each->private, each->private_gaps, each->n_private_gaps);
  buf[each->n_args] = space;
  eq_run run;
  eq_run_begin(&run, each->flush);
  each->kernel(buf, threads);
  eq_run_end(&run);
  discard(space[0], each->shared);
  for (int32_t i = 1; i <= threads; i++) discard(space[i], each->private);
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  FILE *given = fopen(argv[1], "rb"), *results = fopen(argv[2], "wb");
  int32_t threads = atoi(argv[3]), n = sizeof memories / sizeof *memories;
  fill = atoi(argv[4]);
  size_t shift = strtoul(argv[5], NULL, 10);
  char **at = malloc(n * sizeof *at);
  if (!given || !results || !at) return 2;
  for (int32_t i = 0; i < n; i++) {
    size_t skipped = memories[i].aligned ? 0 : shift * memories[i].itemsize;
    char *start = memories[i].aligned ? line_aligned(memories[i].nbytes) : malloc(skipped + memories[i].nbytes);
    at[i] = start + skipped;
    memset(start, fill, skipped + memories[i].nbytes);
    if (memories[i].given && fread(at[i], 1, memories[i].nbytes, given) != memories[i].nbytes) return 2;
  }
  const int32_t *args = arguments;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; args += steps[i++].n_args) {
    if (!steps[i].kernel) break;
    take(steps + i, args, at, threads);
  }
  for (int32_t i = 0; i < n; i++)
    if (memories[i].result) fwrite(at[i], 1, memories[i].nbytes, results);
  return fclose(results) ? 2 : 0;
}
"""
