"""The one place that talks to egglog: run text, count, read all rows, call Python.

An EGraph belongs to the thread that made it. After an error it is dead: make another.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast

from eqsat.egraph.query_text import SEPARATOR
from ir.diagnostics import EqsatError, Kind, fail
from ir.term import Primitive

if TYPE_CHECKING:
    from egglog import bindings

Row = tuple[tuple[int | str, ...], int | str]
"""The arguments of a table's row and its value; classes are numbers."""

CALL = f"__import__('importlib').import_module({__name__!r}).call_primitive"
_TEXT, _INTEGER = "String", "i64"
_CALLS = 1 << 20


class EGraph:
    """An e-graph that holds what `lines` of egglog text declare; one command a line.

    Parsing costs more than linearly in the length of its text, so every command is parsed on its own.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        from egglog import bindings

        self._egraph = bindings.EGraph()
        self.execute(lines)

    def execute(self, lines: Iterable[str]) -> None:
        """Run commands, one a line.

        Raises:
            EqsatError: what a primitive raised; UnsoundRule for anything that egglog refuses.
        """
        for line in lines:
            self._run(line)

    def iterate(self, first: str, then: str) -> tuple[Mapping[str, int], bool]:
        """Saturate the ruleset `first`, run `then` once: matches per named rule, and whether anything changed."""
        (output,) = self._run(f"(run-schedule (saturate (run {first})) (run {then}))")
        report = cast("bindings.RunScheduleOutput", output).report
        return report.num_matches_per_rule, report.updated

    def sizes(self) -> Mapping[str, int]:
        """Rows per table."""
        (output,) = self._run("(print-size)")
        return dict(cast("bindings.PrintAllFunctionsSize", output).sizes)

    def classes(self, tables: Iterable[str]) -> int:
        """How many classes these tables' rows have for values."""
        found = self._guarded("freeze", self._egraph.freeze).functions
        return len({row.output for name in tables for row in found[name].rows})

    def rows(self, wanted: Container[str]) -> Mapping[str, list[Row]]:
        """Every row of these tables, in egglog's order; values of other than texts and integers are classes."""
        frozen = self._guarded("freeze", self._egraph.freeze)
        texts: dict[Any, str] = {}
        classes: dict[Any, int] = {}

        def text(value: bindings.Value) -> str:
            if value not in texts:
                texts[value] = self._egraph.value_to_string(value)
            return texts[value]

        def class_of(value: bindings.Value) -> int:
            return classes.setdefault(value, len(classes))

        readers: dict[str, Callable[[Any], int | str]] = {_TEXT: text, _INTEGER: self._egraph.value_to_i64}
        tables: dict[str, list[Row]] = {}
        for name, table in frozen.functions.items():
            if table.is_let_binding or name not in wanted:
                continue
            inputs = [readers.get(sort, class_of) for sort in table.input_sorts]
            output = readers.get(table.output_sort, class_of)
            tables[name] = [
                (tuple([read(value) for read, value in zip(inputs, row.inputs, strict=True)]), output(row.output))
                for row in table.rows
            ]
        return tables

    def _run(self, line: str) -> list[bindings._CommandOutput]:
        egraph = self._egraph
        outputs: list[bindings._CommandOutput] = self._guarded(
            line, lambda: egraph.run_program(*egraph.parse_program(line))
        )
        return outputs

    def _guarded(self, what: str, action: Callable[[], Any]) -> Any:
        """PanicException derives from BaseException: nothing of egglog's may pass as it is."""
        try:
            return action()
        except (EqsatError, KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:
            fail(
                Kind.UNSOUND_RULE,
                "egraph",
                f"the e-graph engine stopped: {error}",
                hint="a rule or an analysis contradicts what the e-graph holds",
                command=what[:400],
            )


@lru_cache(maxsize=_CALLS)
def call_primitive(call: str) -> str:
    """What egglog calls: `module:name` of a primitive and its arguments, in one text; answers are remembered."""
    path, *args = call.split(SEPARATOR)
    return _imported(path)(*args)


@cache
def _imported(path: str) -> Callable[..., str]:
    module, _, name = path.partition(":")
    found = getattr(importlib.import_module(module), name)
    return found.fn if isinstance(found, Primitive) else cast("Callable[..., str]", found)
