"""Errors of Streams; each text says what to write instead. Also: the cause and place of an
error."""

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar


class StreamsError(Exception):
    """Any problem of a Streams application."""


class TopologyError(StreamsError):
    """The topology is inconsistent: a missing field, a duplicate name."""


class NotOffered(StreamsError):
    """A feature of Kafka Streams that Spark lacks; the text has the alternative."""


class TracingError(StreamsError):
    """A lambda used an expression in a way that has no meaning for a column."""


class QueryFailed(StreamsError):
    """A running query stopped with an error."""


class RecordFailed(StreamsError):
    """A function of the application raised an error for a record, and bad records are fatal."""


_ERROR = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Failed|Fenced|Exit)\b.*"
    r"|(?:[a-z_]\w*\.)+[A-Z]\w*: .*)$"  # any name, as Python writes it: package.module.Name
)
# Lines of Spark around an error that carry no cause.
_WRAPPERS = ("An exception was", "PythonException", "Py4J", "StreamingQueryException", "SQLSTATE")


def reason_of(problem: BaseException) -> str:
    """Return the innermost error in Spark's text, else its first line."""
    lines = str(problem).partition("=== Streaming Query ===")[0].splitlines()
    found = [
        match[1]
        for line in lines
        if (match := _ERROR.match(line.strip())) and not any(each in line for each in _WRAPPERS)
    ]
    if found:
        return found[-1]
    for line in lines:
        if line.strip():
            return line.strip()
    return type(problem).__name__


R = TypeVar("R")


def place_of(function: Callable[..., Any], problem: BaseException | None = None) -> str:
    """Return file and line, or nothing for a function that was not written in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    line, at = code.co_firstlineno, problem.__traceback__ if problem is not None else None
    while at is not None:
        if at.tb_frame.f_code.co_filename == code.co_filename:
            line = at.tb_lineno
        at = at.tb_next
    return f"{code.co_filename}:{line}"


def with_place(function: Callable[..., Any], work: Callable[[], R]) -> R:
    """Return the result of `work` on the function. Raise its errors with file and line."""
    try:
        return work()
    except StreamsError as problem:
        place = place_of(function, problem)
        raise type(problem)(f"{place}: {problem}" if place else str(problem)) from problem
