"""A public call → the calls of a script that does the same, for a reproducer."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from eqsat.failure.reproducer import LEFT_OUT, ScriptCall, with_file
from eqsat.model import BoundModel, read_model
from eqsat.options import ON_TARGET, Options, Running
from ir.target import Target
from ir.term.rule import Rule

if TYPE_CHECKING:
    from eqsat.explanation.setting import Setting

MAKE = "eqsat:optimize_and_compile"
Calls = Sequence[ScriptCall]
Args = Sequence[Any]
Keywords = Mapping[str, Any]


def of_making(name: str, args: Args, keywords: Keywords, *, function: str = MAKE) -> Calls:
    """A call of `optimize_and_compile`, or of another function that takes a model and the same keywords."""
    source, *_ = args or (keywords.get("source"),)
    rest = {key: value for key, value in keywords.items() if key not in ("source", "progress")}
    notes: tuple[str, ...] = ()
    if "rules" in rest:
        rest["rules"], notes = _without_own(rest["rules"])
    if isinstance(rest.get("dims"), Mapping):
        rest["dims"] = {
            symbol: list(size) if isinstance(size, tuple | range) else size for symbol, size in rest["dims"].items()
        }
    if "exactness" in rest:
        rest["exactness"] = str(rest["exactness"])
    with suppress(Exception):  # the model itself may be unreadable
        model = read_model(source, rest.get("constants"))
        rest |= {"constants": model.constants} if model.constants else {}
        if model.document is None:
            notes += (f"{LEFT_OUT}: the model, which Python cannot write:\n{source}",)
        source = model.document
    return [ScriptCall("program", function, (with_file(source), *args[1:]), rest, notes)]


def of_compile(name: str, args: Args, keywords: Keywords) -> Calls:
    """A call of `eqsat.compile_model.compile_model`."""
    return [_describe_compile(*args, **keywords)]


def _describe_compile(
    bound: BoundModel,
    target: Target,
    options: Options,
    cache: bool,
    progress: Any = None,
    running: Running = ON_TARGET,
    make: Any = None,
) -> ScriptCall:
    """The parameters are those of `eqsat.compile_model.compile_model`."""
    return making(bound, target, options, running, cache=cache)


def of_load(name: str, args: Args, keywords: Keywords) -> Calls:
    """A call of `eqsat.load`."""
    path, *rest = args or (keywords.get("path"),)
    others = {key: value for key, value in keywords.items() if key != "path"}
    return [ScriptCall("program", "eqsat:load", (with_file(path), *rest), others)]


def of_program(name: str, args: Args, keywords: Keywords) -> Calls:
    """A method or property of a `Program`."""
    program, *rest = args
    latest = program._variants.latest
    if latest is None:
        note = "The options of the program are not known here: the script has the default ones."
        creation = ScriptCall(
            "program", MAKE, (program._model.document,), {"constants": program._model.constants}, (note,)
        )
    else:
        artifact = latest.artifact
        creation = making(latest.bound, artifact.target, artifact.options, latest.running, threads=program._threads)
    return [creation, _method("program", type(program), name, rest, keywords)]


def of_exploration(name: str, args: Args, keywords: Keywords) -> Calls:
    """A method or property of an `Exploration`."""
    run, *rest = args
    return [_describe_exploration(run.setting), _method("run", type(run), name, rest, keywords)]


def _describe_exploration(setting: Setting) -> ScriptCall:
    creation = making(setting.bound, setting.target, setting.options)
    known = {
        key: creation.keywords[key] for key in creation.keywords if key not in ("cache", "emulate", "graph", "autotune")
    }
    return creation._replace(result="run", function="eqsat.explanation.explore:explore", keywords=known)


def making(
    bound: BoundModel,
    target: Target,
    options: Options,
    running: Running = ON_TARGET,
    *,
    cache: bool = True,
    threads: int | None = None,
) -> ScriptCall:
    """The call that makes a program of a bound model."""
    rules, notes = _without_own(options.rules)
    usual = {"constants": {}, "threads": None, "cache": True, **_keywords(Options()), **_keywords(ON_TARGET)}
    chosen = {**_keywords(options), **_keywords(running), "rules": rules, "exactness": str(options.exactness)}
    chosen |= {"constants": dict(bound.constants), "threads": threads, "cache": cache}
    keywords = {name: value for name, value in chosen.items() if name == "exactness" or value != usual[name]}
    return ScriptCall("program", MAKE, (bound.graph,), {"target": target, **keywords}, notes)


def _keywords(settings: Options | Running) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


def _without_own(rules: Any) -> tuple[Any, tuple[str, ...]]:
    """The rules without those of the caller, and a note on each rule that is left out."""
    if rules is None or isinstance(rules, str):
        return rules, ()
    rules = [rules] if isinstance(rules, Rule) else rules
    own = [rule.name if isinstance(rule, Rule) else rule for rule in rules if isinstance(rule, Rule) or "@" in rule]
    kept = [rule for rule in rules if isinstance(rule, str) and "@" not in rule]
    notes = tuple(f"{LEFT_OUT}: the rule {name}, which is the caller's own." for name in own)
    return kept or (None if own else kept), notes


def _method(on: str, owner: type, name: str, args: Args, keywords: Keywords) -> ScriptCall:
    if name == "__call__":
        return ScriptCall("", on, args, keywords)
    is_property = isinstance(inspect.getattr_static(owner, name, None), property)
    return ScriptCall("", f"{on}.{name}", None if is_property else args, keywords)
