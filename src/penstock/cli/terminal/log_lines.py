"""Log lines of a node that runs as a process: one line per message.

    2026-11-15T15:14:48.123Z INFO  penstock.loading: opened 12 partitions in ./data ...

Only commands install this format. A node embedded in another program uses the logging of that
program.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

from penstock.log_levels import LogLevel, level_of

LOGGER = "penstock"

# Control characters; clients choose parts of messages, so these are escaped.
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
            # Indented, so that no line of it looks like a message.
            line += "".join(f"\n    {each}" for each in trace.split("\n"))
        return line


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


class LogStream(Protocol):
    """A text stream for log lines."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


@contextmanager
def logging_to(stream: LogStream, level: LogLevel) -> Iterator[None]:
    """Log messages of this level and above, and warnings of other libraries, to a stream."""
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
