"""The dump of a GPU kernel as seed 000 §9 shows it: `{"gpu_ir": {"arch": …, "stmts": [{"CpAsync": {…}}, …]}}`.

This form is for people; `ir.serde` writes the kernel as data that can be read back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ir.diagnostics import jsonable
from ir.index.expr import AxisExpr
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.nodes import At, Epilogue, GpuFor, GpuIf, Stmt
from ir.kernel.gpu.text import GpuPrinter
from ir.kernel.nodes import KernelNode, Within

_VARIABLE = "variable"


def kernel_dump(kernel: GpuKernel) -> dict[str, Any]:
    """The kernel as plain JSON: every statement is an object with one key, its name; indices are text."""
    printer = GpuPrinter(kernel.variables)
    return {
        "gpu_ir": {
            "name": kernel.name,
            "arch": kernel.arch,
            "threads": kernel.threads,
            "grid": list(kernel.grid),
            "params": [jsonable(msgspec.to_builtins(param)) for param in kernel.params],
            **_workspace(kernel),
            "smem": [str(shared) for shared in kernel.shared],
            "smem_bytes": kernel.shared_bytes,
            "registers": [jsonable(msgspec.to_builtins(array)) for array in kernel.registers],
            "stmts": _block(kernel.body, printer),
        }
    }


def _workspace(kernel: GpuKernel) -> dict[str, Any]:
    buffers = [jsonable(msgspec.to_builtins(buffer)) for buffer in kernel.workspace]
    return {"workspace": buffers} if buffers else {}


def _block(body: tuple[Stmt, ...], printer: GpuPrinter) -> list[dict[str, Any]]:
    return [_stmt(stmt, printer) for stmt in body]


def _stmt(stmt: Stmt, printer: GpuPrinter) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in stmt.__struct_fields__:
        value = getattr(stmt, name)
        if value is None or value == () or value is False:
            continue
        fields[name] = _field(name, value, printer)
    match stmt:
        case GpuFor() | Epilogue():
            fields["body"] = _block(stmt.body, printer)
        case GpuIf():
            fields["then"] = _block(stmt.then, printer)
            if stmt.orelse:
                fields["orelse"] = _block(stmt.orelse, printer)
    return {type(stmt).__name__.removeprefix("Gpu"): fields}


def _field(name: str, value: Any, printer: GpuPrinter) -> Any:
    if name == _VARIABLE:
        return printer.variable(value)
    if isinstance(value, AxisExpr):
        return printer.index(value)
    if isinstance(value, At):
        return printer.at(value)
    if isinstance(value, Within):
        return f"{value.low} <= {printer.index(value.expr)} < {value.high}"
    if isinstance(value, tuple):
        return [_field("", item, printer) for item in value if not isinstance(item, KernelNode)]
    if isinstance(value, KernelNode):
        return printer.value(value)
    return value
