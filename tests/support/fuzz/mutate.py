"""Mutations of programs: of Tiny IR as a document, and of its JSON text.

A mutation changes the document in place, or finds nothing to change. The loader decides whether the result is valid.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ir.dtype import DTYPES
from ir.uop.table import UOPS, UOpKind

T = TypeVar("T")
Document = dict[str, Any]

NUMBERS = (0, 1, -1, 2, 3, 7, 127, 128, -128, 255, 256, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**63, 10**40)
FLOATS = (0.0, -0.0, 0.5, -1.5, 1e-45, 1e-310, 65504.0, 65520.0, 1e38, 3.5e38, -1e300, 1.7e308, "inf", "-inf", "nan")
SMALL = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 16, 17)
ODD_SIZES: Sequence[Any] = (
    *(-1, -7, 2**31, 2**62, 2**63, 10**30, 1 << 20),
    *("N", "M", "", "i0", 1.5, 2.0, True, None, [], {}),
)
NAMES = (
    "",
    "a b",
    "*/",
    '"',
    "\\",
    "\n",
    "é",
    "中",
    "x" * 300,
    "int",
    "i0",
    "t0",
    "T0",
    "inf",
    "-0",
    "0",
    "%s",
    "g0.v1",
    "\0",
    "//",
)
JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, math.inf, math.nan, 10**400, "", "nan", "fp32", "SUM", [], {}, [[]], [None], [0, 0], ["a"],
    {"a": 1}, {"x0": "i0"}, [[0, 1], [1, 0]], [[[[]]]], "i0 + i1", "0", ["i0"], {"id": "v0"}, b"bytes", (1, 2),
)  # fmt: skip
EXPRESSIONS = (
    "0", "1", "i0", "i1", "i0 + i1", "2*i0", "i0//2", "i0 - 2*(i0//2)", "(i0 + 1)//2", "-i0", "3 - i0", "i0*i1",
    "i0 //0", "i0 % 2", "1/0", "i9", "i0 + 1000000000000", "(((i0)))", "(" * 50 + "i0" + ")" * 50, "i0 +",
    "__import__('os')", "2**i0", "i0//-2", "i0\n", " ", "i0//9223372036854775807", "4*i0 + 2*i1", "N*i0", "i0 + 0*i1",
    "99999999999999999999*i0",
)  # fmt: skip


class Mutator:
    """Applies random mutations; the same for the same generator state."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def mutated(self, document: Mapping[str, Any]) -> Document:
        """A copy with none to three mutations."""
        changed = copy.deepcopy(dict(document))
        for _ in range(self.pick((0, 1, 1, 1, 2, 2, 3))):
            mutation = self.pick(GENTLE if self.chance(0.7) else ROUGH)
            mutation(self, changed)
        return changed

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def node(self, document: Document, *uops: str) -> dict[str, Any] | None:
        """Some uop, of these names if any are given, with a `src` and an `arg`; None if there is none."""
        nodes = [node for node in _nodes(document) if not uops or node.get("uop") in uops]
        return self.pick(nodes) if nodes else None

    def size(self) -> Any:
        return self.pick(SMALL) if self.chance(0.85) else self.pick(ODD_SIZES)

    def immediate(self) -> Any:
        return self.pick(self.pick((NUMBERS, FLOATS, FLOATS, (0, 1, 2, 0.5, True, False))))


def _nodes(document: Document) -> list[dict[str, Any]]:
    uops = document.get("uops")
    result = [node for node in uops if isinstance(node, dict)] if isinstance(uops, list) else []
    return [node for node in result if isinstance(node.get("src", []), list) and isinstance(node.get("arg", {}), dict)]


def _ids(document: Document) -> list[Any]:
    return [node.get("id") for node in _nodes(document)]


def _forget_outputs(m: Mutator, document: Document) -> None:
    """Outputs by default: what a mutation cut loose is then computed as well."""
    document.pop("outputs", None)


