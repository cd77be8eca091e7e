"""The steps of eqsat as they happen: records of Python's `logging` under `eqsat.*`, shown on stderr if the environment
asks for them.

    EQSAT_LOG=rules,extract,plan,compile,call   the topics to show, or all
    EQSAT_DEBUG=1                               all topics
    EQSAT_DEBUG=2                               all topics, and the kernels of every call with their measured times

A program may also set the level of a logger itself: INFO shows what the topics show, DEBUG of `eqsat.call` the kernels.
"""

from __future__ import annotations

import logging
import os
import warnings

from ir.diagnostics import EqsatWarning

TOPICS = ("rules", "extract", "plan", "compile", "call")
RULES, EXTRACT, PLAN, COMPILE, CALL = (logging.getLogger(f"eqsat.{topic}") for topic in TOPICS)
OF_STAGE = {"saturate": RULES, "extract": EXTRACT, "lower": PLAN, "compile": COMPILE, "load": COMPILE}
"""The topic of each stage of the path."""


def show(topics: str | None, debug: str | None) -> None:
    """Shows records on stderr, as the values of EQSAT_LOG and EQSAT_DEBUG say. A word that is no topic
    causes an EqsatWarning."""
    level = int(debug) if debug and debug.isdecimal() else 0
    words = [word.strip() for word in (topics or "").split(",") if word.strip()]
    unknown = [word for word in words if word not in (*TOPICS, "all")]
    if unknown:
        message = f"EQSAT_LOG has no topic {', '.join(unknown)}; its topics are {', '.join(TOPICS)} and all"
        warnings.warn(message, EqsatWarning, stacklevel=2)
    for topic in TOPICS if level or "all" in words else [word for word in words if word in TOPICS]:
        logger = logging.getLogger(f"eqsat.{topic}")
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(relativeCreated)9.1f ms  %(name)-13s  %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG if level > 1 else logging.INFO)
        logger.propagate = False  # a handler of the caller would show the records twice


show(os.environ.get("EQSAT_LOG"), os.environ.get("EQSAT_DEBUG"))
