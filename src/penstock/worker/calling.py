"""How a function is called: with the value, or with the value and the record.

Coroutine functions run in the event loop; others in threads of the worker's own. A thread cannot be
cancelled: if its time is up the attempt has failed, and the function goes on until it returns.

Whatever a function in a thread raises is an ordinary exception of its call: what would end a thread
or a task (SystemExit, KeyboardInterrupt, a cancellation) was not meant for the event loop, and a
future cannot carry StopIteration.
"""

import asyncio
import contextvars
import inspect
import typing
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Executor
from typing import Any, TypeAlias

from penstock.client.records import Record

# What `Worker.on` decorates.
Function: TypeAlias = Callable[..., Any]


class NotCallable(TypeError):
    """The function cannot be called with a value, nor with a value and a record."""


class EndedOddly(RuntimeError):
    """A function in a thread raised what is meant to end a thread, a task or a generator."""


def arguments_of(function: Function) -> Callable[[Record[Any, Any]], tuple[Any, ...]]:
    """What the function gets of a record. NotCallable if its parameters do not fit."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise NotCallable(
            f"{_name(function)} yields; a handler returns its result, several as a list of "
            "OutRecords"
        )
    parameters = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    needed = [each for each in parameters if each.default is each.empty]
    if len(needed) == 1 and _means_record(function, needed[0].name):
        return lambda record: (record,)
    if len(needed) == 1:
        return lambda record: (record.value,)
    if len(needed) == 2:
        return lambda record: (record.value, record)
    raise NotCallable(
        f"{_name(function)} has {len(needed)} parameters; a handler takes (value), (value, record) "
        "or (record: Record)"
    )


def _means_record(function: Function, parameter: str) -> bool:
    try:
        said = typing.get_type_hints(function).get(parameter)
    except Exception:  # a name that cannot be resolved says nothing about records
        return False
    return (typing.get_origin(said) or said) is Record


def calling(
    function: Function, executor: Callable[[], Executor]
) -> Callable[[Record[Any, Any]], Awaitable[object]]:
    """A coroutine function of a record."""
    arguments = arguments_of(function)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
    ):

        async def call(record: Record[Any, Any]) -> object:
            return _checked(function, await function(*arguments(record)))

        return call

    async def call_in_thread(record: Record[Any, Any]) -> object:
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        given = arguments(record)
        result, error = await loop.run_in_executor(
            executor(), lambda: context.run(_outcome, function, given)
        )
        if error is not None:
            raise error
        # A wrapper that is no coroutine function itself may return what its inner one would do.
        return _checked(function, await result if inspect.isawaitable(result) else result)

    return call_in_thread


def _outcome(function: Function, given: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """What it returned, or why it failed."""
    try:
        return function(*given), None
    except (StopIteration, StopAsyncIteration, asyncio.CancelledError, CancelledError) as error:
        odd: BaseException = error
    except Exception as error:
        return None, error
    except BaseException as error:
        odd = error
    failure = EndedOddly(f"{_name(function)} raised {odd!r}")
    failure.__cause__ = odd
    return None, failure


def _checked(function: Function, result: object) -> object:
    """TypeError if nothing of it has run yet: it would count as handled, and never be."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result) or inspect.iscoroutine(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            f"{_name(function)} returned a {type(result).__name__}, of which nothing has run"
        )
    return result


def _name(function: Function) -> str:
    return getattr(function, "__qualname__", repr(function))
