"""Every exception and every result of a function decides its record: no lane waits for ever."""

import asyncio
import concurrent.futures
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.client.records import Record
from penstock.worker.function_call import HandlerExit, NotCallable, arguments_of, call_of

RECORD: Record[Any, Any] = Record("t", 0, 0, b"k", "value")
SECONDS_MAX = 5.0


def call(function: Callable[..., Any]) -> object:
    async def story() -> object:
        with ThreadPoolExecutor(1) as threads:
            async with asyncio.timeout(SECONDS_MAX):
                return await call_of(function, lambda: threads)(RECORD)

    return asyncio.run(story())


@pytest.mark.parametrize(
    "error",
    [
        StopIteration("nothing"),
        StopAsyncIteration("nothing"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        concurrent.futures.CancelledError(),
    ],
    ids=lambda error: type(error).__module__ + "." + type(error).__name__,
)
def test_whatever_ends_a_function_in_a_thread_is_an_exception_of_its_call(
    error: BaseException,
) -> None:
    def function(_value: object) -> None:
        raise error

    with pytest.raises(HandlerExit, match=type(error).__name__) as told:
        call(function)
    assert told.value.__cause__ is error


def test_an_error_of_a_function_in_a_thread_is_raised_as_it_is() -> None:
    def function(value: object) -> None:
        raise ValueError(value)

    with pytest.raises(ValueError, match="value"):
        call(function)


def test_a_coroutine_function_that_raises_stop_iteration_has_failed() -> None:
    async def function(_value: object) -> object:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        call(function)


def test_what_a_plain_function_returns_to_be_awaited_is_awaited() -> None:
    async def inner(value: object) -> object:
        await asyncio.to_thread(int)
        return f"{value}, awaited"

    @functools.wraps(inner)
    def wrapped(value: object) -> object:
        return inner(value)

    del wrapped.__wrapped__
    assert call(wrapped) == "value, awaited"


def test_functions_that_yield_are_refused() -> None:
    def plain(value: object) -> Iterator[object]:
        yield value

    async def coroutine(value: object) -> Any:
        yield value

    for function in (plain, coroutine):
        with pytest.raises(NotCallable, match="yields"):
            arguments_of(function)


def test_a_generator_that_a_function_returns_is_no_result() -> None:
    def function(value: object) -> Iterator[object]:
        return (each for each in [value])

    with pytest.raises(TypeError, match="generator"):
        call(function)
