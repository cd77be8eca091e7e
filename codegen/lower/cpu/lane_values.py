"""Lanes of one dtype as another's."""

from __future__ import annotations

from codegen.lower.conversions import Conversions
from ir.kernel.cpu.nodes import CpuCall, Value

CONVERSIONS: Conversions[Value] = Conversions(CpuCall)
convert = CONVERSIONS.convert
