"""Log levels by Kafka's names, and their numbers in Python's logging."""

import logging
from enum import StrEnum


class LogLevel(StrEnum):
    """The levels, from the most verbose to the least."""

    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    FATAL = "FATAL"

    @property
    def number(self) -> int:
        return _NUMBERS[self]


_NUMBERS = {
    LogLevel.TRACE: 5,  # Python has no name for anything below DEBUG
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARN: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
    LogLevel.FATAL: logging.CRITICAL,
}


def level_of(number: int) -> LogLevel:
    """Return the highest level at or below the number, or the lowest level."""
    found = LogLevel.TRACE
    for level, start in _NUMBERS.items():
        if start <= number:
            found = level
    return found
