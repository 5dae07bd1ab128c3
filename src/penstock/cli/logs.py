"""The log of a node that runs as a process: one line per message, for people and for grep.

    2026-11-15T15:14:48.123Z INFO  penstock.loading: opened 12 partitions in ./data ...

Only `penstock start` sets this up. Embedded in another program, a node speaks to whatever that
program has made of Python's logging.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

from penstock.log_levels import LogLevel, level_of

LOGGER = "penstock"

# What could end a line or steer a terminal; names and texts of clients get into messages.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_BREAKS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        level = level_of(record.levelno)
        message = _CONTROL.sub(_escaped, record.getMessage())
        line = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z {level:5} {record.name}: "
        line += message
        if record.exc_info:
            trace = _CONTROL_BUT_BREAKS.sub(_escaped, self.formatException(record.exc_info))
            # Indented, so that nothing in it can be taken for a message.
            line += "".join(f"\n    {each}" for each in trace.split("\n"))
        return line


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


class Written(Protocol):
    """As much of a text stream as a log needs."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


@contextmanager
def logging_to(stream: Written, level: LogLevel) -> Iterator[None]:
    """Log what is of this level and above; other libraries' warnings too."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Lines())
    ours = logging.getLogger(LOGGER)
    before = ours.level
    logging.root.addHandler(handler)
    ours.setLevel(level.number)
    try:
        yield
    finally:
        ours.setLevel(before)
        logging.root.removeHandler(handler)
