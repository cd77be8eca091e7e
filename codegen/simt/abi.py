"""The structs that Python and the engine share: `engine/state.h` in ctypes."""

from __future__ import annotations

import ctypes

from codegen.simt.report import Counters

MOST_FINDINGS = 256
"""Findings that one launch keeps."""


class CFinding(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("line", ctypes.c_int32),
        ("first_line", ctypes.c_int32),
        ("block", ctypes.c_int32 * 3),
        ("warp", ctypes.c_int32),
        ("lane", ctypes.c_int32),
        ("first_warp", ctypes.c_int32),
        ("first_lane", ctypes.c_int32),
        ("first_block", ctypes.c_int64),
        ("stores", ctypes.c_int32),
        ("first_stores", ctypes.c_int32),
        ("buffer", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("bytes", ctypes.c_uint64),
        ("lanes", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
    )


class CBuffer(ctypes.Structure):
    _fields_ = (
        ("host", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("element_bytes", ctypes.c_uint32),
        ("writable", ctypes.c_uint32),
        ("counts", ctypes.c_uint32),
    )


class CCounters(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in Counters.__struct_fields__)


class CLaunch(ctypes.Structure):
    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("buffers", ctypes.POINTER(CBuffer)),
        ("buffer_count", ctypes.c_uint32),
        ("grid", ctypes.c_uint32 * 3),
        ("threads", ctypes.c_uint32),
        ("shared_bytes", ctypes.c_uint32),
        ("shared_limit", ctypes.c_uint32),
        ("order", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("fuel", ctypes.c_uint64),
        ("findings", ctypes.POINTER(CFinding)),
        ("finding_capacity", ctypes.c_uint32),
        ("finding_count", ctypes.c_uint32),
        ("counters", CCounters),
    )


LAYOUT = (CLaunch, CFinding, CCounters, CBuffer)
"""The structs in the order of `eq_simt_layout`."""
