"""An exception as the text of a finding."""

from __future__ import annotations

import traceback
from pathlib import Path


def error_text(error: BaseException) -> str:
    """The exception, and the last place that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {str(error)[:400]}{where}"
