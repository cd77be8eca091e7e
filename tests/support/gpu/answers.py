"""Answers of a worker of the GPU bench, for tests in processes that import little."""

from __future__ import annotations

import os
import time
from typing import Any

from bench.gpu.worker import Answer

CEILINGS = {"bytes_per_s": 1e12, "flops_per_s": 1e14}


def answers() -> Answer:
    """Rows at once, and a request for each way to be lost."""

    def answer(request: Any) -> Any:
        match request:
            case "who":
                return os.getpid()
            case "die":
                raise SystemExit
            case "hang":
                time.sleep(60)
            case "raise":
                raise ValueError("no")
            case "ceilings":
                return CEILINGS
        figures = {"TFLOP/s": 1.0, "GB/s": 2.0, "of ceiling": 0.5, "best peer": None, "ratio": None}
        return {
            "case": request[0],
            "times": {"eqsat": {"us": 5.0}},
            "absent": {"triton": "is not installed"},
            **figures,
        }

    return answer


def broken() -> Answer:
    raise ValueError("no device after all")