def _drop(m: Mutator, document: Document) -> None:
    """A uop goes; its readers read what it read first."""
    if node := m.node(document):
        document["uops"].remove(node)
        instead = next((operand for operand in node.get("src", []) if isinstance(operand, str)), None)
        if instead is not None or m.chance(0.2):
            _replace(document, node.get("id"), instead)


def _replace(document: Document, old: Any, new: Any) -> None:
    for node in _nodes(document):
        if "src" in node:
            node["src"] = [new if operand == old else operand for operand in node["src"]]
    if isinstance(document.get("outputs"), list):
        document["outputs"] = [new if output == old else output for output in document["outputs"]]


def _duplicate(m: Mutator, document: Document) -> None:
    if node := m.node(document):
        twin = copy.deepcopy(node)
        twin["id"] = f"{node.get('id')}_twin" if m.chance(0.9) else node.get("id")
        document["uops"].append(twin)
        reader = m.node(document)
        if reader and node.get("id") in reader.get("src", []):
            reader["src"][reader["src"].index(node["id"])] = twin["id"]


def _rewire(m: Mutator, document: Document) -> None:
    node = m.node(document)
    if node and node.get("src"):
        before = [other.get("id") for other in _nodes(document)[: _nodes(document).index(node)]]
        ids = before if before and m.chance(0.8) else _ids(document)
        node["src"][int(m.rng.integers(len(node["src"])))] = m.pick(ids) if m.chance(0.95) else m.pick(NAMES)


def _swap_operands(m: Mutator, document: Document) -> None:
    if node := m.node(document):
        node["src"] = list(reversed(node.get("src", [])))


def _make_immediate(m: Mutator, document: Document) -> None:
    takes = [name for name, op in UOPS.items() if op.kind in (UOpKind.BINARY, UOpKind.TERNARY, UOpKind.CAST)]
    node = m.node(document, *takes) if m.chance(0.9) else m.node(document)
    if node and node.get("src"):
        node["src"][int(m.rng.integers(len(node["src"])))] = m.immediate()


def _change_uop(m: Mutator, document: Document) -> None:
    """Another uop of the same kind."""
    node = m.node(document)
    if node and isinstance(node.get("uop"), str) and node["uop"] in UOPS:
        op = UOPS[node["uop"]]
        kin = [name for name, row in UOPS.items() if (row.kind, set(row.args)) == (op.kind, set(op.args))]
        node["uop"] = m.pick(kin)


def _change_uop_wildly(m: Mutator, document: Document) -> None:
    if node := m.node(document):
        node["uop"] = m.pick([*UOPS, "FOO", "add", "", None, "INPUT", 3])


def _insert_unary(m: Mutator, document: Document) -> None:
    """A uop of one operand between a value and one of its readers."""
    node = m.node(document)
    if node and node.get("src") and isinstance(node["src"][0], str):
        fresh = f"new{len(document['uops'])}"
        name = m.pick([name for name, op in UOPS.items() if op.kind is UOpKind.UNARY] + ["CAST", "CAST"])
        arg = {"arg": {"to": m.pick(list(DTYPES))}} if "to" in UOPS[name].args else {}
        document["uops"].append({"id": fresh, "uop": name, "src": [node["src"][0]], **arg})
        node["src"][0] = fresh


def _change_dtype(m: Mutator, document: Document) -> None:
    if node := m.node(document, "REDUCE", "CAST", "BITCAST", "INPUT", "IOTA", "CUMSUM", "CUMPROD", "CUMMAX"):
        key = "to" if "to" in UOPS[node["uop"]].args else "dtype"
        dtypes = [*DTYPES, "fp32", "fp16", "float32"] if m.chance(0.95) else ["fp8", "", None, 4, "FP32"]
        node.setdefault("arg", {})[key] = m.pick(dtypes)


def _change_input_size(m: Mutator, document: Document) -> None:
    node = m.node(document, "INPUT")
    if node and isinstance(node.get("arg", {}).get("shape"), list) and node["arg"]["shape"]:
        node["arg"]["shape"][int(m.rng.integers(len(node["arg"]["shape"])))] = m.size()


