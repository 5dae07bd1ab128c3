"""Calls a handler function: with the value, the record, or both.

Coroutine functions run in the event loop, others on threads of the worker. A thread cannot be
cancelled: after the timeout the attempt has failed, and the function runs on until its return.

Every exception of a function on a thread becomes an ordinary exception of its call: SystemExit,
KeyboardInterrupt or a cancellation must not end the event loop, and a future cannot carry
StopIteration.
"""

import asyncio
import contextvars
import inspect
import typing
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Executor
from typing import Any, TypeAlias

from penstock.client.records import Record

# A function that `Worker.on` decorates.
Function: TypeAlias = Callable[..., Any]


class NotCallable(TypeError):
    """The function cannot be called with a value, nor with a value and a record."""


class HandlerExit(RuntimeError):
    """A function on a thread raised an exception that ends a thread, a task or a generator."""


def arguments_of(function: Function) -> Callable[[Record[Any, Any]], tuple[Any, ...]]:
    """Return the arguments of a call as a function of the record; raise NotCallable."""
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
    except Exception:  # an unresolvable annotation does not name Record
        return False
    return (typing.get_origin(said) or said) is Record


def call_of(
    function: Function, executor: Callable[[], Executor]
) -> Callable[[Record[Any, Any]], Awaitable[object]]:
    """Return the function as a coroutine function of a record."""
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
        # A plain wrapper may return the coroutine of its inner function.
        return _checked(function, await result if inspect.isawaitable(result) else result)

    return call_in_thread


def _outcome(function: Function, given: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """Return the result of a call, or its error."""
    try:
        return function(*given), None
    except (StopIteration, StopAsyncIteration, asyncio.CancelledError, CancelledError) as error:
        odd: BaseException = error
    except Exception as error:
        return None, error
    except BaseException as error:
        odd = error
    failure = HandlerExit(f"{_name(function)} raised {odd!r}")
    failure.__cause__ = odd
    return None, failure


def _checked(function: Function, result: object) -> object:
    """Return the result; raise TypeError for a coroutine or a generator that has not run."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result) or inspect.iscoroutine(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            f"{_name(function)} returned a {type(result).__name__}, of which nothing has run"
        )
    return result


def _name(function: Function) -> str:
    return getattr(function, "__qualname__", repr(function))
