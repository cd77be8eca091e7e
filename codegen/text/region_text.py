"""A region as lines of text, for the comment above its kernel."""

from __future__ import annotations

from ir.region import Buffer, Number, Op, Operand, Region, Yield


def region_text(region: Region) -> str:
    """One line per buffer and op: `T = add(x[i0, i1], b[i1])  over [4,8]`."""
    inputs = ", ".join(map(_buffer, region.inputs))
    outputs = ", ".join(map(_buffer, region.outputs))
    lines = [f"region {region.name} ({inputs}) -> ({outputs})"]
    lines += [f"  {let.name} = {_op(let.op)}" for let in region.body]
    lines += [f"  {each.buffer}{_place(each)} = {_operand(Operand(each.value, each.map))}" for each in region.yields]
    return "\n".join(lines)


def _place(each: Yield) -> str:
    """Where a point of the first output writes another buffer."""
    return str(each.at).partition(" -> ")[2] if each.at else ""


def _buffer(buffer: Buffer) -> str:
    return f"{buffer.name}: {buffer.memref.dtype}[{','.join(map(str, buffer.memref.shape))}]"


def _op(op: Op) -> str:
    args = [_operand(each) for each in op.inputs]
    if op.index_map is not None:
        args.append(str(op.index_map))
    if op.axis is not None:
        args.append(f"axis {op.axis}")
    name = op.fn if op.kind in ("ewise", "unary", op.fn) else f"{op.kind} {op.fn}"
    size = f"[{','.join(map(str, op.domain))}]"
    over = f" over {size}" + (f", the last {op.reduced} reduced" if op.reduced else "")
    return f"{name}({', '.join(args)}) : {op.dtype}{over}"


def _operand(operand: Operand | Number) -> str:
    if isinstance(operand, Number):
        return str(operand.number)
    reads = str(operand.map).partition(" -> ")[2]
    return f"{operand.value}{reads}"