def _resize_everywhere(m: Mutator, document: Document) -> None:
    """One size becomes another wherever it stands in a shape."""
    shapes = [
        shape
        for node in _nodes(document)
        for key in ("shape", "result_shape")
        if isinstance(shape := node.get("arg", {}).get(key), list)
    ]
    sizes = sorted({size for shape in shapes for size in shape if type(size) is int and size > 1})
    if sizes:
        old, new = m.pick(sizes), m.size()
        for shape in shapes:
            shape[:] = [new if size == old else size for size in shape]


def _name_sizes(m: Mutator, document: Document) -> None:
    """A size gets a symbol that `dims` binds."""
    node = m.node(document, "INPUT")
    shape = node.get("arg", {}).get("shape") if node else None
    if isinstance(shape, list) and shape and isinstance(document.get("dims", {}), dict):
        at, symbol = int(m.rng.integers(len(shape))), m.pick(("N", "M", "K", "H'"))
        document.setdefault("dims", {}).setdefault(symbol, shape[at])
        shape[at] = symbol


def _change_sizes(m: Mutator, document: Document) -> None:
    """One number of some movement's attributes."""
    if node := m.node(document, "RESHAPE", "EXPAND", "PAD", "SHRINK", "POOL", "PERMUTE", "FLIP", "IOTA"):
        lists = [value for value in node.get("arg", {}).values() if isinstance(value, list) and value]
        if lists:
            target = m.pick(lists)
            at = int(m.rng.integers(len(target)))
            if isinstance(target[at], list) and target[at]:
                target, at = target[at], int(m.rng.integers(len(target[at])))
            target[at] = m.size()


def _change_pad(m: Mutator, document: Document) -> None:
    if (node := m.node(document, "PAD")) and isinstance(node.get("arg"), dict):
        if m.chance(0.6):
            node["arg"]["value"] = m.immediate()
        elif isinstance(node["arg"].get("pad"), list):
            node["arg"]["pad"] = [[m.pick((0, 1, 2, 3, 9)), m.pick((0, 0, 1, 5))] for _ in node["arg"]["pad"]]


def _change_step(m: Mutator, document: Document) -> None:
    node = m.node(document, "SHRINK", "POOL")
    arg = node.get("arg") if node else None
    window = arg.get("lo", arg.get("kernel")) if isinstance(arg, dict) else None
    rank = len(window) if isinstance(window, list) else 0
    if node and rank:
        key = "step" if node["uop"] == "SHRINK" else m.pick(("stride", "dilation", "kernel"))
        node["arg"][key] = [
            m.pick((1, 1, 2, 3, 5, 100)) if m.chance(0.9) else m.pick((0, -1, 2**62)) for _ in range(rank)
        ]


def _shuffle_axes(m: Mutator, document: Document) -> None:
    node = m.node(document, "PERMUTE", "REDUCE", "FLIP")
    key = "perm" if node and node["uop"] == "PERMUTE" else "axes"
    axes = node.get("arg", {}).get(key) if node else None
    if isinstance(axes, list) and axes:
        m.rng.shuffle(axes)
        if key == "axes" and m.chance(0.5):
            axes.pop()
        elif m.chance(0.2):
            axes.append(m.pick((0, 1, 2, -1, 9, "i0")))


def _change_reduction(m: Mutator, document: Document) -> None:
    if node := m.node(document, "REDUCE"):
        arg = node.setdefault("arg", {})
        if m.chance(0.6):
            arg["op"] = m.pick(("SUM", "MAX", "MIN", "PROD", "sum", "MEAN"))
        else:
            arg["init"] = m.immediate()


def _change_axis(m: Mutator, document: Document) -> None:
    if node := m.node(document, "CUMSUM", "CUMPROD", "CUMMAX", "GATHER", "SCATTER", "IOTA"):
        node.setdefault("arg", {})["axis"] = m.pick((0, 0, 1, 1, 2, -1, 9))


