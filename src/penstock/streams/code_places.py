"""Where a function of the user's stands: `revenue.py:12`, the line that raised if it is known."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.streams.errors import StreamsError

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
    """Return what `work` does with the function. What is wrong with it is told with its place."""
    try:
        return work()
    except StreamsError as problem:
        place = place_of(function, problem)
        raise type(problem)(f"{place}: {problem}" if place else str(problem)) from problem
