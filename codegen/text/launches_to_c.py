"""A launch table → the C entries that run its launches; a loop of the module is a loop in C."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ir.module.launch import UNBOUND, Launch, LaunchTable, Packing
from ir.module.loop import Copy, Loop, LoopWindow, slots_of_loops, steps

_HEAD = """\
#define EQ_EXPORT __attribute__((visibility("default")))
#include <string.h>
#include <time.h>
static uint64_t eq_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
"""
_TIMED = "  after = eq_now(); ns[{}] += after - before; before = after;"


def program_text(declarations: Iterable[str], table: LaunchTable, flush: bool) -> str:
    """The entries of a program: `eq_program`, `eq_program_timed` and `eq_pack`, below the declarations of the pool.
    declarations: of the kernels. flush: kernels treat denormals as 0."""
    packs = [f"{packing.function}(table + {at}, threads);" for packing, at in _pack_places(table)]
    begin = "eq_run run; eq_run_begin(&run, {});"
    lines = [_HEAD, *(f"{declaration};" for declaration in declarations)]
    for timed in (False, True):
        name, more = ("eq_program_timed", ", uint64_t *ns") if timed else ("eq_program", "")
        lines.append(f"EQ_EXPORT void {name}(void *const *table, int32_t threads{more}) {{")
        lines.append("  " + begin.format(int(flush)))
        lines += ["  uint64_t before = eq_now(), after;"] if timed else []
        lines += _Launches(table, timed).lines()
        lines += ["  eq_run_end(&run);", "}"]
    lines.append("EQ_EXPORT void eq_pack(void *const *table, int32_t threads) {")
    lines += ["  " + begin.format(0), *(f"  {pack}" for pack in packs), "  eq_run_end(&run);", "}"]
    lines.append(f'EQ_EXPORT const char eq_contract[{len(UNBOUND) + 1}] = "{UNBOUND}";')
    return "\n".join(lines) + "\n"


def _pack_places(table: LaunchTable) -> Iterator[tuple[Packing, int]]:
    at = 0
    for packing in table.packings:
        yield packing, at
        at += len(packing.sources) + 2


class _Launches:
    """The lines that run the launches of a table."""

    def __init__(self, table: LaunchTable, timed: bool) -> None:
        self.table, self.timed = table, timed
        self.places: list[int] = []
        at = 0
        for launch in table.launches:
            self.places.append(at)
            at += len(launch.args) + 1
        self.addresses = {slot: f"table[{at + number}]" for number, slot in enumerate(slots_of_loops(table.loops))}
        self.windows = 0

    def lines(self) -> Iterator[str]:
        yield from self._between(self.table.loops, 0, len(self.table.launches), {}, 0)

    def _between(
        self, loops: Sequence[Loop], first: int, end: int, windows: Mapping[str, str], depth: int
    ) -> Iterator[str]:
        """The code that runs from one launch to another. windows: the variables that hold the addresses of windows."""
        for step in steps(loops, first, end):
            if isinstance(step, Loop):
                yield from self._loop(step, windows, depth)
                continue
            yield "  " * depth + self._launch(step, self.table.launches[step], windows)
            if self.timed:
                yield "  " * depth + _TIMED.format(step)

    def _launch(self, number: int, launch: Launch, windows: Mapping[str, str]) -> str:
        at = self.places[number]
        if not any(slot in windows for slot in launch.args):
            return f"  {launch.function}(table + {at}, threads);"
        args = [windows.get(slot, f"table[{at + place}]") for place, slot in enumerate(launch.args)]
        args.append(f"table[{at + len(args)}]")
        return f"  {{ void *const args[] = {{{', '.join(args)}}}; {launch.function}(args, threads); }}"

    def _loop(self, loop: Loop, outer: Mapping[str, str], depth: int) -> Iterator[str]:
        trip, indent = f"t{depth}", "  " * (depth + 1)
        yield f"{indent}for (int64_t {trip} = 0; {trip} < {loop.trips}; {trip}++) {{"
        held = dict(outer)
        for window in loop.windows:
            name, self.windows = f"w{self.windows}", self.windows + 1
            yield f"{indent}  char *const {name} = {self._address(window, outer, trip)};"
            held[window.slot] = name
        yield from (f"{indent}  {self._copy(copy, held)}" for copy in loop.loads)
        yield from self._between(loop.loops, loop.first, loop.end, held, depth + 1)
        yield from (f"{indent}  {self._copy(copy, held)}" for copy in loop.copies)
        if self.timed and loop.copies:
            yield f"{indent}  before = eq_now();"
        yield f"{indent}}}"

    def _address(self, window: LoopWindow, held: Mapping[str, str], trip: str) -> str:
        """The address of a window in a trip."""
        at = [f"(char *){self._slot(name, held)}" for name in window.tensors]
        place = at[0] if len(at) == 1 else f"({trip} % 2 ? {at[1]} : {at[0]})"
        if window.start or window.step:
            place = f"{place} + ({window.start} + {window.step} * {trip})"
        return place if window.initial is None else f"{trip} ? {place} : (char *){self._slot(window.initial, held)}"

    def _copy(self, copy: Copy, held: Mapping[str, str]) -> str:
        return f"memcpy({self._slot(copy.target, held)}, {self._slot(copy.source, held)}, {copy.nbytes});"

    def _slot(self, name: str, held: Mapping[str, str]) -> str:
        return held[name] if name in held else self.addresses[name]