def _change_word(m: Mutator, document: Document) -> None:
    if node := m.node(document, "RANDOM"):
        node.setdefault("arg", {})["word"] = m.pick((0, 1, 2, 3, 4, -1, "n"))


def _change_index_map(m: Mutator, document: Document) -> None:
    node = m.node(document, "VIEW")
    index = node.get("arg", {}).get("index_map") if node else None
    if isinstance(index, list) and index:
        index[int(m.rng.integers(len(index)))] = m.pick(EXPRESSIONS)


def _change_outputs(m: Mutator, document: Document) -> None:
    ids, outputs = _ids(document), document.get("outputs") or []
    if ids and isinstance(outputs, list):
        outputs = list(outputs)
        match int(m.rng.integers(6)):
            case 0 | 1:
                outputs.append(m.pick(ids))
            case 2 if len(outputs) > 1:
                outputs.pop()
            case 3:
                outputs = outputs[::-1] + outputs[:1]
            case 4:
                outputs = [m.pick(ids) for _ in range(3)]
            case _ if m.chance(0.2):
                outputs.append(m.pick((*NAMES, None, 3)))
        document["outputs"] = outputs


def _share_input(m: Mutator, document: Document) -> None:
    """Two INPUTs name one tensor."""
    one, other = m.node(document, "INPUT"), m.node(document, "INPUT")
    if one and other and "arg" in one and "arg" in other:
        other["arg"]["tensor_id"] = one["arg"].get("tensor_id")
        if m.chance(0.7):
            other["arg"] = copy.deepcopy(one["arg"])


def _rename(m: Mutator, document: Document) -> None:
    if node := m.node(document):
        new = m.pick(NAMES)
        match int(m.rng.integers(3)):
            case 0:
                old, node["id"] = node.get("id"), new
                _replace(document, old, new)
            case 1:
                node["tag"] = new
            case _ if node.get("uop") == "INPUT" and "arg" in node:
                node["arg"]["tensor_id"] = new


def _add_names(m: Mutator, document: Document) -> None:
    node = m.node(document, "INPUT")
    shape = node.get("arg", {}).get("shape") if node else None
    if node and isinstance(shape, list):
        node["arg"]["names"] = [m.pick(("a", "b", "c", None, "K")) for _ in shape]


def _change_arity(m: Mutator, document: Document) -> None:
    if node := m.node(document):
        src = list(node.get("src", []))
        node["src"] = src[:-1] if src and m.chance(0.5) else [*src, m.pick(_ids(document))]


def _damage_attribute(m: Mutator, document: Document) -> None:
    node = m.node(document)
    if node and node.get("arg"):
        key = m.pick(list(node["arg"]))
        match int(m.rng.integers(3)):
            case 0:
                del node["arg"][key]
            case 1:
                node["arg"][key] = m.pick(JUNK)
            case _:
                node["arg"][m.pick(("foo", "axis", "axes", "dtype", "shape", ""))] = node["arg"][key]


def _damage_anywhere(m: Mutator, document: Document) -> None:
    """Junk at a random place of the document."""
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = m.pick(keys)
        if not isinstance(place[key], dict | list) or m.chance(0.15):
            place[key] = copy.deepcopy(m.pick(JUNK))
            return
        place = place[key]


Mutation = Callable[[Mutator, Document], None]
GENTLE: tuple[Mutation, ...] = (
    _drop, _duplicate, _rewire, _swap_operands, _make_immediate, _make_immediate, _change_uop, _change_uop,
    _insert_unary, _insert_unary, _change_dtype, _resize_everywhere, _name_sizes, _change_pad, _change_step,
    _shuffle_axes, _change_reduction, _change_outputs, _share_input, _rename, _add_names, _change_axis, _change_word,
    _forget_outputs,
)  # fmt: skip
ROUGH: tuple[Mutation, ...] = (
    _change_uop_wildly, _change_input_size, _change_sizes, _change_index_map, _change_arity, _damage_attribute,
    _damage_anywhere, _resize_everywhere, _rewire, _drop, _change_dtype,
)  # fmt: skip
